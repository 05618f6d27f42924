#include "cuda/kernels/table.h"

namespace oxrse::OXRSE_GPU {
namespace {

template <class Op>
void launch_op(Cuda& cuda, const Op& op) {
  launch(cuda, op);
}

template <class... Ops>
KernelTable make_table(TypeList<Ops...> /*ops*/) {
  KernelTable table;
  ((std::get<::oxrse::cuda::Kernel<Ops>>(table.kernels) = launch_op<Ops>), ...);
  return table;
}

}  // namespace

const KernelTable& kernel_table() {
  static const KernelTable table = make_table(::oxrse::cuda::AllOps{});
  return table;
}

}  // namespace oxrse::OXRSE_GPU
