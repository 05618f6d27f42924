#include "cuda/runtime/gpu.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cuda/kernels/table.h"
#include "cuda/runtime/self_test.h"
#include "engine/core/environment.h"

namespace oxrse::cuda {
namespace {

std::string owner_of(const Properties& properties, Api& api) { return properties.name + " " + api.library_version(); }

Properties select(Api& api, int index) {
  const std::vector<Properties> all = api.devices();
  Properties properties = all.at(static_cast<std::size_t>(index));
  require(properties.managed_memory, "{} has no memory that host and device share", properties.describe());
  api.select(index);
  return properties;
}

AlgorithmCache cache_of(const std::filesystem::path& file, const Properties& properties, Api& api) {
  return {file, owner_of(properties, api)};
}

}  // namespace

Gpu::Gpu(std::string_view device_name, const KernelTable& table, Api& api, int index, const std::filesystem::path& cache_file)
    : Cuda(device_name, table),
      api_(api),
      properties_(select(api, index)),
      own_stream_(api, api.make_stream()),
      staging_(api),
      matmul_(api, cache_of(cache_file, properties_, api)) {
  stream = own_stream_.get();
  has_wgmma = wgmma = works_with_wgmma();
}

bool Gpu::works_with_wgmma() {
  if (kernels->attention_wgmma == nullptr || properties_.major != 9 || properties_.minor != 0 || environment("OXRSE_WGMMA") == "0")
    return false;
  const std::string problem = test_attention_wgmma(*this, api_);
  if (problem.empty()) return true;
  fmt::print(stderr, "warning: attention's kernel for {} is not used, because it {}; without this test: OXRSE_WGMMA=0\n", properties_.name,
             problem);
  return false;
}

Gpu::~Gpu() {
  try {
    wait();
  } catch (const Error&) {  // whoever needed the results has been told
  }
}

std::byte* Gpu::allocate(std::int64_t bytes) {
  std::byte* memory = api_.allocate(Api::Memory::Shared, static_cast<std::size_t>(bytes));
  warm_ = false;  // the memory is for other work than before
  return memory;
}

void Gpu::release(std::byte* memory) noexcept {
  try {
    wait();
  } catch (const Error&) {  // whoever needed the results has been told
  }
  api_.release(Api::Memory::Shared, memory);
}

void Gpu::write(std::byte* to, std::span<const std::byte> from) {
  if (from.empty()) return;
  std::byte* staged = staging_.take(from.size());
  std::memcpy(staged, from.data(), from.size());
  api_.copy(stream, to, staged, from.size());
}

void Gpu::wait() {
  require(!capturing_, "{}: the results of a step that is being captured cannot be waited for", name);
  api_.wait(stream);
  staging_.reset();
  outgrown_.clear();
  matmul_.save();
}

Handle<Graph> Gpu::capture(const std::function<void()>& body) {
  api_.begin_capture(stream);
  capturing_ = true;
  try {
    body();
  } catch (...) {
    capturing_ = false;
    api_.abandon_capture(stream);
    throw;
  }
  capturing_ = false;
  return {api_, api_.end_capture(stream)};
}

void Gpu::run_step(const std::function<void()>& step) {
  if (!std::exchange(warm_, true)) return step();
  const Handle<Graph> graph = capture(step);
  if (!step_.present() || !api_.update(step_.get(), graph.get())) step_ = {api_, api_.instantiate(graph.get())};
  api_.launch(step_.get(), stream);
}

std::string Gpu::description() const { return fmt::format("{}: {}", name, properties_.describe()); }

/// Grows by half at least, so that it soon has its size; what it was stays as long as launches may use it.
void* Gpu::scratch(std::size_t bytes) {
  if (bytes > scratch_.bytes()) {
    Buffer larger(api_, Api::Memory::Device, std::max(bytes, scratch_.bytes() + scratch_.bytes() / 2));
    outgrown_.push_back(std::exchange(scratch_, std::move(larger)));
  }
  return scratch_.get();
}

void Gpu::multiply(const Product& product) {
  if (!matmul_.multiply(stream, product, !capturing_)) kernels->multiply(*this, product);
}

double Gpu::seconds_of(const std::function<void()>& body) {
  const Handle<Graph> graph = capture(body);
  const Handle<GraphExec> all(api_, api_.instantiate(graph.get()));
  const Handle<Event> begin(api_, api_.make_event()), end(api_, api_.make_event());
  api_.upload(all.get(), stream);
  api_.record(begin.get(), stream);
  api_.launch(all.get(), stream);
  api_.record(end.get(), stream);
  return api_.seconds_between(begin.get(), end.get());
}

int local_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    if (const char* value = std::getenv(variable); value != nullptr) return std::max(0, std::atoi(value));
  }
  return 0;
}

int device_of(int local_rank, int count) {
  if (count == 1) return 0;
  require(local_rank < count, "process {} of this machine has no GPU of its own, there are {}: start one process a GPU", local_rank + 1,
          count);
  return local_rank;
}

}  // namespace oxrse::cuda
