#include "cuda/runtime/self_test.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "cuda/kernels/table.h"
#include "cuda/runtime/handle.h"
#include "engine/core/philox.h"
#include "engine/ops/attention.h"

namespace oxrse::cuda {
namespace {

struct Shape {
  DType type;
  std::int64_t samples, queries, keys, heads, kv_heads, width, window;
};

/// Tiles that are full, cut off, masked and not reached; more of them than are under way at once; queries that see nothing.
constexpr Shape kShapes[] = {{DType::BF16, 1, 150, 400, 2, 1, 128, 0}, {DType::F16, 2, 140, 100, 2, 2, 64, 50}};

constexpr double kPatience = 20;  // seconds for what takes less than a millisecond

/// A (B, T, H, D) tensor of 16-bit numbers, or one of f32, that the host can write.
class Values {
 public:
  Values(Api& api, DType type, std::initializer_list<std::int64_t> sizes)
      : count_(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>())),
        buffer_(api, Api::Memory::Shared, static_cast<std::size_t>(count_ * size_of(type))),
        tensor_(buffer_.get(), type, sizes) {
    fill([](std::int64_t /*i*/) { return std::numeric_limits<float>::quiet_NaN(); });
  }

  void fill_normal(std::uint64_t seed) {
    const RandomStream random(seed, 0);
    fill([&](std::int64_t i) { return static_cast<float>(random.normal(static_cast<std::uint64_t>(i))); });
  }
  [[nodiscard]] float at(std::int64_t i) const {
    switch (tensor_.dtype()) {
      case DType::BF16: return static_cast<float>(tensor_.data<bf16>()[i]);
      case DType::F16: return static_cast<float>(tensor_.data<f16>()[i]);
      default: return tensor_.data<float>()[i];
    }
  }
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] bool same_bits(const Values& other) const { return std::memcmp(buffer_.get(), other.buffer_.get(), buffer_.bytes()) == 0; }

 private:
  template <class F>
  void fill(const F& value) {
    for (std::int64_t i = 0; i < count_; ++i) {
      switch (tensor_.dtype()) {
        case DType::BF16: tensor_.data<bf16>()[i] = bf16(value(i)); break;
        case DType::F16: tensor_.data<f16>()[i] = f16(value(i)); break;
        default: tensor_.data<float>()[i] = value(i);
      }
    }
  }

  std::int64_t count_;
  Buffer buffer_;
  Tensor tensor_;
};

struct Results {
  Values o, lse;

  Results(Api& api, const Shape& s)
      : o(api, s.type, {s.samples, s.queries, s.heads, s.width}), lse(api, DType::F32, {s.samples, s.heads, s.queries}) {}
};

/// The largest difference in units of 1 + |b|; infinite where one is no number.
double difference(const Values& a, const Values& b) {
  double largest = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    if (a.at(i) == b.at(i)) continue;  // also where both are infinite
    const double d = std::abs(a.at(i) - b.at(i)) / (1 + std::abs(b.at(i)));
    if (!(d <= largest)) largest = std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
  }
  return largest;
}

std::string compare(const Results& got, const Results& again, const Results& expected, const std::string& shape) {
  // Both round weights to 16 bits, relative to another maximum: some units in the last place of bf16, 2^-8.
  constexpr double kMostOff = 0.02, kMostOffLse = 1e-4;
  const double o = difference(got.o, expected.o), lse = difference(got.lse, expected.lse);
  if (!(o <= kMostOff && lse <= kMostOffLse)) return fmt::format("gives other numbers (o by {:.2g}, lse by {:.2g}; {})", o, lse, shape);
  if (!got.o.same_bits(again.o) || !got.lse.same_bits(again.lse)) return fmt::format("gives other bits in a second run ({})", shape);
  return "";
}

std::string test(Cuda& cuda, Api& api, const Shape& s) {
  Values q(api, s.type, {s.samples, s.queries, s.heads, s.width}), k(api, s.type, {s.samples, s.keys, s.kv_heads, s.width}),
      v(api, s.type, {s.samples, s.keys, s.kv_heads, s.width});
  q.fill_normal(1);
  k.fill_normal(2);
  v.fill_normal(3);
  const Results got(api, s), again(api, s), expected(api, s);
  const auto op = [&](const Results& results) {
    return ops::Attention{.o = results.o.tensor(),
                          .lse = results.lse.tensor(),
                          .q = q.tensor(),
                          .k = k.tensor(),
                          .v = v.tensor(),
                          .document_start = {},
                          .scale = 1 / std::sqrt(static_cast<double>(s.width)),
                          .window = s.window};
  };
  const std::string shape = fmt::format("{} {}", name_of(s.type), ops::shape(op(got)));
  for (const Results* results : {&got, &again}) {
    if (!cuda.kernels->attention_wgmma(cuda, op(*results))) return fmt::format("refuses {}", shape);
  }
  api.wait_or_end(cuda.stream, kPatience,
                  fmt::format("attention's kernel for compute capability 9.0 does not end on {} (its test at start, {}): start with "
                              "OXRSE_WGMMA=0, which leaves it out",
                              cuda.description(), shape));
  const bool before = std::exchange(cuda.wgmma, false);
  std::get<Kernel<ops::Attention>>(cuda.kernels->kernels)(cuda, op(expected));
  cuda.wgmma = before;
  cuda.wait();
  return compare(got, again, expected, shape);
}

}  // namespace

std::string test_attention_wgmma(Cuda& cuda, Api& api) {
  try {
    for (const Shape& shape : kShapes) {
      if (std::string problem = test(cuda, api, shape); !problem.empty()) return problem;
    }
    return "";
  } catch (const Error& error) {
    return fmt::format("fails: {}", error.what());
  }
}

}  // namespace oxrse::cuda
