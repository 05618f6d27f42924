#pragma once

#include <string>
#include <string_view>

namespace oxrse::cuda {

/// "cast<bf16, double>" from what __PRETTY_FUNCTION__ gives in a function with a template parameter kKernel: the function it stands for,
/// without namespaces, as cuda/resources.txt has it.
std::string kernel_name(std::string_view signature);

}  // namespace oxrse::cuda
