#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace oxrse::io {

/// How the text of files becomes documents.
struct TextOptions {
  enum class LineEnds { Auto, Lf, Keep };
  LineEnds line_ends = LineEnds::Auto;                      // "\r\n" becomes "\n" in text files (Auto), in JSONL too (Lf), nowhere (Keep)
  bool nfc = false;                                         // Unicode's normalization form C
  bool skip_invalid = false;                                // leave out and count what cannot be read, instead of an Error
  bool deduplicate = false;                                 // leave out and count documents that are equal to an earlier one, byte for byte
  std::int64_t deduplicate_bytes = std::int64_t{4} << 30U;  // memory for telling them apart, see DocumentSet
};

/// What was left out of the documents, and why.
struct TextReport {
  static constexpr std::size_t kMostReasons = 5;

  std::int64_t empty = 0;            // documents without any text
  std::int64_t duplicates = 0;       // equal to an earlier document
  std::int64_t invalid = 0;          // files, or lines of JSONL
  std::vector<std::string> reasons;  // what was wrong with the first of the invalid ones: "t.jsonl:7: not valid JSON"
};

}  // namespace oxrse::io
