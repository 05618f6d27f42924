#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oxrse::io {

/// Turns bytes into token ids and back. decode(encode(x)) == x for any bytes, valid UTF-8 or not. Safe to use from several threads.
class Tokenizer {
 public:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  virtual ~Tokenizer() = default;

  /// Appends the tokens of `text`. Special tokens written out in the text are ordinary text.
  virtual void encode_to(std::vector<std::int32_t>& tokens, std::string_view text) const = 0;
  /// The bytes of one token; an Error when there is no such token. Valid while the tokenizer lives.
  [[nodiscard]] virtual std::string_view bytes_of(std::int32_t token) const = 0;
  /// Ids are below this.
  [[nodiscard]] virtual std::int64_t vocab_size() const = 0;
  /// The token that ends a document, when there is one.
  [[nodiscard]] virtual std::optional<std::int32_t> end_of_text() const = 0;
  /// The id of a special token such as "<|endoftext|>"; nothing when there is none of that name.
  [[nodiscard]] virtual std::optional<std::int32_t> special(std::string_view name) const = 0;
  /// The names of the special tokens in the order of their ids.
  [[nodiscard]] virtual std::vector<std::string> specials() const = 0;
  /// The first place at or after `from` where the text can be cut in two without changing the tokens: its size when there is none.
  [[nodiscard]] virtual std::size_t cut(std::string_view text, std::size_t from) const = 0;
  /// The contents of a tokenizer.json from which load_tokenizer makes the same tokenizer.
  [[nodiscard]] virtual std::string to_json() const = 0;
  /// Equal for tokenizers made of the same parts; says which one a cache or a checkpoint was made with.
  [[nodiscard]] virtual std::uint64_t fingerprint() const = 0;

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;
  /// The same, but the special tokens named in `allowed` ("all": every one) are recognised in the text.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, std::span<const std::string> allowed) const;
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;
  /// Writes `path` (tokenizer.json), atomically.
  void save(const std::string& path) const;
};

/// "bytes": every byte is a token (256 of them). Otherwise a file: a Hugging Face tokenizer.json of a byte-level BPE, a GPT-2 vocab.json
/// (with merges.txt next to it), or a directory that holds either. An Error names the file and what is wrong or not supported.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& spec);

/// From the contents of a tokenizer.json, such as to_json() gives; `name` stands for it in errors.
std::unique_ptr<Tokenizer> tokenizer_from_json(const std::string& text, const std::string& name);

/// Decodes a growing sequence of tokens, giving out only whole UTF-8 characters.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// The text that became complete with `token`; bytes that can start a character are held back, invalid ones are given out.
  std::string push(std::int32_t token);
  /// What was held back.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string held_;
};

}  // namespace oxrse::io
