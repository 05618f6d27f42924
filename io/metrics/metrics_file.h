#pragma once

#include <cstdint>
#include <filesystem>

#include "engine/core/json.h"
#include "io/metrics/append_file.h"

namespace oxrse::io {

/// metrics.jsonl: one JSON object a line, each with a "step".
class MetricsFile {
 public:
  /// Goes on after `step`. Lines of later steps, which an interrupted run wrote, and lines that were not written to their end move to
  /// metrics.dropped.jsonl next to it, so that the series has every step once and nothing is lost. Missing directories are made.
  MetricsFile(const std::filesystem::path& path, std::int64_t step);

  /// Numbers keep their full precision; NaN and infinity become null.
  void write(const Json& values);

 private:
  AppendFile file_;
};

}  // namespace oxrse::io
