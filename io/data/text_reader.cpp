#include "io/data/text_reader.h"

#include <algorithm>
#include <utility>

#include "engine/core/error.h"
#include "engine/core/json.h"
#include "io/data/normalise.h"
#include "io/data/source.h"
#include "io/tokenizer/utf8.h"

namespace oxrse::io {
namespace {

constexpr std::size_t kPartBytes = std::size_t{1} << 20U;
constexpr int kDeepest = 200;  // as in a config; what is made of the values recurses
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string text_of_record(std::string_view line, const std::string& where) {
  const auto check = [&](int depth, Json::parse_event_t event, const Json& /*value*/) {
    const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    require(!opens || depth < kDeepest, "{}: not valid JSON (nested more than {} deep)", where, kDeepest);
    return true;
  };
  Json record;
  try {
    record = Json::parse(line, check);
  } catch (const Json::parse_error& error) {
    fail("{}: not valid JSON (at byte {} of the line); every line is to be an object such as {{\"text\": \"...\"}}", where, error.byte);
  } catch (const Json::exception&) {  // a number beyond a double
    fail("{}: not valid JSON (a value is out of range); every line is to be an object such as {{\"text\": \"...\"}}", where);
  }
  const bool fits = record.is_object() && record.contains("text") && record["text"].is_string();
  require(fits, "{}: found {}; every line is to be an object with a string \"text\"", where, shown(record));
  return std::move(record["text"].get_ref<std::string&>());
}

Hash128 hash_of(std::string_view text) {
  Hasher128 hasher;
  hasher.add(text);
  return hasher.result();
}

}  // namespace

TextReader::TextReader(std::vector<std::filesystem::path> files, Cut cut, const TextOptions& options)
    : files_(std::move(files)), cut_(std::move(cut)), options_(options), documents_(options.deduplicate_bytes) {
  for (const auto& file : files_) bytes_in_all_ += static_cast<std::int64_t>(std::filesystem::file_size(file));
  if (options.nfc) require_nfc();
}

void TextReader::go_on(TextPosition position, std::span<const Hash128> documents) {
  at_ = std::move(position);
  for (const Hash128 document : documents) documents_.insert(document);
  if (at_.byte == 0) return;
  file_.emplace(path());
  rest_ = file_->text().substr(static_cast<std::size_t>(at_.byte));
}

void TextReader::open_file() {
  file_.emplace(path());
  rest_ = file_->text();
  if (rest_.starts_with(kByteOrderMark)) take(kByteOrderMark.size());
  if (rest_.empty()) return refuse(fmt::format("{} is empty", path().string()));
  if (!is_jsonl(path()) && !wants_text_file()) take(rest_.size());
}

TextPart TextReader::end_file() {
  file_.reset();
  at_ = {.file = at_.file + 1, .bytes_read = at_.bytes_read, .report = std::move(at_.report)};
  return {.text = "", .ends_document = false, .ends_file = true, .document = {}};
}

/// Valid while the file is open.
std::string_view TextReader::take(std::size_t bytes) {
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  at_.byte += static_cast<std::int64_t>(bytes);
  at_.bytes_read += static_cast<std::int64_t>(bytes);
  return taken;
}

void TextReader::refuse(const std::string& reason) {
  if (!options_.skip_invalid) throw Error(reason);
  ++at_.report.invalid;
  at_.found_document = true;
  if (at_.report.reasons.size() < TextReport::kMostReasons) at_.report.reasons.push_back(reason);
}

bool TextReader::is_new(Hash128 document) {
  if (documents_.insert(document)) return true;
  ++at_.report.duplicates;
  return false;
}

std::string TextReader::normalised(std::string text) const {
  using LineEnds = TextOptions::LineEnds;
  const bool lf = options_.line_ends == LineEnds::Lf || (options_.line_ends == LineEnds::Auto && !is_jsonl(path()));
  if (lf && text.find("\r\n") != std::string::npos) text = with_plain_line_ends(text);
  return options_.nfc ? to_nfc(text) : text;
}

std::optional<TextPart> TextReader::next() {
  if (!file_) {
    if (at_.file == files_.size()) return std::nullopt;
    open_file();
  }
  while (!rest_.empty()) {
    if (auto part = is_jsonl(path()) ? next_of_jsonl() : next_of_text()) return part;
  }
  if (!at_.found_document) refuse(fmt::format("{} has no documents: all of its \"text\" are empty", path().string()));
  return end_file();
}

/// Whether the open text file is valid as a whole and not a repetition, as far as the options ask.
bool TextReader::wants_text_file() {
  at_.found_document = true;
  try {
    if (options_.skip_invalid) require_utf8(rest_);
  } catch (const Error& error) {
    refuse(error.what());
    return false;
  }
  if (!options_.deduplicate) return true;
  Hasher128 hasher;
  const std::string_view whole = rest_;
  while (!rest_.empty()) {
    const std::string_view part = first_part();
    require_utf8(part);
    hasher.add(normalised(std::string(part)));
    rest_.remove_prefix(part.size());
  }
  rest_ = whole;
  text_document_ = hasher.result();
  return is_new(*text_document_);
}

std::string_view TextReader::first_part() const { return rest_.size() <= kPartBytes ? rest_ : rest_.substr(0, cut_(rest_, kPartBytes)); }

/// `part` is where the rest of the open file begins.
void TextReader::require_utf8(std::string_view part) const {
  const std::size_t valid = valid_utf8_prefix(part);
  if (valid == part.size()) return;
  const std::string_view before = file_->text().substr(0, static_cast<std::size_t>(part.data() - file_->text().data()) + valid);
  fail("{}:{}: byte {} of the file, 0x{:02x}, is not UTF-8; convert the file, for example with iconv -f latin1 -t utf8", path().string(),
       std::count(before.begin(), before.end(), '\n') + 1, before.size(), static_cast<std::uint8_t>(part[valid]));
}

std::optional<TextPart> TextReader::next_of_text() {
  const std::string_view part = first_part();
  require_utf8(part);
  std::string text = normalised(std::string(take(part.size())));
  return TextPart{
      .text = std::move(text), .ends_document = rest_.empty(), .ends_file = false, .document = std::exchange(text_document_, {})};
}

std::optional<TextPart> TextReader::next_of_jsonl() {
  const std::string_view line = take(std::min(rest_.find('\n'), rest_.size() - 1) + 1);
  ++at_.line;
  if (line.find_first_not_of(" \t\r\n") == std::string_view::npos) return std::nullopt;
  std::string text;
  try {
    text = normalised(text_of_record(line, fmt::format("{}:{}", path().string(), at_.line)));
  } catch (const Error& error) {
    refuse(error.what());
    return std::nullopt;
  }
  if (text.empty()) {
    ++at_.report.empty;
    return std::nullopt;
  }
  at_.found_document = true;
  TextPart part{.text = std::move(text), .ends_document = true, .ends_file = false, .document = {}};
  if (!options_.deduplicate) return part;
  part.document = hash_of(part.text);
  return is_new(*part.document) ? std::optional(std::move(part)) : std::nullopt;
}

}  // namespace oxrse::io
