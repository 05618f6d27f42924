#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/core/context.h"
#include "engine/core/tensor.h"

namespace oxrse::nn {

/// How a parameter starts: a constant, or normal numbers drawn by name and element, so that they do not depend on the layout.
struct Initializer {
  double mean = 0;
  double stddev = 0;  // 0: all elements are `mean`
};

/// Names one parameter of a ParameterStore. A default-constructed id is absent: ops take it for an optional argument.
struct ParameterId {
  int index = -1;
  [[nodiscard]] bool present() const { return index >= 0; }
};

/// Elements [begin, end) of a parameter in row-major order.
struct Piece {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] std::int64_t count() const { return end - begin; }
};

/// Elements of a segment of a parameter with `count` elements. Ranks share parameters by whole segments, and squares are added up in
/// segments first, so that the norm's bits do not depend on who has which. A segment is a multiple of the tile that optimizers work
/// in; there are at most 256 of them, which keeps their sums few in large models.
std::int64_t segment_of(std::int64_t count);

/// One logical parameter. Weights of linear layers are (out, in).
struct Parameter {
  std::string name;  // "blocks.3.attention.qkv.weight"
  std::vector<std::int64_t> sizes;
  Initializer initializer;
  Piece own;       // what this rank updates: all, unless ZeRO shares the optimizer's work; whole segments
  Tensor master;   // what the optimizer updates: the own elements, flat unless they are all
  Tensor compute;  // what the passes read, all elements: `master` is a view of it, or more precise than a 16-bit compute type

  [[nodiscard]] std::int64_t count() const;
  /// Weight decay acts on tensors of two or more dimensions only: never on biases and norms.
  [[nodiscard]] bool decay() const { return sizes.size() >= 2; }
  [[nodiscard]] bool has_master_copy() const { return master.dtype() != compute.dtype(); }
  [[nodiscard]] bool owns_all() const { return own.count() == count(); }
  /// The own elements, flat, of a tensor that has all.
  template <class View>
  [[nodiscard]] View own_part(const View& whole) const {
    return whole.reshape({whole.count()}).slice(0, own.begin, own.end);
  }
};

/// The one owner of all weights. Layers add their parameters when they are built and gather them when they use them.
class ParameterStore {
 public:
  ParameterId add(std::string name, std::vector<std::int64_t> sizes, Initializer initializer);

  /// Makes room in the context's arena; `compute` is the type of the passes. Masters are f32, or f64 where `compute` is. `own` has a piece
  /// for every parameter; without it this rank has all.
  void allocate(Context& context, DType compute, std::span<const Piece> own = {});
  /// Gives the own elements of every parameter their first value.
  void initialize(Context& context, std::uint64_t seed);
  /// Brings the compute copies of the own elements up to date after masters were changed from outside (loaded).
  void cast(Context& context);

  /// Where each parameter begins in `weights` and in buffers of gradients, and where the last ends. Every parameter starts on a cache line.
  [[nodiscard]] std::vector<std::int64_t> offsets(DType compute) const;
  /// The compute weights of all parameters in one piece.
  [[nodiscard]] const Tensor& weights() const { return weights_; }

  /// The weight in the compute type; absent for an absent id.
  [[nodiscard]] ConstTensor gather(ParameterId id) const {
    return id.present() ? ConstTensor(parameters_[id.index].compute) : ConstTensor();
  }

  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }
  [[nodiscard]] const Parameter& operator[](ParameterId id) const { return parameters_[id.index]; }
  /// Elements of all parameters.
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] DType compute_type() const { return compute_; }

 private:
  std::vector<Parameter> parameters_;
  DType compute_ = DType::F32;
  Tensor weights_;
};

}  // namespace oxrse::nn
