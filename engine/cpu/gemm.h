#pragma once

#include "engine/ops/gemm.h"

namespace oxrse::cpu {

using ops::Gemm;

/// C is cut into a grid of tiles, and a long K into ranges where the grid is small, that depend on the sizes alone; every tile is the
/// work of one thread. So the bits do not depend on the number of threads.
void gemm(const Cpu& cpu, const Gemm& product);

}  // namespace oxrse::cpu
