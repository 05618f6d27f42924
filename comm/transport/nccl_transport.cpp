#ifdef OXRSE_HAVE_NCCL
#include "comm/transport/nccl_transport.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/core/error.h"

namespace oxrse::comm {
namespace {

bool sends(const Action& a) { return a.kind == Action::Kind::Send; }

std::vector<int> peers_of(const Program& program) {
  std::vector<int> peers;
  for (const Step& step : program.steps) {
    for (const Action& a : step.transfers) peers.push_back(a.peer);
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

Tensor vector_at(std::byte* address, DType type, std::int64_t count) { return {address, type, {count}}; }

}  // namespace

class NcclExecution : public Execution {
 public:
  NcclExecution(NcclTransport& transport, const Program& program, Operands operands, const Tag& tag, Transport& host)
      : transport_(transport),
        program_(program),
        operands_(std::move(operands)),
        host_(host),
        turn_(transport.executions_++),
        peers_(peers_of(program)) {
    for (const int peer : peers_) {
      handshakes_.push_back(host_.receive(peer, tag, &theirs_, 1));
      handshakes_.push_back(host_.send(peer, tag, &mine_, 1));
    }
  }
  ~NcclExecution() override {
    for (const Transfer transfer : handshakes_) host_.cancel(transfer);
    if (event_ != nullptr) cudaEventDestroy(event_);
    if (memory_ != nullptr) cudaFreeAsync(memory_, gpu().stream());
  }
  NcclExecution(const NcclExecution&) = delete;
  NcclExecution& operator=(const NcclExecution&) = delete;

  bool advance() override {
    if (program_.steps.empty() && turn_ == transport_.enqueued_) {
      ++transport_.enqueued_;
      return true;
    }
    if (!peers_are_here() || turn_ > transport_.enqueued_) return false;
    gpu().select();
    return enqueue() && has_ended();
  }
  [[nodiscard]] std::int64_t events() const override { return events_; }
  [[nodiscard]] std::vector<int> waiting_for() const override { return peers_; }

 private:
  [[nodiscard]] NcclRank& gpu() const { return *transport_.rank_; }

  bool peers_are_here() {
    const std::size_t before = handshakes_.size();
    std::erase_if(handshakes_, [&](Transfer transfer) { return host_.done(transfer); });
    events_ += static_cast<std::int64_t>(before - handshakes_.size());
    return handshakes_.empty();
  }

  /// Puts steps on the stream as far as NCCL takes them; true when all are there.
  bool enqueue() {
    if (event_ != nullptr) return true;
    if (memory_ == nullptr) allocate();
    for (; step_ < program_.steps.size(); ++step_) {
      const Step& step = program_.steps[step_];
      if (!std::exchange(is_grouped_, true) && !step.transfers.empty()) {
        gpu().group([&] { transfer(step); });
        ++events_;
      }
      if (!gpu().settled()) return false;
      add_arrived(step);
      run_local(step);
      is_grouped_ = false;
    }
    if (memory_ != nullptr) check_cuda("cudaFreeAsync", cudaFreeAsync(std::exchange(memory_, nullptr), gpu().stream()));
    check_cuda("cudaEventCreateWithFlags", cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    check_cuda("cudaEventRecord", cudaEventRecord(event_, gpu().stream()));
    ++transport_.enqueued_;
    ++events_;
    return true;
  }

  bool has_ended() {
    gpu().settled();
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    check_cuda("cudaEventQuery", status);
    return true;
  }

  /// The memory is taken and given back by the stream, so that operations which follow each other there have the same.
  void allocate() {
    const std::int64_t bytes = memory_on_device(program_, operands_.type);
    staging_ = operands_.scratch_bytes(program_);
    if (bytes == 0) return;
    void* memory = nullptr;
    check_cuda("cudaMallocAsync", cudaMallocAsync(&memory, static_cast<std::size_t>(bytes), gpu().stream()));
    memory_ = static_cast<std::byte*>(memory);
  }

  [[nodiscard]] std::byte* address(const Range& r) const { return operands_.address(r, memory_); }
  [[nodiscard]] Tensor tensor(const Range& r) const { return vector_at(address(r), operands_.type_of(r), r.count); }

  /// Calls f(action, address) for the transfers of a step, with the address of what is sent or where it arrives.
  template <class F>
  void for_transfers(const Step& step, const F& f) const {
    std::byte* place = memory_ + staging_;
    for (const Action& a : step.transfers) {
      f(a, operands_.is_staged(a) ? place : address(sends(a) ? a.from : a.to));
      if (operands_.is_staged(a)) place += Operands::aligned(operands_.bytes_of(a));
    }
  }

  void transfer(const Step& step) const {
    for_transfers(step, [&](const Action& a, std::byte* data) {
      if (sends(a)) {
        gpu().send(a.peer, data, operands_.bytes_of(a));
      } else {
        gpu().receive(a.peer, data, operands_.bytes_of(a));
      }
    });
  }

  void add_arrived(const Step& step) const {
    for_transfers(step, [&](const Action& a, std::byte* data) {
      if (!operands_.is_staged(a)) return;
      const Tensor arrived = vector_at(data, operands_.wire_of(a), a.to.count);
      if (a.kind == Action::Kind::ReceiveReduce) {
        transport_.kernels_.add(gpu().stream(), tensor(a.to), tensor(a.with), arrived);
      } else {
        transport_.kernels_.convert(gpu().stream(), tensor(a.to), arrived);
      }
    });
  }

  void run_local(const Step& step) const {
    for (const Action& a : step.local) {
      const Tensor to = tensor(a.to), from = tensor(a.from);
      if (a.kind == Action::Kind::Reduce) {
        transport_.kernels_.add(gpu().stream(), to, tensor(a.with), from);
      } else if (to.dtype() != from.dtype()) {
        transport_.kernels_.convert(gpu().stream(), to, from);
      } else if (to.address() != from.address()) {
        check_cuda("cudaMemcpyAsync", cudaMemcpyAsync(to.address(), from.address(), static_cast<std::size_t>(to.bytes()),
                                                      cudaMemcpyDeviceToDevice, gpu().stream()));
      }
    }
  }

  NcclTransport& transport_;
  const Program& program_;
  Operands operands_;
  Transport& host_;
  std::uint64_t turn_;
  std::vector<int> peers_;
  std::byte mine_{}, theirs_{};       // what handshakes carry means nothing: their tag does
  std::vector<Transfer> handshakes_;  // that have not ended
  std::byte* memory_ = nullptr;
  std::int64_t staging_ = 0;  // where it begins in memory_
  std::size_t step_ = 0;
  bool is_grouped_ = false;  // the transfers of the step were asked for
  cudaEvent_t event_ = nullptr;
  std::int64_t events_ = 0;
};

NcclTransport::NcclTransport(std::unique_ptr<NcclRank> rank, const DeviceKernels& kernels) : rank_(std::move(rank)), kernels_(kernels) {}

std::unique_ptr<Execution> NcclTransport::execute(const Program& program, Operands operands, const Tag& tag, Transport& host) {
  return std::make_unique<NcclExecution>(*this, program, std::move(operands), tag, host);
}

std::byte* NcclTransport::allocate(std::int64_t bytes) {
  void* memory = nullptr;
  rank_->select();
  check_cuda("cudaMalloc", cudaMalloc(&memory, static_cast<std::size_t>(bytes)));
  return static_cast<std::byte*>(memory);
}

void NcclTransport::release(std::byte* memory) {
  rank_->select();
  check_cuda("cudaFree", cudaFree(memory));
}

void NcclTransport::copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
  rank_->select();
  check_cuda("cudaMemcpyAsync", cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, rank_->stream()));
  check_cuda("cudaStreamSynchronize", cudaStreamSynchronize(rank_->stream()));
}

}  // namespace oxrse::comm
#endif
