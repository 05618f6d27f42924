#pragma once

namespace oxrse::tools {

inline constexpr unsigned kNeedsAvx2 = 1, kNeedsFma = 2, kNeedsBmi2 = 4, kNeedsAvx512 = 8, kNeedsAvx512Vl = 16, kNeedsAvx512Vbmi = 32;

/// What the rest of the binary was compiled to use (processor_needs.cpp); checked before main().
extern const unsigned kProcessorNeeds;

}  // namespace oxrse::tools
