#include "io/stream_copy.h"

#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace oxrse::io {

void stream_copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
  std::int64_t done = 0;
#ifdef __SSE2__
  constexpr std::int64_t kStore = 16;
  for (; bytes - done >= kStore; done += kStore) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + done), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + done)));
  }
  _mm_sfence();  // these stores are not ordered before others otherwise
#endif
  if (done < bytes) std::memcpy(to + done, from + done, static_cast<std::size_t>(bytes - done));
}

}  // namespace oxrse::io
