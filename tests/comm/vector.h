#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace oxrse::comm::testing {

/// What rank r contributes at element i: small whole numbers, whose sums are exact in every type and order.
inline double contribution(int r, std::int64_t i) { return static_cast<double>((i * 7 + r * 3) % 5 - 2); }

/// Memory of whole vectors where the ranks compute, on the host or on a GPU, that begins off any alignment but the element's, with guards
/// around. Values are those on the host until `upload`, and those of the ranks' memory after `download`; on the host both do nothing.
class Vector {
 public:
  Vector(Communicator& ranks, std::int64_t count, DType type)
      : device_(ranks.device()),
        type_(type),
        bytes_(static_cast<std::size_t>(count * size_of(type) + 2 * kGuard), kGuardByte),
        memory_(device_ == nullptr ? bytes_.data() : device_->allocate(std::ssize(bytes_))) {}
  ~Vector() {
    try {
      if (device_ != nullptr) device_->release(memory_);
    } catch (const Error&) {  // of a GPU that failed; the test has that error
    }
  }
  Vector(Vector&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), type_(other.type_), bytes_(std::move(other.bytes_)), memory_(other.memory_) {}
  Vector(const Vector&) = delete;
  Vector& operator=(const Vector&) = delete;

  /// The memory of the elements.
  [[nodiscard]] std::byte* data() const { return memory_ + kGuard; }
  double operator[](std::int64_t i) const {
    const std::byte* p = bytes_.data() + kGuard + i * size_of(type_);
    if (type_ == DType::F64) return read<double>(p);
    if (type_ == DType::F32) return read<float>(p);
    return static_cast<double>(type_ == DType::BF16 ? static_cast<float>(read<bf16>(p)) : static_cast<float>(read<f16>(p)));
  }
  void set(std::int64_t i, double value) {
    std::byte* p = bytes_.data() + kGuard + i * size_of(type_);
    if (type_ == DType::F64) return write(p, value);
    if (type_ == DType::F32) return write(p, static_cast<float>(value));
    if (type_ == DType::BF16) return write(p, bf16(static_cast<float>(value)));
    write(p, f16(static_cast<float>(value)));
  }
  void upload() {
    if (device_ != nullptr) device_->copy(memory_, bytes_.data(), std::ssize(bytes_));
  }
  void download() {
    if (device_ != nullptr) device_->copy(bytes_.data(), memory_, std::ssize(bytes_));
  }
  [[nodiscard]] bool guards_are_whole() const {
    const auto good = [](std::byte b) { return b == kGuardByte; };
    return std::all_of(bytes_.begin(), bytes_.begin() + kGuard, good) && std::all_of(bytes_.end() - kGuard, bytes_.end(), good);
  }

 private:
  static constexpr std::int64_t kGuard = 8;
  static constexpr std::byte kGuardByte{0xA5};

  template <class T>
  static T read(const std::byte* p) {
    T value;
    std::memcpy(&value, p, sizeof value);
    return value;
  }
  template <class T>
  static void write(std::byte* p, T value) {
    std::memcpy(p, &value, sizeof value);
  }

  DeviceTransport* device_;
  DType type_;
  std::vector<std::byte> bytes_;
  std::byte* memory_;
};

/// The operands of an operation from one vector to another, which may be the same.
inline Operands operands(Communicator& ranks, DType type, const Vector& in, const Vector& out) {
  return {.type = type, .inputs = {in.data()}, .output = out.data(), .on_device = ranks.device() != nullptr};
}

}  // namespace oxrse::comm::testing
