#include <cuda_runtime.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "tests/comm/nccl/stand_in/stand_in.h"

using namespace oxrse;
using namespace oxrse::comm;
using stand_in::Stream;

namespace {

// Addresses on a device are not those of the memory they stand for: whoever uses one on the host crashes.
constexpr std::uintptr_t kBias = std::uintptr_t{1} << 62U;
constexpr std::align_val_t kAlignment{256};
constexpr int kPoison = 0xff;  // NaN: what is read before it is written shows

/// Everything that devices are made of.
struct Devices {
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
  };
  struct Block {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t bytes = 0;
    int device = 0;
  };
  std::mutex mutex;
  int count = 0;
  std::vector<stand_in::Failure> failures;
  std::map<std::uintptr_t, Block> blocks;  // by their address on the device
  std::vector<Stream*> streams;
  std::int64_t allocated = 0, most_allocated = 0;
};
Devices& devices() {
  static Devices all;
  return all;
}

thread_local int first_visible = 0, visible = -1, current = 0;  // visible: -1: all

cudaError_t failure(const char* call) { return static_cast<cudaError_t>(stand_in::failure_of(call, stand_in::current_device())); }

cudaError_t allocate(void** memory, std::size_t bytes, std::uintptr_t bias = kBias) {
  Devices& all = devices();
  const std::lock_guard lock(all.mutex);
  Devices::Block block{std::unique_ptr<std::byte, Devices::Free>(static_cast<std::byte*>(::operator new(bytes, kAlignment))), bytes,
                       stand_in::current_device()};
  std::memset(block.memory.get(), kPoison, bytes);
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(block.memory.get()) + bias;
  all.blocks.emplace(address, std::move(block));
  all.allocated += static_cast<std::int64_t>(bytes);
  all.most_allocated = std::max(all.most_allocated, all.allocated);
  *memory = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

cudaError_t release(void* memory) {
  Devices& all = devices();
  const std::lock_guard lock(all.mutex);
  const auto block = all.blocks.find(reinterpret_cast<std::uintptr_t>(memory));
  if (block == all.blocks.end()) return cudaErrorInvalidValue;
  all.allocated -= static_cast<std::int64_t>(block->second.bytes);
  all.blocks.erase(block);
  return cudaSuccess;
}

bool is_on_device(const void* address) { return reinterpret_cast<std::uintptr_t>(address) >= kBias; }

bool is_of_device(const void* address) {
  Devices& all = devices();
  const std::lock_guard lock(all.mutex);
  const auto block = all.blocks.upper_bound(reinterpret_cast<std::uintptr_t>(address));
  return block != all.blocks.begin() &&
         reinterpret_cast<std::uintptr_t>(address) < std::prev(block)->first + std::prev(block)->second.bytes;
}

/// Calls that use a stream are made by a thread that has selected its device.
cudaError_t check_stream(cudaStream_t stream) {
  return Stream::of(stream).device == stand_in::current_device() ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

}  // namespace

namespace oxrse::comm::stand_in {

Machine::Machine(int count, std::vector<Failure> failures) {
  Devices& all = devices();
  const std::lock_guard lock(all.mutex);
  all.count = count;
  all.failures = std::move(failures);
  all.most_allocated = 0;
}

std::byte* Machine::allocate_managed(std::size_t bytes) {
  void* memory = nullptr;
  allocate(&memory, bytes, 0);
  return static_cast<std::byte*>(memory);
}

Machine::~Machine() {
  Devices& all = devices();
  const std::lock_guard lock(all.mutex);
  all.count = 0;
  all.failures.clear();
  all.blocks.clear();
  all.allocated = 0;
}

void Machine::show_only(int device) {
  first_visible = device;
  visible = 1;
}

std::int64_t Machine::allocated() {
  const std::lock_guard lock(devices().mutex);
  return devices().allocated;
}
std::int64_t Machine::most_allocated() {
  const std::lock_guard lock(devices().mutex);
  return devices().most_allocated;
}

int current_device() { return first_visible + current; }

int failure_of(std::string_view call, int device) {
  Devices& all = devices();
  const std::lock_guard lock(all.mutex);
  for (Failure& f : all.failures) {
    if (f.call == call && f.device == device && f.after-- <= 0) return f.code;
  }
  return 0;
}

std::byte* host_address(const void* memory, std::size_t bytes, int device) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  Devices& all = devices();
  const std::lock_guard lock(all.mutex);
  auto block = all.blocks.upper_bound(address);
  require(block != all.blocks.begin(), "no memory of a device");
  --block;
  require(block->second.device == device && address + bytes <= block->first + block->second.bytes, "not in an allocation of GPU {}",
          device);
  return block->second.memory.get() + (address - block->first);
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  if (const cudaError_t error = check_stream(stream)) return error;
  Stream::of(stream).push(std::move(work));
  return cudaSuccess;
}

struct Stream::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  std::uint64_t pushed = 0, done = 0;
  cudaError_t error = cudaSuccess;
  bool stop = false;
  std::thread thread;

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stop || !work.empty(); });
      if (work.empty()) return;
      const std::function<void()> next = std::move(work.front());
      work.pop_front();
      lock.unlock();
      cudaError_t status = cudaSuccess;
      try {
        next();
      } catch (const std::exception&) {
        status = cudaErrorIllegalAddress;
      }
      lock.lock();
      if (status != cudaSuccess) error = status;
      ++done;
      changed.notify_all();
    }
  }
};

