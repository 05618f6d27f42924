#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "io/data/text_reader.h"

namespace oxrse::io {

/// Deals the parts of a TextReader out to several threads, about a MiB at a time.
class TextGroups {
 public:
  struct Group {
    std::int64_t number = 0;  // in reading order
    std::vector<TextPart> parts;
    std::int64_t bytes_read = 0;  // of all files, up to the end of this group
  };

  explicit TextGroups(TextReader reader) : reader_(std::move(reader)) {}
  /// The next group; without parts at the end.
  Group next();
  /// For after the end.
  [[nodiscard]] const TextReader& reader() const { return reader_; }

 private:
  std::mutex guard_;
  TextReader reader_;
  std::int64_t next_number_ = 0;
};

}  // namespace oxrse::io
