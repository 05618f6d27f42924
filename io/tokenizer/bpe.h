#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/tokenizer/merges.h"
#include "io/tokenizer/splitter.h"
#include "io/tokenizer/token_finder.h"
#include "io/tokenizer/tokenizer.h"

namespace oxrse::io {

/// A token that is found as a whole instead of being built by merges.
struct AddedToken {
  std::int32_t id = 0;
  bool special = true;  // only recognised in text where that is allowed; others always are
};

/// What a byte-level BPE is made of.
struct BpeParts {
  std::vector<std::string> tokens;                            // the bytes of every id; empty for an id that is not used
  std::vector<std::pair<std::int32_t, std::int32_t>> merges;  // pairs of ids, the most important first
  std::vector<AddedToken> added;                              // their ids are in `tokens`, too
  std::string pattern;                                        // of the Splitter
  bool whole_pieces_first = false;                            // a piece that is a token is not built by merges ("ignore_merges")
  std::string source;                                         // the tokenizer.json it was read from; empty when there was none
};

/// Byte-level byte-pair encoding (Sennrich et al. 2016; Radford et al. 2019): the text is split into pieces, every byte of a piece is a
/// token, and neighbours are joined in the order of the merges until none applies.
class BpeTokenizer final : public Tokenizer {
 public:
  /// An Error says what is wrong with the parts: a byte without a token, a merge whose result is no token, an id out of range.
  explicit BpeTokenizer(BpeParts parts);

  void encode_to(std::vector<std::int32_t>& tokens, std::string_view text) const override;
  [[nodiscard]] std::string_view bytes_of(std::int32_t token) const override;
  [[nodiscard]] std::int64_t vocab_size() const override { return static_cast<std::int64_t>(parts_.tokens.size()); }
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const override { return end_of_text_; }
  [[nodiscard]] std::optional<std::int32_t> special(std::string_view name) const override;
  [[nodiscard]] std::vector<std::string> specials() const override;
  [[nodiscard]] std::size_t cut(std::string_view text, std::size_t from) const override;
  [[nodiscard]] std::string to_json() const override;
  [[nodiscard]] std::uint64_t fingerprint() const override;
  [[nodiscard]] const BpeParts& parts() const { return parts_; }

 private:
  [[nodiscard]] bool is_bytes_only() const { return parts_.merges.empty() && whole_pieces_.empty(); }
  void encode_ordinary(std::vector<std::int32_t>& tokens, std::string_view text) const;
  void encode_piece(std::vector<std::int32_t>& tokens, std::string_view piece) const;

  BpeParts parts_;
  Splitter splitter_;
  MergeTable merges_;
  std::vector<std::int32_t> byte_tokens_;                            // the token of every byte
  std::unordered_map<std::string_view, std::int32_t> whole_pieces_;  // filled when whole_pieces_first
  TokenFinder always_found_;                                         // added tokens that are not special
  std::optional<std::int32_t> end_of_text_;
  std::uint64_t instance_;  // tells the tokenizers of a process apart in the word caches
};

/// Every byte is a token: no merges, no special tokens.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

}  // namespace oxrse::io
