#include "cuda/tensor_map.h"

#include <cstring>

#include "cuda/emulation/hopper.h"
#include "engine/core/device.h"

namespace oxrse::cuda_emulated {

TensorMap make_tensor_map(DType type, const void* base, const std::array<std::int64_t, 4>& sizes,
                          const std::array<std::int64_t, 3>& strides, int box_rows) {
  require(size_of(type) == 2, "a tensor map of {}: numbers of 16 bits are expected", name_of(type));
  emulation::TensorBox box{
      .base = static_cast<const std::byte*>(base), .sizes = sizes, .strides = {}, .columns = kBoxColumns, .rows = box_rows, .element = 2};
  bool aligned = reinterpret_cast<std::uintptr_t>(base) % 16 == 0;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    box.strides[i] = strides[i] * 2;
    aligned = aligned && box.strides[i] > 0 && box.strides[i] % 16 == 0;
  }
  if (!aligned) throw DeviceError("a tensor map: address and strides must be multiples of 16 bytes");
  TensorMap map{};
  static_assert(sizeof box <= sizeof map.bits);
  std::memcpy(map.bits, &box, sizeof box);
  return map;
}

}  // namespace oxrse::cuda_emulated
