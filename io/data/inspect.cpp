#include "io/data/inspect.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "io/data/length_histogram.h"
#include "io/data/open_source.h"
#include "io/data/text_reader.h"
#include "io/tokenizer/utf8.h"

namespace oxrse::io {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostFiles = 20;       // that are listed
constexpr std::size_t kExcerptTokens = 100;  // that are shown
constexpr std::size_t kExcerptBytes = 400;
constexpr std::int64_t kPieceTokens = 1 << 20U;  // looked through at once

std::string list_files(const Source& source) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kMostFiles, source.files.size()); ++i) {
    const fs::path& file = source.files[i];
    text += fmt::format("  {}: {} bytes", file.string(), fs::file_size(file));
    if (source.kind == Source::Kind::Tokens) {
      const auto shard = open_token_shard(file);
      text += fmt::format(", {} tokens", shard->size());
      if (shard->documents()) text += fmt::format(", {} documents begin", shard->documents()->size());
    }
    text += '\n';
  }
  if (source.files.size() > kMostFiles) text += fmt::format("  ... and {} more\n", source.files.size() - kMostFiles);
  return text;
}

/// One line of a text for a terminal: line ends and other control characters written out, no character cut in two.
std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text.substr(0, valid_utf8_prefix(text))) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += c;
    }
  }
  return line;
}

/// The first documents that begin at or after places evenly spread over a range.
class EvenlySpread {
 public:
  EvenlySpread(std::int64_t count, std::int64_t size) : count_(count), size_(size) {}
  /// Whether to take the document that begins at `place`; to be asked for all of them in order.
  bool takes(std::int64_t place) {
    if (taken_ == count_ ||
        place < static_cast<std::int64_t>(static_cast<double>(size_) / static_cast<double>(count_) * static_cast<double>(taken_)))
      return false;
    ++taken_;
    return true;
  }

 private:
  std::int64_t count_, size_, taken_ = 0;
};

/// What one pass over tokens shows.
class TokenScan {
 public:
  TokenScan(const TokenStream& stream, std::optional<std::int32_t> end_of_text, std::int64_t samples)
      : stream_(stream), end_of_text_(end_of_text), spread_(samples, stream.size()) {
    begin_document(0);
    // From the second piece on the token before comes along: the first token of a piece may begin a document, too.
    for (std::int64_t begin = 0; begin < stream.size(); begin += kPieceTokens)
      look(std::max<std::int64_t>(begin - 1, 0), begin + kPieceTokens);
    lengths_.add(stream.size() - document_);
  }

  [[nodiscard]] std::uint32_t largest() const { return largest_; }
  [[nodiscard]] const LengthHistogram& lengths() const { return lengths_; }
  [[nodiscard]] const std::vector<std::int64_t>& samples() const { return samples_; }

 private:
  void look(std::int64_t begin, std::int64_t end) {
    piece_.resize(static_cast<std::size_t>(std::min(end, stream_.size()) - begin));
    stream_.read(begin, piece_);
    for (const std::int32_t token : piece_) largest_ = std::max(largest_, static_cast<std::uint32_t>(token));
    for (const std::int64_t start : stream_.document_starts(begin, piece_, end_of_text_)) {
      lengths_.add(begin + start - document_);
      begin_document(begin + start);
    }
  }
  void begin_document(std::int64_t place) {
    document_ = place;
    if (spread_.takes(place)) samples_.push_back(place);
  }

  const TokenStream& stream_;
  std::optional<std::int32_t> end_of_text_;
  EvenlySpread spread_;
  std::vector<std::int32_t> piece_;
  std::uint32_t largest_ = 0;
  LengthHistogram lengths_;
  std::int64_t document_ = 0;  // where the present one began
  std::vector<std::int64_t> samples_;
};

