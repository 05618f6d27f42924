#include "cuda/runtime/api.h"

#include <fmt/format.h>

namespace oxrse::cuda {
namespace {

std::string activation_text(const Multiplication& p) {
  if (p.activation == Multiplication::Activation::None) return "";
  return fmt::format(" {} ld {}", p.activation == Multiplication::Activation::Gelu ? "gelu" : "gelu'", p.ldaux);
}

}  // namespace

std::string Properties::describe() const {
  return fmt::format("{} (sm_{}{}, {} multiprocessors, {:.1f} GiB)", name, major, minor, multiprocessors,
                     static_cast<double>(memory) / 0x1p30);
}

std::string Multiplication::key() const {
  return fmt::format("{}->{} {}{} {}x{}x{} ld {} {} {} {}{}{}{} /{}", name_of(type), name_of(result), transpose_a ? 'T' : 'N',
                     transpose_b ? 'T' : 'N', m, n, k, lda, ldb, ldc, ldd, add ? " +c" : "", bias ? " +bias" : "", activation_text(*this),
                     alignment);
}

}  // namespace oxrse::cuda
