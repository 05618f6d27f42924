#pragma once

#include <cstdint>
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

/// One logical parameter. Weights of linear layers are (out, in).
struct Parameter {
  std::string name;  // "blocks.3.attention.qkv.weight"
  std::vector<std::int64_t> sizes;
  Initializer initializer;
  Tensor master;   // what the optimizer updates
  Tensor compute;  // what the passes read: `master` itself, or its copy in a 16-bit compute type

  [[nodiscard]] std::int64_t count() const;
  /// Weight decay acts on tensors of two or more dimensions only: never on biases and norms.
  [[nodiscard]] bool decay() const { return sizes.size() >= 2; }
  [[nodiscard]] bool has_master_copy() const { return master.dtype() != compute.dtype(); }
};

/// The one owner of all weights. Layers add their parameters when they are built and gather them when they use them.
class ParameterStore {
 public:
  ParameterId add(std::string name, std::vector<std::int64_t> sizes, Initializer initializer);

  /// Makes room in the context's arena; `compute` is the type of the passes. Masters are f32, or f64 where `compute` is.
  void allocate(Context& context, DType compute);
  /// Gives every parameter its first value.
  void initialize(Context& context, std::uint64_t seed);
  /// Brings the compute copies up to date after masters were changed from outside (loaded).
  void cast(Context& context);

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
};

}  // namespace oxrse::nn
