#pragma once

#include "engine/core/philox.h"
#include "engine/ops/run.h"

namespace oxrse::ops {

/// y = value
struct Fill {
  static constexpr std::string_view name = "fill";
  Tensor y;  // contiguous
  double value = 0;
};

/// y = mean + stddev * normal(element index); the same numbers whatever the type, rounded once.
struct FillNormal {
  static constexpr std::string_view name = "fill_normal";
  Tensor y;  // contiguous
  double mean = 0;
  double stddev = 1;
  RandomStream random;
  std::int64_t first_element = 0;  // index of y's first element in the logical tensor
};

/// y = x in y's type, rounded to nearest even.
struct Cast {
  static constexpr std::string_view name = "cast";
  Tensor y;       // contiguous
  ConstTensor x;  // contiguous, same count
};

/// y = a + b
struct Add {
  static constexpr std::string_view name = "add";
  Tensor y;          // contiguous; may be a or b itself
  ConstTensor a, b;  // contiguous, same type and count
};

/// sum = (or +=) sum of x, added up in f64 over fixed tiles: the same bits for any number of threads.
struct Sum {
  static constexpr std::string_view name = "sum";
  Tensor sum;     // (1) f64
  ConstTensor x;  // contiguous
  Write to_sum = Write::Assign;
};
Cost check(const Fill& op);
Cost check(const FillNormal& op);
Cost check(const Cast& op);
Cost check(const Add& op);
Cost check(const Sum& op);
std::string shape(const Fill& op);
std::string shape(const FillNormal& op);
std::string shape(const Cast& op);
std::string shape(const Add& op);
std::string shape(const Sum& op);
void launch(Cpu& cpu, const Fill& op);
void launch(Cpu& cpu, const FillNormal& op);
void launch(Cpu& cpu, const Cast& op);
void launch(Cpu& cpu, const Add& op);
void launch(Cpu& cpu, const Sum& op);

}  // namespace oxrse::ops
