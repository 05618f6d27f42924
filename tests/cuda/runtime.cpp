// The runtime of GPUs over a stand-in of CUDA's libraries, in which nothing runs before somebody waits.
#include <filesystem>
#include <fstream>

#include "cuda/emulation/device.h"
#include "cuda/emulation/memory.h"
#include "cuda/emulation/stand_in.h"
#include "cuda/kernels/table.h"
#include "cuda/runtime/gpu.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/linear.h"
#include "tests/catch.h"
#include "tests/io/temporary.h"
#include "tests/ops/case.h"

using namespace oxrse;
using Catch::Matchers::Contains;
using cuda::Api;
using cuda_emulated::StandIn;

namespace {

/// A GPU of the stand-in, with a cache file of its own.
struct TestGpu {
  explicit TestGpu(StandIn& api, const std::filesystem::path& cache = {}) : gpu("cuda", cuda_emulated::kernel_table(), api, 0, cache) {}

  Context context(Arena& arena) { return {.mode = Mode::Run, .cpu = {}, .arena = &arena, .log = nullptr, .device = &gpu}; }

  cuda::Gpu gpu;
};

/// A GPU with memory for tensors.
struct WithArena {
  StandIn api;
  TestGpu device{api};
  cuda::Gpu& gpu = device.gpu;
  Arena arena = Arena::allocated(1 << 16, &gpu);
  Context context = device.context(arena);
};

Tensor matrix(Arena& arena, std::int64_t rows, std::int64_t columns, DType type = DType::F32) {
  return arena.make(type, {rows, columns}, Memory::Workspace);
}

void fill(const Tensor& t, float value) { std::fill_n(t.data<float>(), t.count(), value); }

/// y = x w^T of ones: every element is the width.
ops::Linear product_of_ones(Arena& arena, std::int64_t rows, std::int64_t width, std::int64_t columns) {
  const ops::Linear op{.y = matrix(arena, rows, columns), .x = matrix(arena, rows, width), .w = matrix(arena, columns, width)};
  fill(Tensor(const_cast<std::byte*>(op.x.address()), DType::F32, {rows, width}), 1);
  fill(Tensor(const_cast<std::byte*>(op.w.address()), DType::F32, {columns, width}), 1);
  return op;
}

}  // namespace

TEST_CASE_METHOD(WithArena, "gpu: what ops write is there after a wait and not before") {
  const Tensor t = arena.make(DType::F32, {100}, Memory::Workspace);
  ops::run(context, ops::Fill{.y = t, .value = 3});
  CHECK(std::isnan(t.data<float>()[99]));
  context.wait();
  CHECK(t.data<float>()[99] == 3);
  CHECK(api.ranges == std::vector<std::string>{"fill"});
  CHECK(api.calls["end_range"] == 1);
}

TEST_CASE_METHOD(WithArena, "gpu: numbers may be forgotten once they are given to write; copies keep their order with ops") {
  const Tensor t = arena.make(DType::F32, {4}, Memory::Workspace), sum = arena.make(DType::F32, {4}, Memory::Workspace);
  std::vector<float> numbers = {1, 2, 3, 4};
  context.write(t, numbers.data());
  ops::run(context, ops::Add{.y = sum, .a = t, .b = t});
  numbers = {9, 9, 9, 9};
  context.write(t, numbers.data());
  context.wait();
  CHECK(std::vector<float>(sum.data<float>(), sum.data<float>() + 4) == std::vector<float>{2, 4, 6, 8});
  CHECK(t.data<float>()[0] == 9);
}

TEST_CASE("gpu: staging memory is used again after a wait and grows within one") {
  StandIn api;
  cuda::Staging staging(api);
  std::byte* first = staging.take(1000);
  CHECK(staging.take(1) - first == 1024);
  std::byte* large = staging.take(2 * cuda::Staging::kBlock);
  CHECK((large < first || large >= first + cuda::Staging::kBlock));
  CHECK(api.allocated[Api::Memory::Pinned] == 3 * cuda::Staging::kBlock);
  staging.reset();
  CHECK(staging.take(1) == first);
  CHECK(staging.take(2 * cuda::Staging::kBlock) == large);
  CHECK(api.allocated[Api::Memory::Pinned] == 3 * cuda::Staging::kBlock);
}

