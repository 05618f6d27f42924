#ifdef OXRSE_HAVE_NCCL
#include "comm/transport/nccl_rank.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>
#include <utility>

#include "engine/core/error.h"

namespace oxrse::comm {
namespace {

constexpr double kLeaveSeconds = 10;  // for the others to leave, too

}  // namespace

void check_cuda(std::string_view call, cudaError_t status) { require(status == cudaSuccess, "{}: {}", call, cudaGetErrorString(status)); }

NcclRank::NcclRank(int device, int rank, int size, const ncclUniqueId& id, double timeout_s) : device_(device) {
  select();
  check_cuda("cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  try {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check("ncclCommInitRankConfig", ncclCommInitRankConfig(&comm_, size, id, rank, &config));
    wait_until_settled("ncclCommInitRankConfig", timeout_s);
  } catch (const Error&) {
    abort();
    cudaStreamDestroy(stream_);
    throw;
  }
}

NcclRank::~NcclRank() {
  try {
    select();
    if (comm_ != nullptr && std::uncaught_exceptions() == 0) {
      check("ncclCommFinalize", ncclCommFinalize(comm_));
      wait_until_settled("ncclCommFinalize", kLeaveSeconds);
      ncclCommDestroy(std::exchange(comm_, nullptr));
    }
  } catch (const Error& error) {
    fmt::print(stderr, "warning: leaving NCCL failed: {}\n", error.what());
  }
  abort();
  cudaStreamDestroy(stream_);
}

void NcclRank::select() const { check_cuda("cudaSetDevice", cudaSetDevice(device_)); }

void NcclRank::check(std::string_view call, ncclResult_t result) const {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const char* details = ncclGetLastError(comm_);
  const std::string more = details == nullptr || *details == '\0' ? "" : fmt::format(" ({})", details);
  fail("{} on GPU {}: {}{}; NCCL_DEBUG=WARN shows more", call, device_, ncclGetErrorString(result), more);
}

void NcclRank::wait_until_settled(const char* call, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  while (!settled()) {
    require(std::chrono::steady_clock::now() - start < std::chrono::duration<double>(seconds),
            "{} on GPU {}: not done after {} s: do all ranks reach each other? NCCL_DEBUG=INFO shows over which network", call, device_,
            seconds);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool NcclRank::settled() {
  require(comm_ != nullptr, "NCCL was aborted");
  ncclResult_t state = ncclSuccess;
  check("ncclCommGetAsyncError", ncclCommGetAsyncError(comm_, &state));
  check("the last call of NCCL", state);
  return state == ncclSuccess;
}

void NcclRank::group(const std::function<void()>& transfers) {
  require(comm_ != nullptr, "NCCL was aborted");
  check("ncclGroupStart", ncclGroupStart());
  try {
    transfers();
  } catch (const Error&) {
    ncclGroupEnd();  // with an error inside, it starts nothing
    throw;
  }
  check("ncclGroupEnd", ncclGroupEnd());
}

void NcclRank::send(int peer, const std::byte* data, std::int64_t bytes) {
  check("ncclSend", ncclSend(data, static_cast<std::size_t>(bytes), ncclUint8, peer, comm_, stream_));
}

void NcclRank::receive(int peer, std::byte* data, std::int64_t bytes) {
  check("ncclRecv", ncclRecv(data, static_cast<std::size_t>(bytes), ncclUint8, peer, comm_, stream_));
}

void NcclRank::abort() noexcept {
  if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
}

}  // namespace oxrse::comm
#endif
