#include "cuda/runtime/staging.h"

#include <algorithm>

namespace oxrse::cuda {

std::byte* Staging::take(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  const std::size_t needed = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  while (block_ < blocks_.size() && used_ + needed > blocks_[block_].bytes()) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) blocks_.emplace_back(api_, Api::Memory::Pinned, std::max(needed, kBlock));
  std::byte* memory = blocks_[block_].get() + used_;
  used_ += needed;
  return memory;
}

void Staging::reset() {
  block_ = 0;
  used_ = 0;
}

}  // namespace oxrse::cuda
