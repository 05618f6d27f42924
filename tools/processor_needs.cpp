#include "tools/processor.h"

// Compiled with the options of the kernels, whose macros tell what they use. Data only: nothing here may run before the check.
namespace oxrse::tools {
namespace {

#ifdef __AVX2__
constexpr unsigned kAvx2 = kNeedsAvx2;
#else
constexpr unsigned kAvx2 = 0;
#endif
#ifdef __FMA__
constexpr unsigned kFma = kNeedsFma;
#else
constexpr unsigned kFma = 0;
#endif
#ifdef __BMI2__
constexpr unsigned kBmi2 = kNeedsBmi2;
#else
constexpr unsigned kBmi2 = 0;
#endif
#ifdef __AVX512F__
constexpr unsigned kAvx512 = kNeedsAvx512;
#else
constexpr unsigned kAvx512 = 0;
#endif
#ifdef __AVX512VL__
constexpr unsigned kAvx512Vl = kNeedsAvx512Vl;
#else
constexpr unsigned kAvx512Vl = 0;
#endif
#ifdef __AVX512VBMI__
constexpr unsigned kAvx512Vbmi = kNeedsAvx512Vbmi;
#else
constexpr unsigned kAvx512Vbmi = 0;
#endif

}  // namespace

constinit const unsigned kProcessorNeeds = kAvx2 | kFma | kBmi2 | kAvx512 | kAvx512Vl | kAvx512Vbmi;

}  // namespace oxrse::tools
