#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace oxrse::comm {

/// Throws an Error with the name of the call unless CUDA's answer is success.
void check_cuda(std::string_view call, cudaError_t status);

/// The GPU of a rank, a stream of it for collectives, and its place in the NCCL communicator. NCCL is used without blocking: `settled` says
/// when it has taken what it was asked for. All calls but the constructor's and the destructor's return at once.
class NcclRank {
 public:
  /// Joins the communicator `id` of `size` ranks. An Error after `timeout_s` without all of them.
  NcclRank(int device, int rank, int size, const ncclUniqueId& id, double timeout_s);
  /// Leaves it, together with the others unless it was aborted.
  ~NcclRank();
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  /// Makes the GPU that of the calling thread.
  void select() const;
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  /// The sends and receives that `transfers` asks for become one entry of the stream: they go on together, and the stream goes on when all
  /// have ended.
  void group(const std::function<void()>& transfers);
  void send(int peer, const std::byte* data, std::int64_t bytes);
  void receive(int peer, std::byte* data, std::int64_t bytes);
  /// Whether all groups are on the stream. An Error when NCCL failed since.
  bool settled();

  void abort() noexcept;

 private:
  void check(std::string_view call, ncclResult_t result) const;
  void wait_until_settled(const char* call, double seconds);

  int device_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
};

}  // namespace oxrse::comm