TEST_CASE("gpu: an arena is one allocation of memory that host and device share, and is given back") {
  StandIn api;
  TestGpu test(api);
  const int before = api.calls["allocate"];
  {
    Arena arena = Arena::allocated(1 << 20, &test.gpu);
    matrix(arena, 100, 100);
    matrix(arena, 50, 3);
    CHECK(api.calls["allocate"] == before + 1);
    CHECK(api.allocated[Api::Memory::Shared] == 1 << 20);
  }
  CHECK(api.allocated[Api::Memory::Shared] == 0);
}

TEST_CASE("gpu: scratch that is outgrown lives until what uses it has run") {
  StandIn api;
  TestGpu test(api);
  void* small = test.gpu.scratch(1000);
  CHECK(test.gpu.scratch(500) == small);
  CHECK(test.gpu.scratch(5000) != small);
  CHECK(api.allocated[Api::Memory::Device] == cuda::Matmul::kWorkspace + 6000);
  test.gpu.wait();
  CHECK(api.allocated[Api::Memory::Device] == cuda::Matmul::kWorkspace + 5000);
}

TEST_CASE_METHOD(WithArena, "gpu: steps after the first are one graph, which takes new parameters") {
  const Tensor t = arena.make(DType::F32, {10}, Memory::Workspace);
  for (int step = 0; step < 4; ++step) {
    const auto number = static_cast<float>(step);
    gpu.run_step([&] {
      std::vector<float> numbers(10, number);
      context.write(t, numbers.data());
      ops::run(context, ops::Add{.y = t, .a = t, .b = t});
    });
    context.wait();
    CHECK(t.data<float>()[9] == 2 * number);
  }
  CHECK(api.calls["launch"] == 3);
  CHECK(api.calls["instantiate"] == 1);
  CHECK(api.calls["update"] == 2);
  gpu.run_step([&] { ops::run(context, ops::Fill{.y = t, .value = 5}); });  // other nodes: a new graph
  context.wait();
  CHECK(t.data<float>()[0] == 5);
  CHECK(api.calls["instantiate"] == 2);
}

TEST_CASE_METHOD(WithArena, "gpu: the first step in new memory is no graph, so that its products are measured") {
  gpu.run_step([] {});
  Arena second = Arena::allocated(1 << 16, &gpu);
  const ops::Linear op = product_of_ones(second, 5, 6, 7);
  const auto step = [&] { ops::run(context, op); };
  gpu.run_step(step);
  context.wait();
  CHECK(api.calls["launch"] == 0);
  CHECK(api.used.size() > static_cast<std::size_t>(cuda::Matmul::kRuns));
  gpu.run_step(step);
  context.wait();
  CHECK(api.calls["launch"] == 1);
}

TEST_CASE_METHOD(WithArena, "gpu: a step that fails while it is captured leaves nothing behind; waiting in one is refused") {
  const Tensor t = arena.make(DType::F32, {10}, Memory::Workspace);
  gpu.run_step([&] { ops::run(context, ops::Fill{.y = t, .value = 1}); });
  const auto fails = [&] {
    ops::run(context, ops::Fill{.y = t, .value = 2});
    context.wait();
  };
  CHECK_THROWS_WITH(gpu.run_step(fails), Contains("cannot be waited for"));
  context.wait();
  CHECK(t.data<float>()[0] == 1);
}

TEST_CASE_METHOD(WithArena, "gpu: what a capture does not allow is refused by the stand-in as CUDA refuses it") {
  gpu.run_step([] {});
  CHECK_THROWS_WITH(gpu.run_step([&] { Arena::allocated(1 << 10, &gpu); }), Contains("while a graph is captured"));
  CHECK_THROWS_WITH(gpu.run_step([&] { gpu.run_step([] {}); }), Contains("while a graph is captured"));
  gpu.run_step([] {});
  context.wait();
}

TEST_CASE_METHOD(WithArena, "gpu: errors name the call, the op and the shapes") {
  const ops::Linear op = product_of_ones(arena, 3, 5, 7);
  api.broken = {"multiply"};
  CHECK_THROWS_WITH(ops::run(context, op), Contains("linear (N=3 I=5 O=7): multiply: broken on purpose"));
  api.broken = {"wait"};
  CHECK_THROWS_WITH(context.wait(), Contains("wait: broken"));
  api.broken = {"allocate"};
  CHECK_THROWS_WITH(Arena::allocated(1000, &gpu), Contains("allocate: broken"));
  api.broken.clear();
}

