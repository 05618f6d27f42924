#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/files.h"

namespace oxrse::io {

/// A part of a document.
struct TextPart {
  std::string text;
  bool ends_document = false;
  bool ends_file = false;
};

/// Reads the documents of text files in parts of about a MiB, so that files may be larger than memory.
///
/// A text file is one document. A byte order mark at its start is dropped, "\r\n" becomes "\n". In a JSONL file every line is an object
/// with the document in its member "text"; blank lines are skipped. Empty documents are skipped and counted.
class TextReader {
 public:
  /// Where a text file can be cut, at or after a place; see Tokenizer::cut.
  using Cut = std::function<std::size_t(std::string_view text, std::size_t from)>;
  TextReader(std::vector<std::filesystem::path> files, Cut cut);

  /// The next part, or nothing at the end. An Error names the file and the line or byte: not UTF-8, not JSON, no "text"; a file without
  /// any document.
  std::optional<TextPart> next();

  [[nodiscard]] std::int64_t bytes_read() const { return bytes_read_; }
  [[nodiscard]] std::int64_t bytes_in_all() const { return bytes_in_all_; }
  [[nodiscard]] std::int64_t empty_documents() const { return empty_documents_; }

 private:
  std::optional<TextPart> next_of_text();
  std::optional<TextPart> next_of_jsonl();
  void open_next_file();
  std::string take(std::size_t bytes);

  std::vector<std::filesystem::path> files_;
  Cut cut_;
  std::size_t next_file_ = 0;
  std::optional<MappedFile> file_;
  std::string_view rest_;  // of the open file
  std::int64_t line_ = 0;  // of the open file, as far as it was read
  bool found_document_ = false;
  std::int64_t bytes_read_ = 0, bytes_in_all_ = 0, empty_documents_ = 0;
};

}  // namespace oxrse::io
