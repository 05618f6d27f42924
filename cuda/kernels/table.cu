#include "cuda/kernels/table.h"
#include "cuda/ladder/ladder.h"

namespace oxrse::OXRSE_GPU {
namespace {

/// What is enqueued in its lifetime bears the op's name in profiles.
class Range {
 public:
  Range(Cuda& cuda, std::string_view op) : cuda_(cuda) { cuda_.begin_range(op); }
  ~Range() { cuda_.end_range(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  Cuda& cuda_;
};

/// Errors of a device name the call that failed; of which op and shapes it was is known here.
template <class Op>
void launch_op(Cuda& cuda, const Op& op) {
  const Range range(cuda, Op::name);
  try {
    launch(cuda, op);
  } catch (const DeviceError& error) {
    fail("{} ({}): {}", Op::name, shape(op), error.what());
  }
}

template <class... Ops>
KernelTable make_table(TypeList<Ops...> /*ops*/) {
  KernelTable table;
  table.multiply = multiply;
  table.ladders = &ladders();
  ((std::get<::oxrse::cuda::Kernel<Ops>>(table.kernels) = launch_op<Ops>), ...);
  return table;
}

}  // namespace

const KernelTable& kernel_table() {
  static const KernelTable table = make_table(::oxrse::cuda::AllOps{});
  return table;
}

}  // namespace oxrse::OXRSE_GPU
