#pragma once

#include <cstddef>
#include <cstdint>

namespace oxrse::io {

/// Copies `bytes` past the caches, where the processor can: for memory that is not read again soon. An ordinary store reads the cache line
/// first, which costs a third of the memory's bandwidth, and pushes out what the processor works with. `to` is at a multiple of 64 bytes.
void stream_copy(std::byte* to, const std::byte* from, std::int64_t bytes);

}  // namespace oxrse::io
