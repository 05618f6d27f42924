#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "engine/core/context.h"
#include "engine/core/philox.h"

namespace oxrse::bench {

/// Makes the tensors of a case in the context's arena. Numbers are normally distributed and the same in every type but for the rounding to
/// `precision`, so that a case in f64 is the truth for the same case in a type of fewer bits. They are drawn by the CPU, on all devices the
/// same.
class Operands {
 public:
  Operands(Context& context, DType compute, DType precision)
      : context_(context), host_(host_of(context)), compute_(compute), precision_(precision) {}
  /// Makes copies of the tensors that the same case made with `model`: quicker than drawing the numbers again.
  Operands(Context& context, const Operands& model)
      : context_(context), host_(host_of(context)), compute_(model.compute_), precision_(model.precision_), model_(&model) {}

  [[nodiscard]] Context& context() const { return context_; }
  [[nodiscard]] DType compute() const { return compute_; }
  [[nodiscard]] DType accumulator() const { return accumulator_of(compute_); }

  /// mean + spread * normal in the compute type, or for the second form in its accumulator type.
  Tensor normal(std::initializer_list<std::int64_t> sizes, double spread = 1, double mean = 0);
  Tensor normal_sums(std::initializer_list<std::int64_t> sizes, double spread = 1, double mean = 0);
  /// Whole numbers in [0, below), uniform.
  Tensor integers(std::int64_t count, std::int64_t below);
  /// The numbers 0 .. below-1 again and again.
  Tensor counting(std::int64_t count, std::int64_t below);
  /// Room for what a kernel writes; `result` also compares it with f64.
  Tensor room(std::initializer_list<std::int64_t> sizes) { return room(compute_, sizes); }
  Tensor room(DType type, std::initializer_list<std::int64_t> sizes);
  Tensor result(std::initializer_list<std::int64_t> sizes) { return result(room(sizes)); }
  Tensor result_sums(std::initializer_list<std::int64_t> sizes) { return result(room(accumulator(), sizes)); }
  /// Marks a tensor as one the kernel writes.
  Tensor result(Tensor tensor);

  [[nodiscard]] const std::vector<Tensor>& results() const { return results_; }

 private:
  /// The CPU, with the same arena.
  static Context host_of(const Context& context) {
    return {.mode = context.mode, .cpu = context.cpu, .arena = context.arena, .log = nullptr};
  }
  [[nodiscard]] RandomStream next_stream() const { return {1, inputs_.size()}; }
  /// Puts an input on the list; true when its numbers were copied.
  bool copied(const Tensor& input);
  Tensor random(DType type, DType precision, std::initializer_list<std::int64_t> sizes, double spread, double mean);

  Context& context_;
  Context host_;
  DType compute_, precision_;
  const Operands* model_ = nullptr;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> results_;
};

/// The largest difference between the results of two runs of one case, relative to the largest value of the second.
double largest_error(const std::vector<Tensor>& results, const std::vector<Tensor>& truth);

}  // namespace oxrse::bench
