#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "io/tokenizer/utf8.h"

namespace oxrse::io {

/// The pattern of GPT-2: contractions, words, numbers and other signs with a space in front, white space.
extern const std::string_view kGpt2Pattern;
/// The pattern of Llama 3: contractions in any case, numbers of up to three digits, signs with the line ends after them.
extern const std::string_view kLlama3Pattern;

/// Cuts text into the pieces that a BPE merges within. The pattern is a Perl-compatible regular expression with Unicode classes; what it
/// leaves out between two matches is a piece too, and so is a stretch of bytes that are not UTF-8. No pattern: the text is one piece.
class Splitter {
 public:
  /// An Error says what is wrong with the pattern.
  explicit Splitter(std::string pattern);
  ~Splitter();
  Splitter(const Splitter&) = delete;
  Splitter& operator=(const Splitter&) = delete;

  [[nodiscard]] const std::string& pattern() const { return pattern_; }
  /// The first place at or after `from` where the text can be cut in two without changing the pieces: its size when there is none, which
  /// is always so for patterns that are not known here.
  [[nodiscard]] std::size_t cut(std::string_view text, std::size_t from) const;

  /// Calls `take(piece)` for the pieces of `text` in order; joined they are the text.
  template <class Take>
  void split(std::string_view text, Take&& take) const {
    while (!text.empty()) {
      const std::size_t valid = valid_utf8_prefix(text);
      split_valid(text.substr(0, valid), take);
      text.remove_prefix(valid);
      std::size_t invalid = 0;
      while (invalid < text.size() && utf8_length(text.substr(invalid)) == 0) ++invalid;
      if (invalid > 0) take(text.substr(0, invalid));
      text.remove_prefix(invalid);
    }
  }

 private:
  struct Program;
  /// A search through one text.
  class Search {
   public:
    explicit Search(const Program& program);
    ~Search();
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;
    /// The first match at or after `begin`: an empty view at the end of the text when there is none.
    std::string_view next(std::string_view text, std::size_t begin);

   private:
    const Program& program_;
    void* match_;
  };

  template <class Take>
  void split_valid(std::string_view text, Take&& take) const {
    if (pattern_.empty()) {
      if (!text.empty()) take(text);
      return;
    }
    Search search(*program_);
    std::size_t done = 0;
    while (done < text.size()) {
      std::size_t end = is_known_ ? plain_word(text, done) : done;
      if (end == done) {
        const std::string_view match = search.next(text, done);
        const auto begin = static_cast<std::size_t>(match.data() - text.data());
        if (begin > done) take(text.substr(done, begin - done));
        done = begin;
        end = begin + match.size();
      }
      if (end > done) take(text.substr(done, end - done));
      done = end;
    }
  }

  /// The end of the piece that starts at `begin` when that is easily seen to be a word of ASCII letters with at most one space in front;
  /// otherwise `begin`.
  static std::size_t plain_word(std::string_view text, std::size_t begin) {
    const auto is_letter = [](char c) { return static_cast<unsigned char>((static_cast<unsigned char>(c) | 0x20U) - 'a') < 26; };
    std::size_t end = begin + static_cast<std::size_t>(text[begin] == ' ');
    const std::size_t first = end;
    while (end < text.size() && is_letter(text[end])) ++end;
    const bool clear = end > first && (end == text.size() || static_cast<unsigned char>(text[end]) < 0x80);
    return clear ? end : begin;
  }

  std::string pattern_;
  bool is_known_;  // one of the two patterns above
  std::unique_ptr<Program> program_;
};

}  // namespace oxrse::io