TEST_CASE("gpu: a device without shared memory is refused, and processes without one of their own") {
  StandIn api;
  api.machine[0].managed_memory = false;
  CHECK_THROWS_WITH(TestGpu(api), Contains("Stand-in (sm_80") && Contains("no memory that host and device share"));
  CHECK(cuda::device_of(5, 1) == 0);
  CHECK(cuda::device_of(5, 8) == 5);
  CHECK_THROWS_WITH(cuda::device_of(2, 2), Contains("process 3 of this machine has no GPU of its own, there are 2"));
}

TEST_CASE("gpu: the fastest algorithm is measured once, kept in the file and taken by the next run") {
  const io::TemporaryDirectory directory;
  const std::filesystem::path file = directory / "cache" / "products.json";
  StandIn api;
  api.seconds_of = [](const cuda::Algorithm& a) { return a[0] == 1 ? 1e-6 : 5e-6; };
  const auto run = [&] {
    TestGpu test(api, file);
    Arena arena = Arena::allocated(1 << 16, &test.gpu);
    Context context = test.context(arena);
    const ops::Linear op = product_of_ones(arena, 3, 5, 7);
    for (int i = 0; i < 2; ++i) {
      ops::run(context, op);
      context.wait();
      CHECK(op.y.data<float>()[20] == 5);
      CHECK(api.used.back()[0] == 1);
    }
  };
  run();
  CHECK(api.used.size() == 3 * (1 + cuda::Matmul::kRuns) + 2);
  CHECK(api.calls["algorithms"] == 1);
  run();
  CHECK(api.used.size() == 3 * (1 + cuda::Matmul::kRuns) + 4);
  CHECK(api.calls["algorithms"] == 1);

  api.algorithm_count = 1;  // the library does not take the one of the file any more
  {
    TestGpu test(api, file);
    Arena arena = Arena::allocated(1 << 16, &test.gpu);
    Context context = test.context(arena);
    ops::run(context, product_of_ones(arena, 3, 5, 7));
    context.wait();
    CHECK(api.used.back()[0] == 0);
  }
  std::ofstream(file) << "{\"owner\": [";  // damaged: counts as empty
  api.algorithm_count = 3;
  run();
  CHECK(std::filesystem::file_size(file) > 20);
  CHECK(std::distance(std::filesystem::directory_iterator(file.parent_path()), {}) == 1);
}

TEST_CASE_METHOD(WithArena, "gpu: a product is not measured into its own operand, nor while a step is captured") {
  const Tensor dw = matrix(arena, 4, 6), dy = matrix(arena, 3, 4), x = matrix(arena, 3, 6);
  fill(dw, 10);
  fill(dy, 1);
  fill(x, 1);
  const ops::Linear::Backward op{.dw = dw, .dy = dy, .x = x, .w = {}, .to_dw = Write::Add};
  ops::run(context, op);
  context.wait();
  for (std::int64_t i = 0; i < dw.count(); ++i) CHECK(dw.data<float>()[i] == 13);
  gpu.run_step([] {});
  const std::size_t before = api.used.size();
  const ops::Linear other = product_of_ones(arena, 2, 9, 5);
  gpu.run_step([&] { ops::run(context, other); });
  context.wait();
  CHECK(api.used.size() == before + 1);
  CHECK(other.y.data<float>()[9] == 9);
}

TEST_CASE("gpu: products that the library has no algorithm for are a kernel's") {
  StandIn api;
  api.least_alignment = 32;
  TestGpu test(api);
  Arena arena = Arena::allocated(1 << 16, &test.gpu);
  Context context = test.context(arena);
  const ops::Linear op = product_of_ones(arena, 19, 21, 17);
  ops::run(context, op);
  context.wait();
  CHECK(api.calls["multiply"] == 0);
  for (std::int64_t i = 0; i < op.y.count(); ++i) REQUIRE(op.y.data<float>()[i] == 21);
}

