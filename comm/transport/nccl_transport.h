#pragma once

#include <memory>

#include "comm/transport/nccl.h"
#include "comm/transport/nccl_rank.h"

namespace oxrse::comm {

/// Programs on one stream of a GPU: every step is a group of NCCL's sends and receives and then kernels that add what arrived. What is on
/// the stream runs without the host.
///
/// NCCL has no tags, and a group that one rank starts and another does not waits for ever inside a kernel. So an operation goes to the
/// stream when all ranks that it has to do with have said, by way of the host, that they are at the same one; a rank that is elsewhere is
/// then found out as it is on other transports.
class NcclTransport : public DeviceTransport {
 public:
  NcclTransport(std::unique_ptr<NcclRank> rank, const DeviceKernels& kernels);

  std::unique_ptr<Execution> execute(const Program& program, Operands operands, const Tag& tag, Transport& host) override;
  void abort() noexcept override { rank_->abort(); }
  std::byte* allocate(std::int64_t bytes) override;
  void release(std::byte* memory) override;
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override;

 private:
  friend class NcclExecution;

  std::unique_ptr<NcclRank> rank_;
  DeviceKernels kernels_;
  std::uint64_t executions_ = 0;  // that were made
  std::uint64_t enqueued_ = 0;    // that are on the stream: the others follow in the order in which they were made
};

}  // namespace oxrse::comm
