#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "cuda/device.h"
#include "cuda/runtime/algorithm_cache.h"
#include "cuda/runtime/handle.h"

namespace oxrse::cuda {

/// The product as the library has it: matrices of rows are its matrices of columns, so it computes C^T = op(B)^T op(A)^T.
Multiplication multiplication_of(const Product& product);
Operands operands_of(const Product& product);

/// Whether the rows of GELU's auxiliary matrix are as far apart as the library wants them; it has errors for others, not fewer algorithms.
bool takes_auxiliary(const Multiplication& product);

/// Matrix products by the library, each by the algorithm that was measured to be the fastest for its sizes, types and epilogue.
class Matmul {
 public:
  Matmul(Api& api, AlgorithmCache cache) : api_(api), cache_(std::move(cache)), workspace_(api, Api::Memory::Device, kWorkspace) {}

  /// Enqueues the product; false where the library has no algorithm for it. `measure`: whether algorithms may be tried now, which waits
  /// for the stream; otherwise the library's own choice is taken where none was measured before.
  bool multiply(Stream stream, const Product& product, bool measure);
  /// From here on the first rank's algorithms are taken (Device::agree).
  void agree(const Device::Agree& agree) { agree_ = agree; }
  /// Keeps what was measured for the next run.
  void save() { cache_.save(); }

  static constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // NVIDIA's advice for sm_90
  static constexpr int kCandidates = 8;
  static constexpr int kRuns = 5;  // of which the time is taken

 private:
  std::optional<Algorithm> choose(Stream stream, const Multiplication& product, const Operands& operands, bool measure);
  std::optional<Algorithm> of_first_rank(const Multiplication& product, const Operands& operands,
                                         const std::function<std::optional<Algorithm>()>& own) const;
  std::optional<Algorithm> find(Stream stream, const Multiplication& product, const Operands& operands, bool measure);
  std::optional<Algorithm> fastest(Stream stream, const Multiplication& product, Operands operands,
                                   const std::vector<Algorithm>& candidates);

  Api& api_;
  AlgorithmCache cache_;
  struct Chosen {
    std::optional<Algorithm> algorithm;
    bool agreed = false;  // among the ranks
  };
  std::map<std::string, Chosen> chosen_;  // in this run
  Device::Agree agree_;
  Buffer workspace_;
};

}  // namespace oxrse::cuda
