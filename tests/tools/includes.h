#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace oxrse::test {

/// Includes of the C++ and CUDA files under `root` that go against the order of the rooms (docs/tour.md): one message each,
/// "file:line: what is wrong (what is allowed)".
std::vector<std::string> wrong_includes(const std::filesystem::path& root);

}  // namespace oxrse::test
