#include "engine/core/json.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unordered_map>
#include <vector>

namespace oxrse {
namespace {

/// Reads characters and counts them, so that the parser's events can be told their position.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  std::size_t* count_;
};

/// Builds the document from the parser's events.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, JsonDocument& document) : text_(text), document_(document) {}

  std::size_t* count() { return &count_; }

  bool null() override { return add(nullptr, count_); }
  bool boolean(bool value) override { return add(value, count_); }
  // The end of a number is only known by the character behind it, which has been read.
  bool number_integer(number_integer_t value) override { return add(value, count_ - 1); }
  bool number_unsigned(number_unsigned_t value) override { return add(value, count_ - 1); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value, count_ - 1); }
  bool string(string_t& value) override { return add(std::move(value), count_); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*elements*/) override { return open(Json::object()); }
  bool start_array(std::size_t /*elements*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    Level& level = levels_.back();
    level.key = key;
    const std::string path = join_path(level.path, key);
    const auto [first, is_new] = level.lines.emplace(key, line_at(count_));
    if (!is_new)
      fail("{}:{}: {}: this key is given twice (first on line {}); keep one", document_.source, line_at(count_), path, first->second);
    document_.lines.emplace(path, first->second);
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/, const nlohmann::json::exception& error) override {
    std::string message = error.what();
    // "[json.exception.parse_error.101] parse error at line 2, column 3: what": the front is said in our own form.
    const std::size_t column = message.find("column ");
    const std::size_t start = column == std::string::npos ? message.find("] ") : message.find(": ", column);
    if (start != std::string::npos) message.erase(0, start + 2);
    fail("{}:{}: {}", document_.source, line_at(count_ == 0 ? 0 : count_ - 1), message);
  }

 private:
  struct Level {
    Json* value;
    std::string path;
    std::string key = {};
    std::unordered_map<std::string, int> lines = {};  // of the keys so far
  };

  // Events come in order, so newlines are counted from the last one on.
  int line_at(std::size_t offset) {
    offset = std::min(offset, text_.size());
    if (offset > counted_) {
      line_ += static_cast<int>(
          std::count(text_.begin() + static_cast<std::ptrdiff_t>(counted_), text_.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
      counted_ = offset;
    }
    return line_;
  }

  bool add(Json value, std::size_t offset) {
    place(std::move(value), offset);
    return true;
  }
  bool open(Json value) {
    constexpr std::size_t kDeepest = 200;  // values are printed recursively
    if (levels_.size() == kDeepest) fail("{}:{}: nested deeper than {} levels", document_.source, line_at(count_), kDeepest);
    auto [where, path] = place(std::move(value), count_);
    levels_.push_back({.value = where, .path = std::move(path)});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }
  std::pair<Json*, std::string> place(Json value, std::size_t offset) {
    if (levels_.empty()) {
      document_.value = std::move(value);
      return {&document_.value, ""};
    }
    Level& level = levels_.back();
    if (level.value->is_object()) {
      // Appended to the vector that an ordered object is: its own insertion would search for the key, which is known to be new.
      Json::object_t::Container& members = level.value->get_ref<Json::object_t&>();
      members.emplace_back(level.key, std::move(value));
      return {&members.back().second, join_path(level.path, level.key)};
    }
    std::string path = fmt::format("{}[{}]", level.path, level.value->size());
    document_.lines.emplace(path, line_at(offset));
    level.value->push_back(std::move(value));
    return {&level.value->back(), std::move(path)};
  }

  std::string_view text_;
  JsonDocument& document_;
  std::vector<Level> levels_;
  std::size_t count_ = 0;
  std::size_t counted_ = 0;
  int line_ = 1;
};

/// Forgets the lines of `path` and of everything in it.
void forget_lines(JsonDocument& document, const std::string& path) {
  const auto inside = [&](const std::string& other) {
    return other.starts_with(path) && (other.size() == path.size() || other[path.size()] == '.' || other[path.size()] == '[');
  };
  std::erase_if(document.lines, [&](const auto& entry) { return inside(entry.first); });
}

Json parse_set_value(std::string_view assignment, std::string_view path, std::string_view text) {
  try {
    return parse_json(text, "value").value;
  } catch (const Error&) {
    const bool bare_word = !text.empty() && text.find_first_of("\"{}[],") == std::string_view::npos && text.front() != '-' &&
                           (text.front() < '0' || text.front() > '9');
    const std::string hint = bare_word ? fmt::format("; a string needs its quotes: --set '{}=\"{}\"'", path, text) : "";
    fail("--set {}: the value {} is not JSON{}", assignment, text.empty() ? "(empty)" : text, hint);
  }
}

}  // namespace

std::string join_path(std::string_view parent, std::string_view key) {
  return parent.empty() ? std::string(key) : fmt::format("{}.{}", parent, key);
}

JsonNode JsonNode::at(std::string_view key) const {
  require(value_->is_object(), "expected an object, found {} ({})", kind_of(*value_), shown(*value_));
  const auto found = value_->find(key);
  require(found != value_->end(), "the key \"{}\" is missing", key);
  return {document_, &*found, join_path(path_, key)};
}

JsonNode JsonNode::at(std::size_t i) const {
  require(value_->is_array(), "expected a list, found {} ({})", kind_of(*value_), shown(*value_));
  require(i < value_->size(), "element {} of a list of {}", i, value_->size());
  return {document_, &(*value_)[i], fmt::format("{}[{}]", path_, i)};
}

std::string JsonNode::where() const {
  if (path_.empty()) return document_->source;
  // What is inside of a value from --set has no line of its own.
  std::string known = path_;
  auto line = document_->lines.find(known);
  while (line == document_->lines.end()) {
    const std::size_t parent = known.find_last_of(".[");
    if (parent == std::string::npos) return fmt::format("{}: {}", document_->source, path_);
    known.resize(parent);
    line = document_->lines.find(known);
  }
  if (line->second == 0) return fmt::format("--set: {}", path_);
  return fmt::format("{}:{}: {}", document_->source, line->second, path_);
}

JsonDocument parse_json(std::string_view text, const std::string& source) {
  JsonDocument document{source, {}, {}};
  Builder builder(text, document);
  Json::sax_parse(CountingIterator(text.data(), builder.count()), CountingIterator(text.data() + text.size(), builder.count()), &builder,
                  nlohmann::detail::input_format_t::json, /*strict=*/true, /*ignore_comments=*/true);
  return document;
}

