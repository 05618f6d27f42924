#include <cuda.h>

#include <cstring>
#include <type_traits>

#include "cuda/runtime/error.h"
#include "cuda/tensor_map.h"
#include "engine/core/device.h"

namespace oxrse::cuda {
namespace {

using Encode = std::remove_reference_t<decltype(cuTensorMapEncodeTiled)>*;

/// The driver's function; the program does not link with the driver.
Encode find_encode() {
  constexpr unsigned kSince = 12000;  // the version of CUDA that brought it
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check("cudaGetDriverEntryPointByVersion", "cuTensorMapEncodeTiled",
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kSince, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || function == nullptr) throw DeviceError("the driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<Encode>(function);
}

}  // namespace

TensorMap make_tensor_map(DType type, const void* base, const std::array<std::int64_t, 4>& sizes,
                          const std::array<std::int64_t, 3>& strides, int box_rows) {
  static const Encode encode = find_encode();
  static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= 64);
  cuuint64_t dimensions[4], bytes[3];
  for (int i = 0; i < 4; ++i) dimensions[i] = static_cast<cuuint64_t>(sizes[static_cast<std::size_t>(i)]);
  for (int i = 0; i < 3; ++i) bytes[i] = static_cast<cuuint64_t>(strides[static_cast<std::size_t>(i)] * 2);
  const cuuint32_t box[4] = {kBoxColumns, 1, static_cast<cuuint32_t>(box_rows), 1}, every[4] = {1, 1, 1, 1};
  TensorMap map;
  const CUresult status =
      encode(reinterpret_cast<CUtensorMap*>(&map), type == DType::BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
             4, const_cast<void*>(base), dimensions, bytes, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) throw DeviceError(fmt::format("cuTensorMapEncodeTiled: error {}", static_cast<int>(status)));
  return map;
}

}  // namespace oxrse::cuda
