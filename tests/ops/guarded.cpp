#include "tests/ops/guarded.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "tests/ops/device.h"

namespace oxrse::test {
namespace {

constexpr std::byte kPattern{0xA5};
constexpr std::int64_t kZone = 256;  // bytes before and after

template <class T>
T unwritten() {
  if constexpr (sizeof(T) == 8) return std::bit_cast<T>(std::uint64_t{0x7ff8dead0000beef});
  if constexpr (std::is_same_v<T, std::int32_t>) return -123456789;
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<T>(std::uint32_t{0x7fc0beef});
  if constexpr (std::is_same_v<T, bf16>) return std::bit_cast<T>(std::uint16_t{0x7fde});
  if constexpr (std::is_same_v<T, f16>) return std::bit_cast<T>(std::uint16_t{0x7ead});
}

/// Rounds to the neighbour whose last bit is odd where a float cannot hold the double: rounding the result once more to a shorter type
/// gives what rounding once would have given.
float to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (!std::isfinite(value) || static_cast<double>(nearest) == value) return nearest;
  auto u = std::bit_cast<std::uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --u;
  return std::bit_cast<float>(u | 1U);
}

template <class T>
T from_double(double value) {
  if constexpr (sizeof(T) == 2) {
    return T(to_odd(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
double to_double(T value) {
  if constexpr (sizeof(T) == 2) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

template <class F>
decltype(auto) visit(DType type, F&& f) {
  if (type == DType::I32) return f(TypeTag<std::int32_t>{});
  return visit_floating(type, std::forward<F>(f));
}

}  // namespace

double rounded(DType type, double value) {
  return visit(type, [&](auto tag) { return to_double(from_double<typename decltype(tag)::type>(value)); });
}

void Guarded::Release::operator()(std::byte* memory) const {
  if (Device* device = device_under_test().device; device != nullptr) {
    device->release(memory);
  } else {
    delete[] memory;
  }
}

Guarded::Guarded(DType type, const Sizes& sizes, std::int64_t gap, bool aligned) {
  const bool rows = sizes.size() >= 2 && gap > 0;
  const std::int64_t columns = sizes.empty() ? 1 : sizes.back();
  Sizes padded = sizes;
  if (rows) padded.back() += gap;
  std::int64_t count = 1;
  for (const std::int64_t s : padded) count *= s;
  const std::int64_t size = size_of(type);
  bytes_ = static_cast<std::size_t>(count * size + 2 * kZone + size);
  Device* const device = device_under_test().device;
  memory_.reset(device != nullptr ? device->allocate(static_cast<std::int64_t>(bytes_)) : new std::byte[bytes_]);
  if (device != nullptr) device->wait();
  std::fill_n(memory_.get(), bytes_, kPattern);
  // One element past a multiple of 64 bytes, as a slice of a bigger buffer would be.
  const auto base = reinterpret_cast<std::uintptr_t>(memory_.get());
  const std::uintptr_t first = (base + 127) / 64 * 64 + (aligned ? 0 : static_cast<std::uintptr_t>(size));
  view_ = Tensor(memory_.get() + (first - base), type, padded);
  if (rows) view_ = view_.slice(-1, 0, columns);
  visit(type, [&](auto tag) {
    const auto start = unwritten<typename decltype(tag)::type>();
    each([&](std::int64_t, std::byte* p) { std::memcpy(p, &start, sizeof start); });
  });
}

template <class F>
void Guarded::each(F&& f) const {
  if (Device* device = device_under_test().device; device != nullptr) device->wait();
  const std::int64_t size = size_of(view_.dtype());
  std::array<std::int64_t, kMaxRank> at{};
  const std::int64_t count = view_.count();
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t offset = 0;
    for (int d = 0; d < view_.rank(); ++d) offset += at[d] * view_.stride(d);
    f(i, view_.address() + offset * size);
    for (int d = view_.rank() - 1; d >= 0 && ++at[d] == view_.size(d); --d) at[d] = 0;
  }
}

Values Guarded::values() const {
  Values result(static_cast<std::size_t>(view_.count()));
  visit(view_.dtype(), [&](auto tag) {
    each([&](std::int64_t i, const std::byte* p) {
      typename decltype(tag)::type value{};
      std::memcpy(&value, p, sizeof value);
      result[static_cast<std::size_t>(i)] = to_double(value);
    });
  });
  return result;
}

void Guarded::set(std::span<const double> values) {
  require(static_cast<std::int64_t>(values.size()) == view_.count(), "{} values for {}", values.size(), view_.describe());
  visit(view_.dtype(), [&](auto tag) {
    each([&](std::int64_t i, std::byte* p) {
      const auto value = from_double<typename decltype(tag)::type>(values[static_cast<std::size_t>(i)]);
      std::memcpy(p, &value, sizeof value);
    });
  });
}

bool Guarded::intact() const {
  std::vector<bool> element(bytes_, false);
  each([&](std::int64_t, const std::byte* p) {
    const auto at = p - memory_.get();
    std::fill_n(element.begin() + at, size_of(view_.dtype()), true);
  });
  for (std::size_t i = 0; i < bytes_; ++i) {
    if (!element[i] && memory_.get()[i] != kPattern) return false;
  }
  return true;
}

bool Guarded::written() const {
  bool all = true;
  visit(view_.dtype(), [&](auto tag) {
    const auto start = unwritten<typename decltype(tag)::type>();
    each([&](std::int64_t, const std::byte* p) { all = all && std::memcmp(p, &start, sizeof start) != 0; });
  });
  return all;
}

std::vector<std::byte> Guarded::bits() const {
  const auto size = static_cast<std::size_t>(size_of(view_.dtype()));
  std::vector<std::byte> result(static_cast<std::size_t>(view_.count()) * size);
  each([&](std::int64_t i, const std::byte* p) { std::memcpy(result.data() + static_cast<std::size_t>(i) * size, p, size); });
  return result;
}

}  // namespace oxrse::test
