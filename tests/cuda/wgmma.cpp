// Attention's kernel for Hopper, on the emulation of its instructions; what the emulation refuses; and when a GPU takes the kernel.
#include "cuda/wgmma.h"

#include <cmath>
#include <limits>

#include "cuda/emulation/device.h"
#include "cuda/emulation/stand_in.h"
#include "cuda/kernels/table.h"
#include "cuda/launch.h"
#include "cuda/runtime/gpu.h"
#include "engine/ops/attention.h"
#include "tests/catch.h"
#include "tests/ops/attention_case.h"

using namespace oxrse;
using namespace oxrse::test;
using namespace oxrse::cuda_emulated;
using Catch::Matchers::Contains;

namespace {

OpCase forward_case(const AttentionShape& s) {
  OpCase c = attention_case(s);
  c.backward = {};
  return c;
}

/// Whether the device of these tests has the kernel: a GPU of another generation has not.
bool has_kernel() { return dynamic_cast<Cuda&>(*device_under_test().device).has_wgmma; }

/// The device of these tests takes the kernel, and keeps what it launches.
class WithWgmma {
 public:
  explicit WithWgmma(bool on) : cuda_(dynamic_cast<Cuda&>(*device_under_test().device)), before_(cuda_.wgmma) {
    cuda_.wgmma = on;
    cuda_.launches = &launches;
  }
  ~WithWgmma() {
    cuda_.wgmma = before_;
    cuda_.launches = nullptr;
  }
  WithWgmma(const WithWgmma&) = delete;
  WithWgmma& operator=(const WithWgmma&) = delete;

  std::vector<LaunchRecord> launches;

 private:
  Cuda& cuda_;
  bool before_;
};

struct Outcome {
  Arrays results;
  std::map<std::string, std::vector<std::byte>> bits;
  std::string kernel;
};

Outcome forward(const OpCase& c, const Setting& setting, bool wgmma) {
  const WithWgmma device(wgmma);
  Run run(c.inputs, setting);
  c.forward(run);
  Outcome outcome{run.results(), run.bits(), {}};
  if (!device.launches.empty()) outcome.kernel = device.launches.at(0).kernel;
  return outcome;
}

/// The largest error, in which a NaN is infinite; equal infinities are no error.
double error_of(const Values& got, const Values& truth) {
  REQUIRE(got.size() == truth.size());
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double e = got[i] == truth[i] ? 0 : std::abs(got[i] - truth[i]);
    largest = std::isnan(e) ? std::numeric_limits<double>::infinity() : std::max(largest, e);
  }
  return largest;
}

const AttentionShape kShapes[] = {{.b = 1, .t = 300, .s = 300, .h = 2, .k = 1, .d = 128},
                                  {.b = 2, .t = 131, .s = 131, .h = 1, .k = 1, .d = 64},
                                  {.b = 1, .t = 1, .s = 1, .h = 1, .k = 1, .d = 64},
                                  {.b = 1, .t = 3, .s = 700, .h = 3, .k = 1, .d = 128},
                                  {.b = 1, .t = 128, .s = 128, .h = 4, .k = 2, .d = 72},
                                  {.b = 1, .t = 65, .s = 129, .h = 2, .k = 2, .d = 8},
                                  {.b = 1, .t = 200, .s = 90, .h = 2, .k = 1, .d = 40},
                                  {.b = 1, .t = 400, .s = 400, .h = 1, .k = 1, .d = 64, .window = 100},
                                  {.b = 2, .t = 260, .s = 260, .h = 1, .k = 1, .d = 128, .window = 0, .documents = true},
                                  {.b = 1, .t = 140, .s = 300, .h = 2, .k = 1, .d = 64, .window = 20, .documents = true}};

