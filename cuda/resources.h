#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace oxrse::cuda {

/// What a kernel needs of a GPU, as nvcc reported it: a line of cuda/resources.txt.
struct Resources {
  std::string gpu;     // "sm_80"
  std::string kernel;  // "rmsnorm_forward<bf16>"
  int registers = 0;   // of a thread
  int local = 0;       // bytes of stack: arrays and registers that were spilled
};

/// Reads lines as tools/cuda_resources.sh prints them; an Error names one that is not.
std::vector<Resources> parse_resources(std::string_view text);

/// The first line about this kernel in the table that the program was built with; null where there is none.
const Resources* resources_of(std::string_view kernel);

/// "sm_80, nvcc 13.0": what those lines are about.
std::string resources_origin();

}  // namespace oxrse::cuda
