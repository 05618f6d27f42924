#pragma once

#include <tuple>

#include "cuda/kernels/kernels.h"

namespace oxrse {

/// A list of types as a value.
template <class... Types>
struct TypeList {};

namespace cuda {

/// Every op that has kernels: an op that is missing here is refused by name when it is run; one without kernels does not link.
using AllOps =
    TypeList<ops::Gelu, ops::Gelu::Backward, ops::SwiGlu, ops::SwiGlu::Backward, ops::Attention, ops::Attention::Backward,
             ops::CrossEntropy, ops::Dropout, ops::Fill, ops::FillNormal, ops::Cast, ops::Add, ops::Sum, ops::Embedding,
             ops::Embedding::Backward, ops::LayerNorm, ops::LayerNorm::Backward, ops::Linear, ops::Linear::Backward, ops::SumSquares,
             ops::ClipFactor, ops::AdamW, ops::Sgd, ops::RoundAtRandom, ops::RmsNorm, ops::RmsNorm::Backward, ops::RopeTable, ops::Rope>;

template <class Op>
using Kernel = void (*)(Cuda& cuda, const Op& op);

struct Ladders;

template <class List>
struct TableOf;
template <class... Ops>
struct TableOf<TypeList<Ops...>> {
  using type = std::tuple<Kernel<Ops>...>;
};

}  // namespace cuda

/// The kernels of a device, one an op, its product of matrices for when the library has none, and the slower kernels that lead to some of
/// them (cuda/ladder/ladder.h).
struct KernelTable {
  cuda::TableOf<cuda::AllOps>::type kernels;
  void (*multiply)(Cuda& cuda, const Product& product);
  const cuda::Ladders* ladders;
  bool (*attention_wgmma)(Cuda& cuda, const ops::Attention& op) = nullptr;  // null where it was not compiled
};

namespace OXRSE_GPU {

/// The kernels that this compiler made.
const KernelTable& kernel_table();

}  // namespace OXRSE_GPU
}  // namespace oxrse
