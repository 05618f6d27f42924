#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>

#include "io/metrics/append_file.h"
#include "io/metrics/event_format.h"

namespace oxrse::io {

/// An event file that TensorBoard reads, a new one in the directory.
class EventFile {
 public:
  /// Goes on after `step`: TensorBoard then forgets what earlier files in the directory have of later steps. Missing directories are made.
  EventFile(const std::filesystem::path& directory, std::int64_t step);

  void write(std::int64_t step, std::initializer_list<Scalar> scalars);

 private:
  AppendFile file_;
};

}  // namespace oxrse::io
