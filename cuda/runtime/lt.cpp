#include "cuda/runtime/lt.h"

#include "engine/core/device.h"

namespace oxrse::cuda {
namespace {

cudaDataType_t data_type(DType type) {
  switch (type) {
    case DType::F32: return CUDA_R_32F;
    case DType::BF16: return CUDA_R_16BF;
    case DType::F16: return CUDA_R_16F;
    default: fail("CUDA kernels compute in f32, bf16 and fp16, got {}: use the CPU", name_of(type));
  }
}

cublasLtMatrixLayout_t layout(const Multiplication& p, DType type, std::int64_t rows, std::int64_t columns, std::int64_t leading) {
  cublasLtMatrixLayout_t result = nullptr;
  check(
      "cublasLtMatrixLayoutCreate", p,
      cublasLtMatrixLayoutCreate(&result, data_type(type), static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), leading));
  return result;
}

cublasLtEpilogue_t epilogue(const Multiplication& p) {
  switch (p.activation) {
    case Multiplication::Activation::None: break;
    case Multiplication::Activation::Gelu: return p.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Multiplication::Activation::GeluGradient: return CUBLASLT_EPILOGUE_DGELU;
  }
  return p.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

template <class T>
void set(const Multiplication& p, cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check("cublasLtMatmulDescSetAttribute", p, cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value));
}

}  // namespace

void check(std::string_view call, const Multiplication& product, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(fmt::format("{} of {}: {}", call, product.key(), cublasLtGetStatusString(status)));
}

LtProduct::LtProduct(const Multiplication& p, const Operands& operands)
    : a(layout(p, p.type, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda)),
      b(layout(p, p.type, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb)),
      c(layout(p, p.result, p.m, p.n, p.ldc)),
      d(layout(p, p.result, p.m, p.n, p.ldd)) {
  check("cublasLtMatmulDescCreate", p, cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  set(p, operation, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(p, operation, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(p, operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(p));
  if (p.bias) set(p, operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  if (operands.aux == nullptr) return;
  set(p, operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.aux);
  set(p, operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.ldaux);
}

LtProduct::~LtProduct() {
  for (cublasLtMatrixLayout_t each : {a, b, c, d}) cublasLtMatrixLayoutDestroy(each);
  cublasLtMatmulDescDestroy(operation);
}

LtPreference::LtPreference(const Multiplication& p, std::size_t workspace) {
  check("cublasLtMatmulPreferenceCreate", p, cublasLtMatmulPreferenceCreate(&preference_));
  const auto set_preference = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check("cublasLtMatmulPreferenceSetAttribute", p, cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value));
  };
  set_preference(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace));
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set_preference(attribute, static_cast<std::uint32_t>(p.alignment));
  }
}

}  // namespace oxrse::cuda
