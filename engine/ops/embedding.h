#pragma once

#include "engine/ops/run.h"

namespace oxrse::ops {

/// y[n,c] = table[ids[n], c]; ids outside [0, V) are an Error on the host.
struct Embedding {
  static constexpr std::string_view name = "embedding";
  Tensor y;           // (N, C)
  ConstTensor ids;    // (N) i32: tokens or positions
  ConstTensor table;  // (V, C)
  Write to_y = Write::Assign;

  /// dtable[v,c] = sum over n with ids[n] == v of dy[n,c], in order of n
  struct Backward {
    static constexpr std::string_view name = "embedding.backward";
    Tensor dtable;    // (V, C) accumulator type
    ConstTensor dy;   // (N, C)
    ConstTensor ids;  // (N) i32
    Write to_dtable = Write::Assign;
  };
};
/// An Error when an id is outside of the table; reads the ids.
void check_data(const Embedding& op);
void check_data(const Embedding::Backward& op);
Cost check(const Embedding& op);
Cost check(const Embedding::Backward& op);
std::string shape(const Embedding& op);
std::string shape(const Embedding::Backward& op);
void launch(Cpu& cpu, const Embedding& op);
void launch(Cpu& cpu, const Embedding::Backward& op);

}  // namespace oxrse::ops
