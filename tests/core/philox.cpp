#include "engine/core/philox.h"

#include "tests/catch.h"

using namespace oxrse;

TEST_CASE("philox4x32-10 gives the published vectors") {
  // Known answers of the Random123 library (Salmon et al.), the last with the digits of pi.
  using Words = std::array<std::uint32_t, 4>;
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("stream names hash by FNV-1a") {
  CHECK(stream_of("") == 0xcbf29ce484222325U);
  CHECK(stream_of("a") == 0xaf63dc4c8601ec8cU);
  CHECK(stream_of("foobar") == 0x85944171f73967e8U);
}

TEST_CASE("streams differ by seed, name and either half of the index") {
  const RandomStream stream(1337, stream_of("wte"));
  CHECK(stream.words(5) == RandomStream(1337, stream_of("wte")).words(5));
  CHECK(stream.words(5) != RandomStream(1338, stream_of("wte")).words(5));
  CHECK(stream.words(5) != RandomStream(1337 + (1ULL << 32), stream_of("wte")).words(5));
  CHECK(stream.words(5) != RandomStream(1337, stream_of("wpe")).words(5));
  CHECK(stream.words(5) != stream.words(6));
  CHECK(stream.words(5) != stream.words(5 + (1ULL << 32)));
}

TEST_CASE("uniform and normal numbers have their moments") {
  const RandomStream stream(7, stream_of("test"));
  constexpr int kCount = 200000;
  double mean = 0, smallest = 1, largest = 0, normal_mean = 0, square = 0, fourth = 0;
  for (int i = 0; i < kCount; ++i) {
    const double u = stream.uniform(static_cast<std::uint64_t>(i));
    const double x = stream.normal(static_cast<std::uint64_t>(i));
    smallest = std::min(smallest, u);
    largest = std::max(largest, u);
    mean += u / kCount;
    normal_mean += x / kCount;
    square += x * x / kCount;
    fourth += x * x * x * x / kCount;
  }
  // Five standard errors.
  CHECK(std::abs(mean - 0.5) < 5 * std::sqrt(1.0 / 12 / kCount));
  CHECK(smallest >= 0);
  CHECK(smallest < 1e-4);
  CHECK(largest < 1);
  CHECK(largest > 1 - 1e-4);
  CHECK(std::abs(normal_mean) < 5 / std::sqrt(kCount));
  CHECK(std::abs(square - 1) < 5 * std::sqrt(2.0 / kCount));
  CHECK(std::abs(fourth - 3) < 5 * std::sqrt(96.0 / kCount));
}
