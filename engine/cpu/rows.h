#pragma once

#include <cstdint>
#include <type_traits>

#include "engine/core/tensor.h"

namespace oxrse::cpu {

/// The rows of an (N, C) or (N, H, C) tensor, numbered n * H + h; each row is contiguous, the rows may be strided.
template <class T>
class Rows {
 public:
  template <class Byte>
  explicit Rows(const BasicTensor<Byte>& t)
      : base_(t.template data<std::remove_const_t<T>>()),
        heads_(t.rank() == 3 ? t.size(1) : 1),
        stride_(t.stride(0)),
        head_stride_(t.rank() == 3 ? t.stride(1) : 0),
        count_(t.size(0) * heads_),
        columns_(t.size(-1)) {}

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  T* operator[](std::int64_t row) const {
    if (heads_ == 1) return base_ + row * stride_;
    return base_ + row / heads_ * stride_ + row % heads_ * head_stride_;
  }

 private:
  T* base_;
  std::int64_t heads_, stride_, head_stride_, count_, columns_;
};

}  // namespace oxrse::cpu
