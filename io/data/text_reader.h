#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/checksum.h"
#include "io/data/document_set.h"
#include "io/data/text_options.h"
#include "io/files.h"

namespace oxrse::io {

/// A part of a document.
struct TextPart {
  std::string text;
  bool ends_document = false;
  bool ends_file = false;
  std::optional<Hash128> document;  // of the document that begins here, when documents are told apart
};

/// How far a TextReader is.
struct TextPosition {
  std::size_t file = 0;         // the one that is being read or comes next
  std::int64_t byte = 0;        // in it; 0: it is not open yet
  std::int64_t line = 0;        // in it
  bool found_document = false;  // in it
  std::int64_t bytes_read = 0;  // of all files
  TextReport report;
};

/// Reads the documents of text files in parts of about a MiB, so that files may be larger than memory.
///
/// A text file is one document. A byte order mark at its start is dropped. In a JSONL file every line is an object with the document in its
/// member "text"; blank lines are skipped. Empty documents are skipped and counted, and so are invalid and repeated ones where the options
/// say so. (A whole text file is then read twice: it is known only at its end whether it is wanted.)
class TextReader {
 public:
  /// Where a text file can be cut, at or after a place; see Tokenizer::cut.
  using Cut = std::function<std::size_t(std::string_view text, std::size_t from)>;
  TextReader(std::vector<std::filesystem::path> files, Cut cut, const TextOptions& options = {});

  /// The next part, or nothing at the end. Unless invalid documents are skipped, an Error names the file and the line or byte: not UTF-8,
  /// not JSON, no "text"; a file without any document.
  std::optional<TextPart> next();

  [[nodiscard]] const TextPosition& position() const { return at_; }
  [[nodiscard]] std::int64_t bytes_in_all() const { return bytes_in_all_; }
  /// Goes on where another reader of the same files was; `documents` are the ones that it gave out.
  void go_on(TextPosition position, std::span<const Hash128> documents);

 private:
  std::optional<TextPart> next_of_text();
  std::optional<TextPart> next_of_jsonl();
  void open_file();
  TextPart end_file();
  bool wants_text_file();
  bool is_new(Hash128 document);
  void refuse(const std::string& reason);
  [[nodiscard]] std::string normalised(std::string text) const;
  [[nodiscard]] std::string_view first_part() const;
  void require_utf8(std::string_view part) const;
  std::string_view take(std::size_t bytes);
  [[nodiscard]] const std::filesystem::path& path() const { return files_[at_.file]; }

  std::vector<std::filesystem::path> files_;
  Cut cut_;
  TextOptions options_;
  DocumentSet documents_;
  TextPosition at_;
  std::optional<MappedFile> file_;
  std::string_view rest_;                 // of the open file
  std::optional<Hash128> text_document_;  // the open text file, until its first part is given out
  std::int64_t bytes_in_all_ = 0;
};

}  // namespace oxrse::io
