#include "io/tokenizer/splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/core/error.h"

namespace oxrse::io {

const std::string_view kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

/// PCRE2's \s counts U+180E as white space even with Unicode classes; Unicode (since 6.3) and the tokenizers in use do not. So \s is
/// written out as Unicode's White_Space.
std::string with_unicode_space(std::string_view pattern) {
  constexpr std::string_view kSpace = R"(\t-\r\x{85}\p{Z})";
  std::string result;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\' || i + 1 == pattern.size()) {
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      result += c;
      continue;
    }
    const char escaped = pattern[++i];
    require(escaped != 'S' || !in_class, "the split pattern {} has \\S inside [ ], which is not supported", pattern);
    if (escaped == 's') {
      result += in_class ? std::string(kSpace) : fmt::format("[{}]", kSpace);
    } else if (escaped == 'S') {
      result += fmt::format("[^{}]", kSpace);
    } else {
      result += c;
      result += escaped;
    }
  }
  return result;
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_alphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct Splitter::Program {
  pcre2_code* code = nullptr;

  explicit Program(std::string_view pattern) {
    const std::string translated = with_unicode_space(pattern);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code =
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
    require(code != nullptr, "the split pattern {} is not understood: {}", pattern, message_of(error));
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where it is not available, matching is slower and the same
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { pcre2_code_free(code); }
};

Splitter::Splitter(std::string pattern) : pattern_(std::move(pattern)), is_known_(pattern_ == kGpt2Pattern || pattern_ == kLlama3Pattern) {
  if (!pattern_.empty()) program_ = std::make_unique<Program>(pattern_);
}
Splitter::~Splitter() = default;

/// After an ASCII letter or digit and before ASCII white space: there both patterns end a piece, whatever follows. (Not so after a sign,
/// which may take line ends along, nor inside white space, where the last character counts.)
std::size_t Splitter::cut(std::string_view text, std::size_t from) const {
  if (!is_known_) return text.size();
  for (std::size_t i = std::max<std::size_t>(from, 1); i < text.size(); ++i) {
    if (is_space(text[i]) && is_alphanumeric(text[i - 1])) return i;
  }
  return text.size();
}

Splitter::Search::Search(const Program& program) : program_(program), match_(pcre2_match_data_create_from_pattern(program.code, nullptr)) {
  require(match_ != nullptr, "out of memory in a pattern search");
}

Splitter::Search::~Search() { pcre2_match_data_free(static_cast<pcre2_match_data*>(match_)); }

std::string_view Splitter::Search::next(std::string_view text, std::size_t begin) {
  auto* match = static_cast<pcre2_match_data*>(match_);
  const int found = pcre2_match(program_.code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), begin,
                                PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match, nullptr);
  if (found == PCRE2_ERROR_NOMATCH) return text.substr(text.size());
  require(found > 0, "the split pattern failed {} bytes into a text of {}: {}", begin, text.size(), message_of(found));
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match);
  return text.substr(bounds[0], bounds[1] - bounds[0]);
}

}  // namespace oxrse::io