TEST_CASE("gpu: the kernel of products, in every type, transposed, with gaps and with what is added") {
  cuda_emulated::Device device;
  for (const auto& [type, result] : {std::pair{DType::F32, DType::F32},
                                     {DType::BF16, DType::BF16},
                                     {DType::BF16, DType::F32},
                                     {DType::F16, DType::F16},
                                     {DType::F16, DType::F32}}) {
    for (int variant = 0; variant < 12; ++variant) {
      const bool transpose_a = variant % 2 != 0, transpose_b = variant / 2 % 2 != 0;
      const int added = variant / 4;  // nothing; bias and residual; what is there
      INFO(name_of(type) << " to " << name_of(result) << ", variant " << variant);
      const std::int64_t m = 19, n = 35, k = 21;
      const auto random = [](DType of, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
        test::Guarded t(of, {rows, columns}, 3);
        t.set(test::normal({rows, columns}, seed).values);
        return t;
      };
      const test::Guarded a = transpose_a ? random(type, k, m, 1) : random(type, m, k, 1);
      const test::Guarded b = transpose_b ? random(type, n, k, 2) : random(type, k, n, 2);
      const test::Guarded residual = random(result, m, n, 3);
      test::Guarded bias(result, {n}), c(result, {m, n}, 3);
      bias.set(test::normal({n}, 4).values);
      if (added == 2) c.set(residual.values());
      Product product{};
      product.c = c.view();
      product.a = a.view();
      product.b = b.view();
      product.transpose_a = transpose_a;
      product.transpose_b = transpose_b;
      if (added == 1) {
        product.bias = bias.view();
        product.residual = residual.view();
      }
      if (added == 2) product.to_c = Write::Add;
      device.kernels->multiply(device, product);
      const test::Values x = a.values(), y = b.values(), more = residual.values(), offset = bias.values(), got = c.values();
      const double unit = result == DType::F32 ? 1e-6 : result == DType::F16 ? 0x1p-11 : 0x1p-8;
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          const auto at = static_cast<std::size_t>(i * n + j);
          double sum = (added > 0 ? more[at] : 0) + (added == 1 ? offset[static_cast<std::size_t>(j)] : 0);
          for (std::int64_t l = 0; l < k; ++l) {
            sum += x[static_cast<std::size_t>(transpose_a ? l * m + i : i * k + l)] *
                   y[static_cast<std::size_t>(transpose_b ? j * k + l : l * n + j)];
          }
          REQUIRE(std::abs(got[at] - sum) <= unit * std::abs(sum) + 1e-5);  // rounded once
        }
      }
      CHECK(c.intact());
    }
  }
}

TEST_CASE("gpu: GELU is part of the product where the library has it, and a kernel elsewhere") {
  // The library wants rows of the auxiliary matrix at multiples of 8 elements.
  for (const auto& [activations, width] : {std::pair<bool, std::int64_t>{true, 8}, {false, 8}, {true, 7}}) {
    INFO("activations " << activations << ", width " << width);
    StandIn api;
    api.activations = activations;
    TestGpu test(api);
    Arena arena = Arena::allocated(1 << 16, &test.gpu);
    Context context = test.context(arena);
    ops::Linear op = product_of_ones(arena, 3, width, width);
    op.gelu = matrix(arena, 3, width);
    const Tensor dx = matrix(arena, 3, width);
    std::vector<LaunchRecord> launches;
    test.gpu.launches = &launches;
    ops::run(context, op);
    ops::run(context, ops::Linear::Backward{.dx = dx, .dy = op.y, .x = {}, .w = op.w, .before = op.x});
    context.wait();
    CHECK(launches.size() == (activations && width == 8 ? 0 : 2));
    const auto sum = static_cast<double>(width);
    CHECK(static_cast<double>(op.y.data<float>()[20]) == sum);
    CHECK(op.gelu.data<float>()[20] == Approx(sum).epsilon(1e-7));
    CHECK(dx.data<float>()[14] == Approx(sum * sum * 1.08296408).epsilon(1e-6));  // GELU'(1)
  }
}

TEST_CASE_METHOD(WithArena, "gpu: the time of a body is that of its graph") {
  const Tensor t = arena.make(DType::F32, {10}, Memory::Workspace);
  const double seconds = gpu.seconds_of([&] {
    for (int i = 0; i < 5; ++i) ops::run(context, ops::Fill{.y = t, .value = 1});
  });
  CHECK(seconds == Approx(6e-6));  // five kernels and the event before them, at a microsecond each
}
