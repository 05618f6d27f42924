#pragma once

#include <exception>
#include <string>

namespace oxrse::train {

/// Calls `work` and returns what it fails with, "" when it does not. For ranks that have to tell each other before one of them may stop.
template <class Work>
std::string failure_of(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace oxrse::train