/// The document that begins at token `begin`, or its first tokens, as text or as numbers.
std::string excerpt(const TokenStream& stream, std::int64_t begin, const Tokenizer* tokenizer, std::optional<std::int32_t> end_of_text) {
  std::vector<std::int32_t> tokens(std::min<std::size_t>(kExcerptTokens, static_cast<std::size_t>(stream.size() - begin)));
  stream.read(begin, tokens);
  const auto starts = stream.document_starts(begin, tokens, end_of_text);
  if (!starts.empty()) tokens.resize(static_cast<std::size_t>(starts.front()));
  std::string text;
  for (const std::int32_t token : tokens) {
    if (tokenizer == nullptr) {
      text += fmt::format("{} ", static_cast<std::uint32_t>(token));
    } else if (0 <= token && token < tokenizer->vocab_size()) {
      text += tokenizer->bytes_of(token);
    } else {
      text += fmt::format("<{}: not in the tokenizer's vocabulary>", static_cast<std::uint32_t>(token));
    }
  }
  return one_line(text);
}

std::unique_ptr<Tokenizer> tokenizer_for(const Source& source, const std::string& wanted) {
  if (!wanted.empty()) return load_tokenizer(wanted);
  const fs::path beside = fs::path(source.name) / "tokenizer.json";
  return fs::exists(beside) ? load_tokenizer(beside.string()) : nullptr;
}

std::string describe(const TextReport& left_out) {
  std::string text;
  if (left_out.empty > 0) text += fmt::format("left out: {} empty documents\n", left_out.empty);
  if (left_out.duplicates > 0) text += fmt::format("left out: {} documents equal to an earlier one\n", left_out.duplicates);
  if (left_out.invalid > 0) text += fmt::format("left out: {} invalid files or lines\n", left_out.invalid);
  for (const std::string& reason : left_out.reasons) text += "  " + reason + "\n";
  return text;
}

std::string inspect_tokens(const Source& source, const InspectRequest& request) {
  const auto tokenizer = tokenizer_for(source, request.tokenizer);
  const auto end_of_text = tokenizer ? tokenizer->end_of_text() : std::nullopt;
  const OpenedSource opened = open_tokens(source);
  const TokenStream& stream = opened.tokens;
  const TokenScan scan(stream, end_of_text, request.samples);
  std::string text = fmt::format("{}: {} tokens, the largest is {}\n{}", source.name, stream.size(), scan.largest(), list_files(source));
  text += stream.knows_documents(end_of_text) ? scan.lengths().text("tokens")
                                              : "documents: where they end is not known without a tokenizer (--tokenizer)\n";
  text += describe(opened.left_out);
  for (const std::int64_t place : scan.samples()) {
    text += fmt::format("at token {}: {}\n", place, excerpt(stream, place, tokenizer.get(), end_of_text));
  }
  return text;
}

std::string inspect_text(const Source& source, const InspectRequest& request) {
  const auto bytes = load_tokenizer("bytes");
  TextReader reader(source.files, [&](std::string_view text, std::size_t from) { return bytes->cut(text, from); }, {.skip_invalid = true});
  EvenlySpread spread(request.samples, reader.bytes_in_all());
  LengthHistogram lengths;
  std::string samples;
  std::int64_t length = 0;
  while (const auto part = reader.next()) {
    const std::int64_t end = reader.position().bytes_read;
    const bool begins = length == 0 && !part->text.empty();
    if (begins && spread.takes(end)) samples += fmt::format("before byte {}: {}\n", end, one_line(part->text.substr(0, kExcerptBytes)));
    length += static_cast<std::int64_t>(part->text.size());
    if (part->ends_document) lengths.add(std::exchange(length, 0));
  }
  return fmt::format("{}: {} bytes of text\n{}{}{}{}", source.name, reader.bytes_in_all(), list_files(source), lengths.text("bytes"),
                     describe(reader.position().report), samples);
}

}  // namespace

std::string inspect_source(const Source& source, const InspectRequest& request) {
  return source.kind == Source::Kind::Tokens ? inspect_tokens(source, request) : inspect_text(source, request);
}

}  // namespace oxrse::io
