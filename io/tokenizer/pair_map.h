#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace oxrse::io {

/// From pairs of tokens to values: open addressing with linear probing, growing, without removal.
template <class Value>
class PairMap {
 public:
  /// The value of the pair, or nullptr. Valid until the next insertion.
  [[nodiscard]] Value* find(std::int32_t left, std::int32_t right) {
    Slot& slot = slots_[place_of(key_of(left, right))];
    return slot.key == kFree ? nullptr : &slot.value;
  }
  [[nodiscard]] const Value* find(std::int32_t left, std::int32_t right) const {
    const Slot& slot = slots_[place_of(key_of(left, right))];
    return slot.key == kFree ? nullptr : &slot.value;
  }

  /// The value of the pair, made when it is new.
  Value& operator()(std::int32_t left, std::int32_t right) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place_of(key_of(left, right))];
    if (slot.key == kFree) {
      slot.key = key_of(left, right);
      ++count_;
    }
    return slot.value;
  }

  /// Calls `f(left, right, value)` for every pair, in no particular order.
  template <class F>
  void for_each(F&& f) const {
    for (const Slot& slot : slots_) {
      if (slot.key != kFree) f(static_cast<std::int32_t>(slot.key >> 32U), static_cast<std::int32_t>(slot.key), slot.value);
    }
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // no pair has this key, as tokens are not negative
  struct Slot {
    std::uint64_t key = kFree;
    Value value{};
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U | static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t place_of(std::uint64_t key) const {
    std::uint64_t hash = key * 0x9E3779B97F4A7C15U;  // Fibonacci hashing
    hash ^= hash >> 32U;
    std::size_t place = hash & (slots_.size() - 1);
    while (slots_[place].key != kFree && slots_[place].key != key) place = (place + 1) & (slots_.size() - 1);
    return place;
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (Slot& slot : old) {
      if (slot.key != kFree) slots_[place_of(slot.key)] = std::move(slot);
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(16);
  std::size_t count_ = 0;
};

}  // namespace oxrse::io
