#include "io/data/text_reader.h"

#include <algorithm>
#include <utility>

#include "engine/core/error.h"
#include "engine/core/json.h"
#include "io/data/source.h"
#include "io/tokenizer/utf8.h"

namespace oxrse::io {
namespace {

constexpr std::size_t kPartBytes = std::size_t{1} << 20U;
constexpr int kDeepest = 200;  // as in a config; what is made of the values recurses
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string with_plain_line_ends(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t end = text.find("\r\n");
    result += text.substr(0, end);
    if (end == std::string_view::npos) break;
    result += '\n';
    text.remove_prefix(end + 2);
  }
  return result;
}

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

}  // namespace

TextReader::TextReader(std::vector<std::filesystem::path> files, Cut cut) : files_(std::move(files)), cut_(std::move(cut)) {
  for (const auto& file : files_) bytes_in_all_ += static_cast<std::int64_t>(std::filesystem::file_size(file));
}

void TextReader::open_next_file() {
  const std::filesystem::path& path = files_[next_file_++];
  file_.emplace(path);
  rest_ = file_->text();
  if (rest_.starts_with(kByteOrderMark)) take(kByteOrderMark.size());
  require(!rest_.empty(), "{} is empty", path.string());
  line_ = 0;
  found_document_ = false;
}

std::string TextReader::take(std::size_t bytes) {
  std::string taken(rest_.substr(0, bytes));
  rest_.remove_prefix(bytes);
  bytes_read_ += static_cast<std::int64_t>(bytes);
  return taken;
}

std::optional<TextPart> TextReader::next() {
  if (!file_) {
    if (next_file_ == files_.size()) return std::nullopt;
    open_next_file();
  }
  const std::filesystem::path& path = files_[next_file_ - 1];
  while (!rest_.empty()) {
    if (auto part = is_jsonl(path) ? next_of_jsonl() : next_of_text()) {
      found_document_ = true;
      return part;
    }
  }
  require(found_document_, "{} has no documents: all of its \"text\" are empty", path.string());
  file_.reset();
  return TextPart{.text = "", .ends_document = false, .ends_file = true};
}

std::optional<TextPart> TextReader::next_of_text() {
  const std::string_view part = rest_.size() <= kPartBytes ? rest_ : rest_.substr(0, cut_(rest_, kPartBytes));
  const std::size_t valid = valid_utf8_prefix(part);
  if (valid < part.size()) {
    const std::int64_t lines = line_ + std::count(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(valid), '\n') + 1;
    const std::int64_t byte = file_->size() - static_cast<std::int64_t>(rest_.size() - valid);
    fail("{}:{}: byte {} of the file, 0x{:02x}, is not UTF-8; convert the file, for example with iconv -f latin1 -t utf8",
         files_[next_file_ - 1].string(), lines, byte, static_cast<std::uint8_t>(part[valid]));
  }
  line_ += std::count(part.begin(), part.end(), '\n');
  std::string text = with_plain_line_ends(take(part.size()));
  return TextPart{.text = std::move(text), .ends_document = rest_.empty()};
}

std::optional<TextPart> TextReader::next_of_jsonl() {
  const std::string line = take(std::min(rest_.find('\n'), rest_.size() - 1) + 1);
  ++line_;
  if (line.find_first_not_of(" \t\r\n") == std::string::npos) return std::nullopt;
  std::string text = text_of_record(line, fmt::format("{}:{}", files_[next_file_ - 1].string(), line_));
  if (text.empty()) {
    ++empty_documents_;
    return std::nullopt;
  }
  return TextPart{.text = std::move(text), .ends_document = true};
}

}  // namespace oxrse::io
