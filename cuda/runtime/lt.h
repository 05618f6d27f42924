#pragma once

#include <cublasLt.h>

#include "cuda/runtime/api.h"

namespace oxrse::cuda {

/// Throws a DeviceError with the name of the call and the product unless `status` is success.
void check(std::string_view call, const Multiplication& product, cublasStatus_t status);

/// A product as cuBLASLt describes it: operation, epilogue with its addresses, and four layouts.
class LtProduct {
 public:
  LtProduct(const Multiplication& product, const Operands& operands);
  ~LtProduct();
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;

  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, d = nullptr;
};

/// What an algorithm must be content with.
class LtPreference {
 public:
  LtPreference(const Multiplication& product, std::size_t workspace);
  ~LtPreference() { cublasLtMatmulPreferenceDestroy(preference_); }
  LtPreference(const LtPreference&) = delete;
  LtPreference& operator=(const LtPreference&) = delete;

  [[nodiscard]] cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace oxrse::cuda
