#include "cuda/emulation/stand_in.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "cuda/emulation/block.h"
#include "cuda/emulation/memory.h"
#include "cuda/emulation/multiply.h"
#include "engine/core/device.h"

using Work = std::function<void()>;

struct CUstream_st {
  std::deque<Work> waiting;
  bool capturing = false;
  std::vector<Work> captured;
  double clock = 0;  // seconds

  void add(Work work) {
    if (capturing) {
      captured.push_back(std::move(work));
    } else {
      waiting.push_back(std::move(work));
    }
  }
  void run() {
    while (!waiting.empty()) {
      const Work next = std::move(waiting.front());
      waiting.pop_front();
      next();
      clock += 1e-6;
    }
  }
};

struct CUevent_st {
  CUstream_st* stream = nullptr;
  double time = -1;
};

struct CUgraph_st {
  std::vector<Work> nodes;
};

struct CUgraphExec_st {
  std::vector<Work> nodes;
  bool uploaded = false;
};

namespace oxrse::emulation {

void enqueue(CUstream_st& stream, Work work) { stream.add(std::move(work)); }

}  // namespace oxrse::emulation

namespace oxrse::cuda_emulated {

void StandIn::called(const std::string& name) {
  ++calls[name];
  if (broken.contains(name)) throw DeviceError(name + ": broken on purpose");
}

std::vector<cuda::Properties> StandIn::devices() {
  if (machine.empty()) throw DeviceError("devices: there are none");
  return machine;
}

std::int64_t StandIn::free_bytes() {
  const auto in_use = static_cast<std::int64_t>(allocated[Memory::Device] + allocated[Memory::Shared]);
  return std::max<std::int64_t>(0, machine.front().memory - in_use);
}

std::byte* StandIn::allocate(Memory kind, std::size_t bytes) {
  called("allocate");
  if (kind == Memory::Shared && captures_ > 0) throw DeviceError("allocate: shared memory is waited for, while a graph is captured");
  std::byte* memory = allocate_poisoned(bytes);
  memory_[memory] = bytes;
  allocated[kind] += bytes;
  return memory;
}

void StandIn::release(Memory kind, std::byte* memory) noexcept {
  allocated[kind] -= memory_[memory];
  memory_.erase(memory);
  free_poisoned(memory);
}

cuda::Stream StandIn::make_stream() { return new CUstream_st; }
void StandIn::release(cuda::Stream stream) noexcept { delete stream; }

void StandIn::wait(cuda::Stream stream) {
  called("wait");
  if (stream->capturing) throw DeviceError("wait: while a graph is captured");
  stream->run();
}

void StandIn::wait_or_end(cuda::Stream stream, double /*seconds*/, const std::string& why) {
  stream->run();  // before memory goes that nobody needs after the end of a process
  if (broken.contains("wait_or_end")) ends.push_back(why);
  called("wait_or_end");
}

void StandIn::copy(cuda::Stream stream, void* to, const void* from, std::size_t bytes) {
  called("copy");
  stream->add([=] { std::memcpy(to, from, bytes); });
}

cuda::Event StandIn::make_event() { return new CUevent_st; }
void StandIn::release(cuda::Event event) noexcept { delete event; }

void StandIn::record(cuda::Event event, cuda::Stream stream) {
  event->stream = stream;
  stream->add([event, stream] { event->time = stream->clock; });
}

double StandIn::seconds_between(cuda::Event begin, cuda::Event end) {
  if (begin->stream == nullptr || end->stream == nullptr) throw DeviceError("seconds_between: an event was not recorded");
  if (end->stream->capturing) throw DeviceError("seconds_between: while a graph is captured");
  end->stream->run();
  return end->time - begin->time;
}

void StandIn::begin_capture(cuda::Stream stream) {
  called("begin_capture");
  if (std::exchange(stream->capturing, true)) throw DeviceError("begin_capture: while a graph is captured");
  ++captures_;
}

cuda::Graph StandIn::end_capture(cuda::Stream stream) {
  --captures_;
  stream->capturing = false;
  return new CUgraph_st{std::exchange(stream->captured, {})};
}

void StandIn::abandon_capture(cuda::Stream stream) noexcept {
  --captures_;
  stream->capturing = false;
  stream->captured.clear();
}

cuda::GraphExec StandIn::instantiate(cuda::Graph graph) {
  called("instantiate");
  return new CUgraphExec_st{graph->nodes};
}

bool StandIn::update(cuda::GraphExec exec, cuda::Graph graph) {
  called("update");
  if (exec->nodes.size() != graph->nodes.size()) return false;
  exec->nodes = graph->nodes;
  return true;
}

void StandIn::upload(cuda::GraphExec exec, cuda::Stream stream) {
  if (!std::exchange(exec->uploaded, true)) stream->add([stream] { stream->clock += 1e-3; });
}

void StandIn::launch(cuda::GraphExec exec, cuda::Stream stream) {
  called("launch");
  upload(exec, stream);
  for (const Work& node : exec->nodes) stream->add(node);
}

void StandIn::release(cuda::Graph graph) noexcept { delete graph; }
void StandIn::release(cuda::GraphExec exec) noexcept { delete exec; }

std::vector<cuda::Algorithm> StandIn::algorithms(const cuda::Multiplication& product, const cuda::Operands& /*operands*/,
                                                 std::size_t /*workspace*/, int most) {
  called("algorithms");
  if (product.activation != cuda::Multiplication::Activation::None && product.ldaux % 8 != 0)
    throw DeviceError("algorithms: rows of an auxiliary matrix must be multiples of 8 apart");
  if (product.alignment < least_alignment) return {};
  if (product.activation != cuda::Multiplication::Activation::None && !activations) return {};
  std::vector<cuda::Algorithm> all;
  for (int i = 0; i < std::min(most, algorithm_count); ++i) {
    all.push_back({static_cast<std::uint64_t>(i), std::hash<std::string>{}(product.key())});
  }
  return all;
}

bool StandIn::accepts(const cuda::Multiplication& product, const cuda::Operands& /*operands*/, const cuda::Algorithm& algorithm,
                      std::size_t /*workspace*/) {
  return algorithm[0] < static_cast<std::uint64_t>(algorithm_count) && algorithm[1] == std::hash<std::string>{}(product.key());
}

void StandIn::multiply(cuda::Stream stream, const cuda::Multiplication& product, const cuda::Operands& operands,
                       const cuda::Algorithm& algorithm, std::byte* workspace, std::size_t workspace_bytes) {
  called("multiply");
  if (!accepts(product, operands, algorithm, workspace_bytes)) throw DeviceError("multiply: this algorithm is not for this product");
  if (workspace == nullptr) throw DeviceError("multiply: there is no workspace");
  stream->add([=, this] {
    reference_product(product, operands);
    used.push_back(algorithm);
    stream->clock += seconds_of(algorithm);
  });
}

}  // namespace oxrse::cuda_emulated
