#pragma once

#include <cstddef>

namespace oxrse::cuda_emulated {

/// Memory as cudaMalloc gives it, aligned to 256 bytes. Every byte is 0xff, NaN in every floating type: what is read before it is written
/// shows.
std::byte* allocate_poisoned(std::size_t bytes);
void free_poisoned(std::byte* memory) noexcept;

}  // namespace oxrse::cuda_emulated
