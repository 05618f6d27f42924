#include "cuda/runtime/matmul.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "engine/core/json.h"

namespace oxrse::cuda {
namespace {

/// Elements from one row to the next; of a single row the stride may be anything.
std::int64_t leading(const ConstTensor& t) { return std::max({t.stride(0), t.size(1), std::int64_t{1}}); }

/// The largest power of two up to 16 that the addresses of all rows are multiples of.
int alignment_of(std::initializer_list<ConstTensor> tensors) {
  std::uint64_t bits = 16;
  for (const ConstTensor& t : tensors) {
    if (!t.present()) continue;
    bits |= reinterpret_cast<std::uintptr_t>(t.address());
    if (t.rank() == 2) bits |= static_cast<std::uint64_t>(leading(t) * size_of(t.dtype()));
  }
  return static_cast<int>(bits & (~bits + 1));
}

Multiplication::Activation activation_of(const Product& p) {
  using Activation = Multiplication::Activation;
  return p.gelu.present() ? Activation::Gelu : p.before.present() ? Activation::GeluGradient : Activation::None;
}

/// The library's result is GELU, and what GELU is of an auxiliary one.
const Tensor& result_of(const Product& p) { return p.gelu.present() ? p.gelu : p.c; }
ConstTensor auxiliary_of(const Product& p) { return p.gelu.present() ? ConstTensor(p.c) : p.before; }

/// What the product is added to.
ConstTensor added_to(const Product& p) { return p.to_c == Write::Add ? ConstTensor(p.c) : p.residual; }

}  // namespace

Multiplication multiplication_of(const Product& p) {
  const ConstTensor added = added_to(p), aux = auxiliary_of(p);
  return {.type = p.a.dtype(),
          .result = p.c.dtype(),
          .transpose_a = p.transpose_b,
          .transpose_b = p.transpose_a,
          .m = p.c.size(1),
          .n = p.c.size(0),
          .k = p.a.size(p.transpose_a ? 0 : 1),
          .lda = leading(p.b),
          .ldb = leading(p.a),
          .ldc = leading(added.present() ? added : ConstTensor(result_of(p))),
          .ldd = leading(result_of(p)),
          .add = added.present(),
          .bias = p.bias.present(),
          .activation = activation_of(p),
          .ldaux = aux.present() ? leading(aux) : 0,
          .alignment = alignment_of({p.a, p.b, p.c, p.bias, added, p.gelu, p.before})};
}

Operands operands_of(const Product& p) {
  const ConstTensor added = added_to(p), aux = auxiliary_of(p);
  return {.a = p.b.address(),
          .b = p.a.address(),
          .c = added.present() ? added.address() : nullptr,
          .bias = p.bias.present() ? p.bias.address() : nullptr,
          .d = result_of(p).address(),
          .aux = aux.present() ? const_cast<std::byte*>(aux.address()) : nullptr};
}

bool takes_auxiliary(const Multiplication& product) {
  constexpr std::int64_t kColumns = 8;  // CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD of GELU
  return product.activation == Multiplication::Activation::None || product.ldaux % kColumns == 0;
}

bool Matmul::multiply(Stream stream, const Product& product, bool measure) {
  const Multiplication multiplication = multiplication_of(product);
  if (multiplication.m == 0 || multiplication.n == 0) return true;
  if (multiplication.k == 0 || !takes_auxiliary(multiplication)) return false;
  const Operands operands = operands_of(product);
  const std::optional<Algorithm> algorithm = choose(stream, multiplication, operands, measure);
  if (!algorithm) return false;
  api_.multiply(stream, multiplication, operands, *algorithm, workspace_.get(), workspace_.bytes());
  return true;
}

std::optional<Algorithm> Matmul::choose(Stream stream, const Multiplication& product, const Operands& operands, bool measure) {
  const std::string key = product.key();
  const bool together = agree_ != nullptr && measure;
  const auto found = chosen_.find(key);
  if (found != chosen_.end() && (found->second.agreed || !together)) return found->second.algorithm;
  const auto own = [&] { return found != chosen_.end() ? found->second.algorithm : find(stream, product, operands, measure); };
  const std::optional<Algorithm> algorithm = together ? of_first_rank(product, operands, own) : own();
  // What was not measured may be later.
  if (measure || !algorithm || cache_.find(key)) chosen_[key] = {algorithm, together};
  return algorithm;
}

/// Another rank's algorithm, if it is for this GPU.
std::optional<Algorithm> Matmul::of_first_rank(const Multiplication& product, const Operands& operands,
                                               const std::function<std::optional<Algorithm>()>& own) const {
  const std::string text = agree_([&] {
    const std::optional<Algorithm> algorithm = own();
    return algorithm ? Json(*algorithm).dump() : Json().dump();
  });
  const Json chosen = Json::parse(text);
  if (chosen.is_null()) return std::nullopt;
  const auto algorithm = chosen.get<Algorithm>();
  if (!api_.accepts(product, operands, algorithm, kWorkspace)) {
    throw DeviceError(
        fmt::format("the first rank's algorithm for the product {} is not for this rank's GPU: ranks need GPUs and libraries of one kind",
                    product.key()));
  }
  return algorithm;
}

/// The algorithm of an earlier run, or the one that is measured to be the fastest, or where that cannot be done now the library's own
/// choice.
std::optional<Algorithm> Matmul::find(Stream stream, const Multiplication& product, const Operands& operands, bool measure) {
  const std::string key = product.key();
  if (const auto kept = cache_.find(key); kept && api_.accepts(product, operands, *kept, kWorkspace)) return kept;
  const std::vector<Algorithm> candidates = api_.algorithms(product, operands, kWorkspace, kCandidates);
  if (candidates.empty()) {
    if (product.activation == Multiplication::Activation::None) {
      fmt::print(stderr,
                 "warning: the library has no algorithm for the product {}: the engine's own kernel is taken, which is far slower\n", key);
    }
    return std::nullopt;
  }
  if (!measure) return candidates.front();
  const std::optional<Algorithm> best = fastest(stream, product, operands, candidates);
  if (!best) return candidates.front();
  cache_.add(key, *best);
  return best;
}

/// Nothing where there is no memory for another result: the product's own may be one of its operands.
std::optional<Algorithm> Matmul::fastest(Stream stream, const Multiplication& product, Operands operands,
                                         const std::vector<Algorithm>& candidates) {
  Buffer result;
  try {
    result = Buffer(api_, Api::Memory::Device, static_cast<std::size_t>(product.ldd * product.n * size_of(product.result)));
  } catch (const DeviceError&) {
    return std::nullopt;
  }
  operands.d = result.get();
  const Handle<Event> begin(api_, api_.make_event()), end(api_, api_.make_event());
  const auto run = [&](const Algorithm& a) { api_.multiply(stream, product, operands, a, workspace_.get(), workspace_.bytes()); };
  std::optional<Algorithm> best;
  double least = 0;
  for (const Algorithm& candidate : candidates) {
    run(candidate);  // warms up
    api_.record(begin.get(), stream);
    for (int i = 0; i < kRuns; ++i) run(candidate);
    api_.record(end.get(), stream);
    const double seconds = api_.seconds_between(begin.get(), end.get());
    if (best && seconds >= least) continue;
    best = candidate;
    least = seconds;
  }
  return best;
}

}  // namespace oxrse::cuda
