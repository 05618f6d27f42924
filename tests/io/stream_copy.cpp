#include "io/stream_copy.h"

#include <algorithm>
#include <vector>

#include "tests/catch.h"

namespace oxrse::io {
namespace {

TEST_CASE("a copy past the caches has every byte, and writes no other") {
  constexpr std::size_t kGuard = 64;
  for (const std::size_t bytes : {0, 1, 15, 16, 17, 63, 64, 65, 1000, 4097}) {
    for (const std::size_t shift : {0, 1, 4, 15}) {
      CAPTURE(bytes, shift);
      std::vector<std::byte> from(bytes + shift);
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 37 + 1);
      std::vector<std::byte> memory(bytes + 3 * kGuard, std::byte{0xEE});
      const std::size_t start = 2 * kGuard - reinterpret_cast<std::uintptr_t>(memory.data()) % kGuard;  // at a multiple of 64
      std::vector<std::byte> expected = memory;
      std::copy(from.begin() + static_cast<std::ptrdiff_t>(shift), from.end(), expected.begin() + static_cast<std::ptrdiff_t>(start));
      stream_copy(memory.data() + start, from.data() + shift, static_cast<std::int64_t>(bytes));
      CHECK(memory == expected);
    }
  }
}

}  // namespace
}  // namespace oxrse::io
