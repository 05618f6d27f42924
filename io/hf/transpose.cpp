#include "io/hf/transpose.h"

#include <algorithm>
#include <cstring>

#include "engine/core/error.h"

namespace oxrse::io {
namespace {

/// In square tiles, so that both sides stay in the cache.
template <std::size_t kBytes>
void transpose_elements(std::byte* out, const std::byte* in, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kTile = 64;
  constexpr auto kSize = static_cast<std::int64_t>(kBytes);
  for (std::int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (std::int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (std::int64_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
        for (std::int64_t c = c0; c < std::min(columns, c0 + kTile); ++c) {
          std::memcpy(out + (c * rows + r) * kSize, in + (r * columns + c) * kSize, kBytes);
        }
      }
    }
  }
}

}  // namespace

void transpose(std::byte* out, const std::byte* in, std::int64_t rows, std::int64_t columns, std::int64_t element_bytes) {
  switch (element_bytes) {
    case 2: return transpose_elements<2>(out, in, rows, columns);
    case 4: return transpose_elements<4>(out, in, rows, columns);
    case 8: return transpose_elements<8>(out, in, rows, columns);
    default: fail("cannot transpose elements of {} bytes", element_bytes);
  }
}

}  // namespace oxrse::io
