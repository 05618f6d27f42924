#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cuda/portable.h"
#include "engine/core/dtype.h"

namespace oxrse::OXRSE_GPU {

/// What the tensor memory accelerator has to know of a tensor of four dimensions, of which boxes of 64 columns and some rows are copied to
/// shared memory: CUtensorMap, or the emulation's own. To kernels it comes in a `__grid_constant__` parameter.
struct alignas(64) TensorMap {
  std::byte bits[128];
};

inline constexpr int kBoxColumns = 64;  // of 16 bits: 128 bytes, the width of the widest swizzle

/// The map of a tensor of 16-bit numbers. sizes[0] is the contiguous dimension; strides are elements from one number to the next of
/// dimension 1, 2 and 3. Address and strides must be multiples of 16 bytes. A DeviceError when the driver has no such maps or refuses.
TensorMap make_tensor_map(DType type, const void* base, const std::array<std::int64_t, 4>& sizes,
                          const std::array<std::int64_t, 3>& strides, int box_rows);

}  // namespace oxrse::OXRSE_GPU
