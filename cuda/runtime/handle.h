#pragma once

#include <utility>

#include "cuda/runtime/api.h"

namespace oxrse::cuda {

/// Owns a stream, an event or a graph.
template <class T>
class Handle {
 public:
  Handle() = default;
  Handle(Api& api, T value) : api_(&api), value_(value) {}
  Handle(Handle&& other) noexcept : api_(other.api_), value_(std::exchange(other.value_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(value_, other.value_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (value_ != nullptr) api_->release(value_);
  }

  [[nodiscard]] T get() const { return value_; }
  [[nodiscard]] bool present() const { return value_ != nullptr; }

 private:
  Api* api_ = nullptr;
  T value_ = nullptr;
};

/// Owns memory.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Api& api, Api::Memory kind, std::size_t bytes) : api_(&api), kind_(kind), bytes_(bytes), memory_(api.allocate(kind, bytes)) {}
  Buffer(Buffer&& other) noexcept
      : api_(other.api_), kind_(other.kind_), bytes_(std::exchange(other.bytes_, 0)), memory_(std::exchange(other.memory_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (memory_ != nullptr) api_->release(kind_, memory_);
  }

  [[nodiscard]] std::byte* get() const { return memory_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  Api* api_ = nullptr;
  Api::Memory kind_ = Api::Memory::Device;
  std::size_t bytes_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace oxrse::cuda
