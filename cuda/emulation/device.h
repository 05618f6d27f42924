#pragma once

#include <memory>

#include "cuda/device.h"

namespace oxrse::cuda_emulated {

/// The emulated GPU: its memory is the host's and its kernels have ended when `launch` returns.
class Device : public Cuda {
 public:
  Device();
  std::byte* allocate(std::int64_t bytes) override;
  void release(std::byte* memory) noexcept override;
  std::int64_t available_bytes() override { return -1; }
  void write(std::byte* to, std::span<const std::byte> from) override;
  void wait() override {}
  [[nodiscard]] std::string description() const override { return std::string(name); }
  void* scratch(std::size_t bytes) override;
  void multiply(const Product& product) override;
  bool multiply_activated(const Product& product) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  [[nodiscard]] bool has_clock() const override { return false; }
  double seconds_of(const std::function<void()>& body) override;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> scratch_;
};

}  // namespace oxrse::cuda_emulated
