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
    TextPosition end;  // of the reader, after this group
  };

  explicit TextGroups(TextReader reader) : reader_(std::move(reader)) {}
  /// The next group; without parts at the end, and after an Error.
  Group next();
  [[nodiscard]] std::int64_t bytes_in_all() const { return reader_.bytes_in_all(); }
  /// Of the reader; for after the end.
  [[nodiscard]] const TextReport& report() const { return reader_.position().report; }

 private:
  std::mutex guard_;
  TextReader reader_;
  std::int64_t next_number_ = 0;
  bool failed_ = false;
};

}  // namespace oxrse::io
