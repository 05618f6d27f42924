#include <map>
#include <random>

#include "engine/core/error.h"
#include "io/checkpoint/region.h"
#include "io/checkpoint/share.h"
#include "tests/catch.h"
#include "tests/io/checkpoint_fixture.h"

namespace oxrse::io {
namespace {

using Catch::Contains;
using Shape = std::vector<std::int64_t>;

/// The elements of the whole tensor that a region consists of, one by one, straight from the definition.
std::vector<std::int64_t> elements_of(const Region& region, const Shape& shape) {
  std::vector<std::int64_t> elements;
  for (std::int64_t i = 0; i < region.count(); ++i) {
    if (region.flat) {
      elements.push_back(region.offset[0] + i);
      continue;
    }
    std::int64_t rest = i, place = 0, stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      place += (region.offset[d] + rest % region.shape[d]) * stride;
      rest /= region.shape[d];
      stride *= shape[d];
    }
    elements.push_back(place);
  }
  return elements;
}

Region random_region(const Shape& shape, std::mt19937& random) {
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  const std::int64_t count = Region::whole(shape).count();
  if (below(3) == 0) {
    const std::int64_t begin = below(count + 1);
    return Region::range(begin, begin + below(count - begin + 1));
  }
  Region box = Region::whole(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (below(3) == 0) continue;
    box.offset[d] = below(shape[d] + 1);
    box.shape[d] = below(shape[d] - box.offset[d] + 1);
  }
  return box;
}

TEST_CASE("what regions have in common is found run by run") {
  std::mt19937 random(11);
  const std::vector<Shape> shapes = {{}, {1}, {7}, {3, 5}, {2, 3, 5}, {4, 1, 3, 2}, {1, 6, 1, 2, 3}, {0, 5}, {5, 0}};
  for (int trial = 0; trial < 4000; ++trial) {
    const Shape& shape = shapes[random() % shapes.size()];
    const Region a = random_region(shape, random), b = random_region(shape, random);
    CAPTURE(shape, a.describe(), b.describe());
    const auto in_a = elements_of(a, shape), in_b = elements_of(b, shape);
    std::map<std::int64_t, std::int64_t> place_in_b;
    for (std::size_t i = 0; i < in_b.size(); ++i) place_in_b[in_b[i]] = static_cast<std::int64_t>(i);
    std::map<std::int64_t, std::int64_t> expected, found;  // place in a -> place in b
    for (std::size_t i = 0; i < in_a.size(); ++i) {
      if (place_in_b.count(in_a[i]) != 0) expected[static_cast<std::int64_t>(i)] = place_in_b[in_a[i]];
    }
    for_each_common_run(Runs(a, shape), Runs(b, shape), [&](std::int64_t at_a, std::int64_t at_b, std::int64_t length) {
      CHECK(length > 0);
      for (std::int64_t i = 0; i < length; ++i) CHECK(found.emplace(at_a + i, at_b + i).second);
    });
    REQUIRE(found == expected);
    CHECK(common_elements(Runs(a, shape), Runs(b, shape)) == static_cast<std::int64_t>(expected.size()));
    const std::vector<Region> both = {a, b};
    const auto distinct = in_a.size() + in_b.size() - expected.size();
    const bool partition = expected.empty() && static_cast<std::int64_t>(distinct) == Region::whole(shape).count();
    CHECK(partition_fault(both, shape).empty() == partition);
  }
}

TEST_CASE("a partition of a tensor is told from overlaps and gaps") {
  const Shape shape = {4, 6};
  const Region left{{0, 0}, {4, 3}, false}, right{{0, 3}, {4, 3}, false}, top{{0, 0}, {2, 6}, false};
  CHECK(partition_fault(std::vector{left, right}, shape).empty());
  CHECK(partition_fault(std::vector{right, left, Region::range(24, 24)}, shape).empty());
  CHECK(partition_fault(std::vector{top, Region::range(12, 17), Region::range(17, 24)}, shape).empty());
  CHECK_THAT(partition_fault(std::vector{left, top}, shape), Contains("(4, 3) at (0, 0)") && Contains("(2, 6) at (0, 0)"));
  CHECK_THAT(partition_fault(std::vector{left}, shape), Contains("12 of 24 elements are missing"));
  CHECK_THAT(partition_fault(std::vector{left, left}, shape), Contains("overlap"));
}

TEST_CASE("parts that lie outside of their tensors are refused") {
  const Shape shape = {4, 6};
  for (const Region& wrong :
       {Region{{0, 0}, {4, 7}, false}, Region{{-1, 0}, {1, 1}, false}, Region{{4, 0}, {1, 6}, false}, Region{{0}, {4}, false},
        Region::range(20, 25), Region{{INT64_MAX, 0}, {1, 1}, false}, Region{{1}, {INT64_MAX}, true}, Region{{0, 0}, {1, 1}, true}}) {
    CAPTURE(wrong.shape, wrong.offset);
    CHECK_THROWS_AS(check_region(wrong, shape), Error);
  }
}

TEST_CASE("the shares of replicated tensors are even and a partition") {
  SmallState state(1, 1001);
  state.entries[3].fill = [](const Tensor&) {};  // cannot be cut
  std::int64_t total = 0;
  for (const CheckpointEntry& entry : state.entries) total += entry.tensor.bytes();
  for (const std::int64_t writers : {1, 2, 3, 4, 7, 8, 64, 10'000}) {
    CAPTURE(writers);
    std::map<std::string, std::vector<Region>> parts;
    for (std::int64_t w = 0; w < writers; ++w) {
      std::int64_t bytes = 0;
      for (const CheckpointEntry& part : share_of(state.entries, {w, writers})) {
        parts[part.label()].push_back(part.place().region);
        CHECK(part.tensor.count() == part.place().region.count());
        bytes += part.tensor.bytes();
      }
      const std::int64_t uncut = state.entries[3].tensor.bytes();
      CHECK(std::abs(bytes - total / writers) <= uncut + 16);
      if (writers == 2) CHECK(std::abs(bytes - total / 2) <= 16);
    }
    for (const CheckpointEntry& entry : state.entries) {
      CAPTURE(entry.label());
      CHECK(partition_fault(parts[entry.label()], entry.place().shape).empty());
    }
    CHECK(parts["embedding.weight (model)"].size() == 1);
  }
}

TEST_CASE("boxes that several ranks hold are shared by rows") {
  const std::vector<float> memory(4 * 3);
  const Region box{{2, 5}, {4, 3}, false};
  const std::vector<CheckpointEntry> entries = {
      {"w", "master", ConstTensor(reinterpret_cast<const std::byte*>(memory.data()), DType::F32, {4, 3}), {}, Placement{{9, 8}, box}}};
  const auto first = share_of(entries, {0, 2}), second = share_of(entries, {1, 2});
  REQUIRE(first.size() == 1);
  REQUIRE(second.size() == 1);
  CHECK(first[0].placement->region == Region{{2, 5}, {2, 3}, false});
  CHECK(second[0].placement->region == Region{{4, 5}, {2, 3}, false});
  CHECK(second[0].tensor.address() == reinterpret_cast<const std::byte*>(memory.data() + 6));
}

}  // namespace
}  // namespace oxrse::io
