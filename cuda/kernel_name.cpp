#include "cuda/kernel_name.h"

#include <algorithm>
#include <array>

#include "engine/core/error.h"

namespace oxrse::cuda {
namespace {

/// Up to the end of the template argument that `text` begins with: the first separator outside of brackets.
std::string_view first_argument(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (depth == 0 && (text[i] == ';' || text[i] == ',' || text[i] == ']')) return text.substr(0, i);
    depth += text[i] == '<' ? 1 : text[i] == '>' ? -1 : 0;
  }
  return text;
}

void remove_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part)) text.erase(at, part.size());
}

}  // namespace

std::string kernel_name(std::string_view signature) {
  constexpr std::string_view kParameter = "kKernel";
  const std::size_t equals = signature.find('=', std::min(signature.rfind(kParameter), signature.size()));
  require(equals != std::string_view::npos, "no kernel in \"{}\"", signature);
  std::string name(first_argument(signature.substr(std::min(signature.find_first_not_of(" &(", equals + 1), signature.size()))));
  // How gcc and nvcc write the namespaces.
  for (const std::string_view part :
       std::array<std::string_view, 6>{"{anonymous}::", "<unnamed>::", "(anonymous namespace)::", "cuda_emulated::", "cuda::", "oxrse::"}) {
    remove_all(name, part);
  }
  return name;
}

}  // namespace oxrse::cuda
