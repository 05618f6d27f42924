#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cuda/portable.h"
#include "engine/core/dtype.h"

namespace oxrse::OXRSE_GPU {

/// What the tensor memory accelerator has to know of a tensor (B, T, H, D), of which boxes of 64 columns of a head and some rows
/// (positions) are copied to shared memory: CUtensorMap, or the emulation's own. To kernels it comes in a `__grid_constant__` parameter.
struct alignas(64) TensorMap {
  std::byte bits[128];
};

inline constexpr int kBoxColumns = 64;  // of 16 bits: 128 bytes, the width of the widest swizzle

/// The map of a tensor of 16-bit numbers. `sizes` are D, H, T, B; `strides` elements from one number to the next of H, T and B: in this
/// order each is a multiple of the one before, as the driver's manual has it (cuda.h, cuTensorMapEncodeTiled). Address and strides must be
/// multiples of 16 bytes. A DeviceError when the driver has no such maps or refuses.
TensorMap make_tensor_map(DType type, const void* base, const std::array<std::int64_t, 4>& sizes,
                          const std::array<std::int64_t, 3>& strides, int box_rows);

}  // namespace oxrse::OXRSE_GPU
