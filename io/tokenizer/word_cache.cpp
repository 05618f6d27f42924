#include "io/tokenizer/word_cache.h"

#include <algorithm>
#include <cstring>

namespace oxrse::io {
namespace {

/// Multiplies and folds eight bytes at a time: a word takes less time than the call of a library. Never 0.
std::uint64_t hash_of(std::string_view piece) {
  std::uint64_t hash = piece.size();
  for (std::size_t i = 0; i < piece.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, piece.data() + i, std::min<std::size_t>(8, piece.size() - i));
    hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29U;
  }
  return hash | 1U << 31U;
}

}  // namespace

WordCache::WordCache() : slots_(kSlots) {}

void WordCache::clear() {
  slots_.assign(kSlots, Slot{});
  texts_.clear();
  tokens_.clear();
  used_ = 0;
}

std::size_t WordCache::place_of(std::uint64_t hash, std::string_view piece) const {
  std::size_t place = hash & (kSlots - 1);
  while (slots_[place].hash != 0) {
    const Slot& slot = slots_[place];
    if (slot.hash == hash && slot.size == piece.size() && std::memcmp(texts_.data() + slot.text, piece.data(), piece.size()) == 0) break;
    place = (place + 1) & (kSlots - 1);
  }
  return place;
}

bool WordCache::find(std::vector<std::int32_t>& tokens, std::string_view piece) {
  const std::uint64_t hash = hash_of(piece);
  const std::size_t place = place_of(hash, piece);
  const Slot& slot = slots_[place];
  if (slot.hash == 0) {
    missed_ = place;
    missed_hash_ = hash;
    return false;
  }
  if (slot.count == 1) {
    tokens.push_back(static_cast<std::int32_t>(slot.first));
  } else {
    const auto first = tokens_.begin() + slot.first;
    tokens.insert(tokens.end(), first, first + slot.count);
  }
  return true;
}

void WordCache::add(std::string_view piece, std::span<const std::int32_t> tokens) {
  if (2 * (used_ + 1) > kSlots) {
    clear();
    missed_ = missed_hash_ & (kSlots - 1);
  }
  Slot& slot = slots_[missed_];
  slot.hash = missed_hash_;
  slot.text = static_cast<std::uint32_t>(texts_.size());
  slot.size = static_cast<std::uint16_t>(piece.size());
  slot.count = static_cast<std::uint16_t>(tokens.size());
  texts_.insert(texts_.end(), piece.begin(), piece.end());
  if (tokens.size() == 1) {
    slot.first = static_cast<std::uint32_t>(tokens.front());
  } else {
    slot.first = static_cast<std::uint32_t>(tokens_.size());
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }
  ++used_;
}

}  // namespace oxrse::io
