#pragma once

#include "engine/ops/run.h"

namespace oxrse::ops {

/// table[t, i] = cos(t * theta^(-2i/D)),  table[t, D/2 + i] = sin(t * theta^(-2i/D)),  i < D/2; angles in f64.
/// Su et al., "RoFormer", 2021.
struct RopeTable {
  static constexpr std::string_view name = "rope_table";
  Tensor table;  // (T, D) accumulator type
  double theta = 10000;
};

/// Rotates the pairs (x[n,h,i], x[n,h,i + D/2]) of every head by the angle of the row's position, in place. The gradient is the
/// inverse rotation of the gradient.
struct Rope {
  static constexpr std::string_view name = "rope";
  Tensor x;               // (N, H, D), rows may be strided
  ConstTensor positions;  // (N) i32, below T
  ConstTensor table;      // (T, D) from RopeTable
  bool inverse = false;
};
/// An Error when a position is not in the table; reads the positions.
void check_data(const Rope& op);
Cost check(const RopeTable& op);
Cost check(const Rope& op);
std::string shape(const RopeTable& op);
std::string shape(const Rope& op);
void launch(Cpu& cpu, const RopeTable& op);
void launch(Cpu& cpu, const Rope& op);

}  // namespace oxrse::ops