JsonDocument read_json(const std::string& file) {
  require(!std::filesystem::is_directory(file), "{}: is a directory, a JSON file is needed", file);
  std::ifstream stream(file, std::ios::binary);
  require(stream.good(), "{}: cannot be read: {}", file, std::strerror(errno));
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  return parse_json(text, file);
}

void apply_set(JsonDocument& document, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  require(equals != std::string_view::npos && equals > 0, "--set {}: expected key.path=JSON, e.g. --set train.steps=100", assignment);
  const std::string path(assignment.substr(0, equals));
  Json value = parse_set_value(assignment, path, assignment.substr(equals + 1));

  Json* at = &document.value;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    require(end > begin, "--set {}: a part of the key path is empty", assignment);
    require(at->is_object(), "--set {}: {} is {} ({}), not an object; set it as a whole", assignment,
            begin == 0 ? document.source : path.substr(0, begin - 1), kind_of(*at), shown(*at));
    at = &(*at)[path.substr(begin, end - begin)];
    if (at->is_null() && end < path.size()) {
      *at = Json::object();
      document.lines[path.substr(0, end)] = 0;
    }
    begin = end + 1;
  }
  *at = std::move(value);
  forget_lines(document, path);
  document.lines[path] = 0;
}

std::string_view kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return "a list";
    case Json::value_t::string: return "a string";
    case Json::value_t::boolean: return "a boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned: return "an integer";
    case Json::value_t::number_float: return "a number";
    case Json::value_t::binary:
    case Json::value_t::discarded: break;
  }
  return "no value";
}

std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

}  // namespace oxrse
