#include "tools/processor.h"

#include <cstdlib>

// Compiled for the oldest processor of its kind, unlike everything else: it must run everywhere to say where the rest does not.
#if defined(__x86_64__) && defined(__GNUC__)

#include <cstdio>

namespace oxrse::tools {
namespace {

// __builtin_cpu_supports takes literals only.
const char* missing_feature(unsigned needed) {
  __builtin_cpu_init();
  if ((needed & kNeedsAvx2) != 0 && __builtin_cpu_supports("avx2") == 0) return "AVX2";
  if ((needed & kNeedsFma) != 0 && __builtin_cpu_supports("fma") == 0) return "FMA";
  if ((needed & kNeedsBmi2) != 0 && __builtin_cpu_supports("bmi2") == 0) return "BMI2";
  if ((needed & kNeedsAvx512) != 0 && __builtin_cpu_supports("avx512f") == 0) return "AVX-512";
  if ((needed & kNeedsAvx512Vl) != 0 && __builtin_cpu_supports("avx512vl") == 0) return "AVX-512 VL";
  if ((needed & kNeedsAvx512Vbmi) != 0 && __builtin_cpu_supports("avx512vbmi") == 0) return "AVX-512 VBMI";
  return nullptr;
}

// Before other constructors, which may already use what is missing.
__attribute__((constructor(101))) void check_processor() {
  const char* missing = missing_feature(kProcessorNeeds);
  if (missing == nullptr) return;
  std::fprintf(stderr,
               "error: this binary was built for a processor with %s, which this one has not: build it on this machine, or for both with "
               "-DOXRSE_MARCH=x86-64-v3\n",
               missing);
  std::_Exit(1);
}

}  // namespace
}  // namespace oxrse::tools

#endif
