#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "comm/communicator.h"
#include "comm/memory.h"

namespace oxrse::comm::testing {

/// What rank r contributes at element i: small whole numbers, whose sums are exact in every type and order.
inline double contribution(int r, std::int64_t i) { return static_cast<double>((i * 7 + r * 3) % 5 - 2); }

/// Memory of whole vectors where the ranks compute, on the host or on a GPU, that begins off any alignment but the element's, with guards
/// around. Values are those on the host until `upload`, and those of the ranks' memory after `download`; on the host both do nothing.
class Vector {
 public:
  Vector(Communicator& ranks, std::int64_t count, DType type)
      : type_(type), memory_(ranks.device(), count * size_of(type) + 2 * kGuard, kGuardByte) {}
  /// The memory of the elements.
  [[nodiscard]] std::byte* data() const { return memory_.data() + kGuard; }
  double operator[](std::int64_t i) const {
    const std::byte* p = memory_.host().data() + kGuard + i * size_of(type_);
    if (type_ == DType::F64) return read<double>(p);
    if (type_ == DType::F32) return read<float>(p);
    return static_cast<double>(type_ == DType::BF16 ? static_cast<float>(read<bf16>(p)) : static_cast<float>(read<f16>(p)));
  }
  void set(std::int64_t i, double value) {
    std::byte* p = memory_.host().data() + kGuard + i * size_of(type_);
    if (type_ == DType::F64) return write(p, value);
    if (type_ == DType::F32) return write(p, static_cast<float>(value));
    if (type_ == DType::BF16) return write(p, bf16(static_cast<float>(value)));
    write(p, f16(static_cast<float>(value)));
  }
  void upload() { memory_.upload(); }
  void download() { memory_.download(); }
  [[nodiscard]] bool guards_are_whole() const {
    const auto good = [](std::byte b) { return b == kGuardByte; };
    const std::vector<std::byte>& bytes = memory_.host();
    return std::all_of(bytes.begin(), bytes.begin() + kGuard, good) && std::all_of(bytes.end() - kGuard, bytes.end(), good);
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

  DType type_;
  MirroredMemory memory_;
};

/// The operands of an operation from one vector to another, which may be the same.
inline Operands operands(Communicator& ranks, DType type, const Vector& in, const Vector& out) {
  return {.type = type, .inputs = {in.data()}, .output = out.data(), .on_device = ranks.device() != nullptr};
}

}  // namespace oxrse::comm::testing
