#include "engine/core/tensor.h"

#include "tests/catch.h"

using namespace oxrse;

namespace {

/// A (3, 4, 6) view of 72 floats that hold their own index.
struct Sample {
  std::vector<float> values;
  Tensor tensor;

  Sample() : values(72) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    tensor = Tensor(reinterpret_cast<std::byte*>(values.data()), DType::F32, {3, 4, 6});
  }
};

}  // namespace

TEST_CASE("a contiguous view has row-major strides") {
  const Sample sample;
  const Tensor& t = sample.tensor;
  CHECK(t.present());
  CHECK(t.rank() == 3);
  CHECK(t.size(-1) == 6);
  CHECK(t.stride(0) == 24);
  CHECK(t.stride(1) == 6);
  CHECK(t.stride(-1) == 1);
  CHECK(t.count() == 72);
  CHECK(t.bytes() == 288);
  CHECK(t.contiguous());
  CHECK(t.describe() == "f32(3, 4, 6)");
}

TEST_CASE("an absent view has nothing") {
  const Tensor none;
  CHECK_FALSE(none.present());
  CHECK(none.count() == 0);
  CHECK(none.bytes() == 0);
  CHECK(none.describe() == "absent");
  CHECK_FALSE(ConstTensor(none).present());
}

TEST_CASE("slices share the elements") {
  const Sample sample;
  const Tensor rows = sample.tensor.slice(0, 1, 3);
  CHECK(rows.contiguous());
  CHECK(rows.data<float>()[0] == 24);
  const Tensor columns = sample.tensor.slice(-1, 2, 5);
  CHECK(columns.describe() == "f32(3, 4, 3)");
  CHECK_FALSE(columns.contiguous());
  CHECK(columns.data<float>()[0] == 2);
  CHECK(columns.data<float>()[2 * columns.stride(0) + 3 * columns.stride(1) + 1] == 2 * 24 + 3 * 6 + 3);
  CHECK(sample.tensor.slice(1, 4, 4).count() == 0);
  CHECK_THROWS_AS(sample.tensor.slice(1, 2, 5), Error);
  CHECK_THROWS_AS(sample.tensor.slice(1, -1, 2), Error);
  CHECK_THROWS_AS(sample.tensor.slice(1, 3, 2), Error);
}

TEST_CASE("split works on strided views, reshape only on contiguous ones") {
  const Sample sample;
  const Tensor split = sample.tensor.slice(2, 0, 4).split(2, 2);
  CHECK(split.describe() == "f32(3, 4, 2, 2)");
  CHECK(split.stride(1) == 6);
  CHECK(split.stride(2) == 2);
  CHECK(split.data<float>()[split.stride(1) + split.stride(2) + 1] == 6 + 2 + 1);
  CHECK(sample.tensor.split(0, 3).describe() == "f32(1, 3, 4, 6)");
  CHECK_THROWS_AS(sample.tensor.split(2, 4), Error);
  CHECK_THROWS_AS(sample.tensor.split(2, 0), Error);
  CHECK_THROWS_AS(sample.tensor.split(0, 1).split(0, 1).split(0, 1), Error);

  CHECK(sample.tensor.reshape({12, 6}).describe() == "f32(12, 6)");
  CHECK_THROWS_AS(sample.tensor.reshape({5, 6}), Error);
  CHECK_THROWS_AS(sample.tensor.slice(2, 0, 3).reshape({36}), Error);
}

TEST_CASE("elements are only read as their own type") {
  const Sample sample;
  CHECK_THROWS_WITH(sample.tensor.data<double>(), "a tensor of f32 read as f64");
  const ConstTensor reading = sample.tensor;
  static_assert(std::is_same_v<decltype(reading.data<float>()), const float*>);
  CHECK(reading.data<const float>()[5] == 5);
}

TEST_CASE("more dimensions than supported are refused") { CHECK_THROWS_AS(Tensor(nullptr, DType::F32, {1, 1, 1, 1, 1, 1}), Error); }

TEST_CASE("sizes and offsets are 64 bits wide") {
  // A planned address, never dereferenced: (B*H, T, T) past 2^31 elements and past 2^32 bytes.
  auto* const base = reinterpret_cast<std::byte*>(std::uintptr_t{4096});
  const Tensor scores(base, DType::BF16, {192, 8192, 8192});
  CHECK(scores.count() == 12884901888);
  CHECK(scores.bytes() == 25769803776);
  const Tensor last = scores.slice(0, 191, 192).slice(1, 8191, 8192);
  CHECK(reinterpret_cast<std::uintptr_t>(last.address()) - 4096 == (191ULL * 8192 + 8191) * 8192 * 2);
}
