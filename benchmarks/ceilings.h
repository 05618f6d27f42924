#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "cuda/device.h"
#include "engine/core/context.h"
#include "engine/core/json.h"

namespace oxrse::bench {

/// What this machine reaches at its best, measured before anything else: no data sheet is needed to judge a kernel.
struct Ceilings {
  double copy_cold = 0;  // bytes read and written per second, from and to memory
  double copy_hot = 0;   // the same inside the last-level cache

  /// FLOP per second of a large matrix product of this type.
  [[nodiscard]] double gemm(DType type) const { return gemm_[static_cast<std::size_t>(type)]; }
  void set_gemm(DType type, double flops) { gemm_[static_cast<std::size_t>(type)] = flops; }
  /// The least time for this work: that of the copy or that of the product, whichever is longer.
  [[nodiscard]] double floor_seconds(const Cost& cost, DType type, bool cold) const;
  /// "gemm" or "copy": what the floor is made of.
  [[nodiscard]] const char* binding(const Cost& cost, DType type, bool cold) const;

  [[nodiscard]] Json json() const;
  [[nodiscard]] std::string describe() const;

 private:
  std::array<double, 6> gemm_{};
};

/// Measures copies and products with the threads of `cpu`; takes a few seconds.
Ceilings measure_ceilings(const Cpu& cpu);
/// The same of a GPU; products in f64 are not measured.
Ceilings measure_ceilings(Cuda& device);

/// Bytes of the processor's last-level cache; 32 MiB where the system does not say.
std::int64_t last_level_cache_bytes();

/// "AMD EPYC, 2 threads": the processor as the system names it.
std::string machine_name(const Cpu& cpu);

}  // namespace oxrse::bench