/// Runs the body as a kernel of one block and returns what it is refused with.
template <class Body>
std::string refusal(int threads, std::size_t shared, const Body& body) {
  try {
    for (const std::uint64_t order : {0, 1, 2, 3}) {
      emulation::run({.kernel = "test", .grid = {}, .threads = static_cast<unsigned>(threads), .shared = shared, .order = order}, body);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("wgmma attention: as right as the portable kernel, the same bits in every order of threads") {
  if (!has_kernel()) return;
  for (const AttentionShape& s : kShapes) {
    for (const DType type : {DType::BF16, DType::F16}) {
      const OpCase c = rounded_to(type, forward_case(s));
      INFO(c.name << " in " << name_of(type));
      const Arrays truth = execute(c, {.type = DType::F64});
      const Outcome portable = forward(c, {.type = type, .aligned = true}, false);
      const Outcome got = forward(c, {.type = type, .aligned = true}, true);
      CHECK_THAT(portable.kernel, Contains("attention_forward<"));
      CHECK(got.kernel == fmt::format("attention_wgmma<{}, {}>", name_of(type), s.d <= 64 ? 64 : 128));
      for (const char* name : {"o", "lse"}) {
        INFO(name);
        const Values& expected = truth.at(name).values;
        CHECK(error_of(got.results.at(name).values, expected) <= 2 * error_of(portable.results.at(name).values, expected) + 1e-5);
      }
      for (const int order : {2, 3, 4}) CHECK(forward(c, {.type = type, .threads = order, .aligned = true}, true).bits == got.bits);
    }
  }
}

TEST_CASE("wgmma attention: rows with gaps, and what it leaves to the portable kernel") {
  if (!has_kernel()) return;
  const OpCase c = forward_case({.b = 2, .t = 150, .s = 150, .h = 2, .k = 1, .d = 64});
  const Outcome contiguous = forward(c, {.type = DType::BF16, .aligned = true}, true);
  const Outcome gaps = forward(c, {.type = DType::BF16, .gap = 24, .aligned = true}, true);
  CHECK_THAT(gaps.kernel, Contains("attention_wgmma<"));
  CHECK(gaps.bits == contiguous.bits);
  CHECK_THAT(forward(c, {.type = DType::BF16, .gap = 4, .aligned = true}, true).kernel, Contains("attention_forward<"));
  CHECK_THAT(forward(c, {.type = DType::BF16}, true).kernel, Contains("attention_forward<"));
  CHECK_THAT(forward(c, {.type = DType::F32, .aligned = true}, true).kernel, Contains("attention_forward<float"));
  const OpCase wide = forward_case({.b = 1, .t = 9, .s = 9, .h = 1, .k = 1, .d = 136});
  CHECK_THAT(forward(wide, {.type = DType::BF16, .aligned = true}, true).kernel, Contains("attention_forward<bf16, 256"));
}

TEST_CASE("a GPU takes the kernel for Hopper when it is one and the kernel passes its test there") {
  StandIn api;
  const auto wgmma = [&](const KernelTable& table) { return cuda::Gpu("cuda", table, api, 0, {}).wgmma; };
  const KernelTable& table = kernel_table();
  CHECK_FALSE(wgmma(table));  // 8.0
  api.machine[0].major = 9;
  CHECK(wgmma(table));
  CHECK(api.allocated[cuda::Api::Memory::Shared] == 0);
  for (const auto& [major, minor] : {std::pair{10, 0}, {9, 1}, {12, 0}}) {
    api.machine[0].major = major;
    api.machine[0].minor = minor;
    CHECK_FALSE(wgmma(table));
  }
  api.machine[0].major = 9;
  api.machine[0].minor = 0;
  // Kernels that compute something else, fail, refuse or are not there.
  KernelTable other = table;
  other.attention_wgmma = [](Cuda& cuda, const ops::Attention& op) {
    ops::Attention scaled = op;
    scaled.scale *= 1.1;
    return kernel_table().attention_wgmma(cuda, scaled);
  };
  CHECK_FALSE(wgmma(other));
  other.attention_wgmma = [](Cuda& /*cuda*/, const ops::Attention& /*op*/) { return true; };  // leaves NaN
  CHECK_FALSE(wgmma(other));
  other.attention_wgmma = [](Cuda& /*cuda*/, const ops::Attention& /*op*/) -> bool { throw DeviceError("cuTensorMapEncodeTiled: no"); };
  CHECK_FALSE(wgmma(other));
  other.attention_wgmma = [](Cuda& /*cuda*/, const ops::Attention& /*op*/) { return false; };
  CHECK_FALSE(wgmma(other));
  api.broken = {"wait_or_end"};
  CHECK_FALSE(wgmma(table));
  REQUIRE(api.ends.size() == 1);
  CHECK_THAT(api.ends[0], Contains("does not end on cuda: Stand-in") && Contains("OXRSE_WGMMA=0"));
  api.broken.clear();
  other.attention_wgmma = nullptr;
  CHECK_FALSE(wgmma(other));
  setenv("OXRSE_WGMMA", "0", 1);
  CHECK_FALSE(wgmma(table));
  unsetenv("OXRSE_WGMMA");
}

TEST_CASE("emulation: an mbarrier's phases end with its arrivals and its bytes") {
  int seen = 0;
  CHECK(refusal(96, 64, [&] {
          auto* barrier = shared_memory<Mbarrier>();
          auto* value = reinterpret_cast<int*>(barrier + 1);
          if (threadIdx.x == 0) make_mbarrier(barrier, 2);
          __syncthreads();
          for (int phase = 0; phase < 3; ++phase) {
            if (threadIdx.x == 32 || threadIdx.x == 64) {
              if (threadIdx.x == 32) *value = phase;
              arrive(barrier);
            }
            wait_for_phase(barrier, phase % 2);
            if (threadIdx.x < 32 && *value == phase) ++seen;
            __syncthreads();
          }
        }) == "");
  CHECK(seen == 4 * 3 * 32);
  CHECK_THAT(refusal(32, 8, [] { arrive(shared_memory<Mbarrier>()); }), Contains("before it was made"));
  CHECK_THAT(refusal(1, 8,
                     [] {
                       make_mbarrier(shared_memory<Mbarrier>(), 1);
                       wait_for_phase(shared_memory<Mbarrier>(), 0);
                     }),
             Contains("wait forever") && Contains("wgmma.cpp"));
  CHECK_THAT(refusal(64, 8, [] { arrive_at(1, 96); }), Contains("arrived at barrier 1 that nobody waits at"));
  CHECK_THAT(refusal(64, 8, [] { wait_at(2, 96); }), Contains("wait forever"));
}

TEST_CASE("emulation: copies of boxes are swizzled, cut off, counted, and not there before the wait") {
  std::vector<bf16> numbers(3 * 10 * 72);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = bf16(static_cast<float>(i % 251));
  const auto base = reinterpret_cast<std::uintptr_t>(numbers.data());
  const std::size_t skip = (16 - base % 16) % 16 / 2;
  const std::int64_t rows = 8;  // of 72 columns, in two matrices
  const TensorMap map = make_tensor_map(DType::BF16, numbers.data() + skip, {72, 2, rows, 1}, {72 * rows, 72, 144 * rows}, 16);
  CHECK(refusal(32, 1024 + 16 * 128 + 16, [&] {
          char* memory = shared_memory<char>();
          char* tile = memory + (1024 - shared_address(memory) % 1024) % 1024;
          auto* barrier = reinterpret_cast<Mbarrier*>(tile + 16 * 128);
          const auto at = [&](int row, int column) {
            const auto* numbers_there = reinterpret_cast<const bf16*>(tile + row * 128);
            return static_cast<float>(numbers_there[(column / 8 ^ row % 8) * 8 + column % 8]);
          };
          if (threadIdx.x != 0) return;
          make_mbarrier(barrier, 1);
          arrive_expecting(barrier, 16 * 128);
          copy_box(tile, map, 64, 1, 3, 0, barrier);
          CHECK(std::isnan(at(0, 0)));
          wait_for_phase(barrier, 0);
          for (int row = 0; row < 16; ++row) {
            for (int column = 0; column < 64; ++column) {
              const bool inside = row + 3 < rows && column < 8;
              const auto i = skip + static_cast<std::size_t>((rows + row + 3) * 72 + 64 + column);
              CHECK(at(row, column) == (inside ? static_cast<float>(numbers[i]) : 0.0F));
            }
          }
        }) == "");
  CHECK_THAT(refusal(1, 4096,
                     [&] {
                       auto* barrier = shared_memory<Mbarrier>();
                       make_mbarrier(barrier, 1);
                       copy_box(shared_memory<char>() + 1024 - 16, map, 0, 0, 0, 0, barrier);
                     }),
             Contains("under way"));
  CHECK_THAT(refusal(1, 4096, [&] { copy_box(shared_memory<char>() + 8, map, 0, 0, 0, 0, shared_memory<Mbarrier>()); }),
             Contains("multiple of it"));
}

TEST_CASE("emulation: products of warpgroups that begin without a fence or are not waited for are refused") {
  CHECK_THAT(refusal(128, 4096,
                     [] {
                       float c[16][4];
                       start_product<bf16>(c, matrix_at(2048), matrix_at(2048), false);
                     }),
             Contains("without a fence"));
  CHECK_THAT(refusal(128, 65536,
                     [] {
                       float c[16][4];
                       fence_products();
                       start_product<bf16>(c, matrix_at(2048), matrix_at(2048), false);
                       commit_products();
                     }),
             Contains("products that it did not wait for"));
}