Stream::Stream(int of_device) : device(of_device), state_(new State) {
  state_->thread = std::thread([state = state_] { state->run(); });
}

Stream::~Stream() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->changed.notify_all();
  }
  state_->thread.join();
  delete state_;
}

std::uint64_t Stream::push(std::function<void()> work) {
  const std::lock_guard lock(state_->mutex);
  state_->work.push_back(std::move(work));
  state_->changed.notify_all();
  return ++state_->pushed;
}

cudaError_t Stream::reached(std::uint64_t number) {
  const std::lock_guard lock(state_->mutex);
  if (state_->error != cudaSuccess) return state_->error;
  return state_->done >= number ? cudaSuccess : cudaErrorNotReady;
}

void Stream::synchronize(std::uint64_t number) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done >= number; });
}

}  // namespace oxrse::comm::stand_in

struct StandInEvent {
  Stream* stream = nullptr;
  std::uint64_t number = 0;
};

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
  }
  return "unknown error";
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (const cudaError_t error = failure("cudaGetDeviceCount")) return error;
  *count = visible >= 0 ? visible : devices().count;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  std::memset(properties, 0, sizeof *properties);
  properties->uuid.bytes[0] = static_cast<char>(0xA0);
  properties->uuid.bytes[15] = static_cast<char>(first_visible + device);
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (first_visible + device >= devices().count) return cudaErrorInvalidDevice;
  current = device;
  return failure("cudaSetDevice");
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  if (const cudaError_t error = failure("cudaStreamCreateWithFlags")) return error;
  auto made = std::make_unique<Stream>(stand_in::current_device());
  *stream = made->handle();
  const std::lock_guard lock(devices().mutex);
  devices().streams.push_back(made.release());
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const std::lock_guard lock(devices().mutex);
    std::erase(devices().streams, &Stream::of(stream));
  }
  delete &Stream::of(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Stream& queue = Stream::of(stream);
  const std::uint64_t last = queue.push([] {});
  queue.synchronize(last);
  return queue.reached(last);
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (const cudaError_t error = failure("cudaMalloc")) return error;
  return allocate(memory, bytes);
}

/// Waits for the device first, as that of CUDA does.
cudaError_t cudaFree(void* memory) {
  std::vector<Stream*> streams;
  {
    const std::lock_guard lock(devices().mutex);
    streams = devices().streams;
  }
  for (Stream* const stream : streams) {
    if (stream->device == stand_in::current_device()) stream->synchronize(stream->push([] {}));
  }
  return release(memory);
}

cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = failure("cudaMallocAsync")) return error;
  if (const cudaError_t error = check_stream(stream)) return error;
  return allocate(memory, bytes);
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  Stream::of(stream).push([memory] { release(memory); });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (const cudaError_t error = failure("cudaMemcpyAsync")) return error;
  if (kind == cudaMemcpyDeviceToDevice && !(is_of_device(to) && is_of_device(from))) return cudaErrorInvalidValue;
  return stand_in::enqueue(stream, [=, device = Stream::of(stream).device] {
    const auto reach = [&](const void* p) {
      return is_on_device(p) ? stand_in::host_address(p, bytes, device) : static_cast<std::byte*>(const_cast<void*>(p));
    };
    std::memcpy(reach(to), reach(from), bytes);
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = new StandInEvent;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream)) return error;
  *event = {&Stream::of(stream), Stream::of(stream).push([] {})};
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) { return event->stream->reached(event->number); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
