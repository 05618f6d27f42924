#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/files.h"

namespace oxrse::io {

/// One file of tokens, mapped into memory, so its size does not matter. Made by open_token_shard.
class TokenShard {
 public:
  struct Layout {
    std::int64_t offset = 0;        // in bytes, of the first token in the file
    std::int64_t count = 0;         // of tokens
    int bytes_per_token = 2;        // 2 or 4; unsigned and little-endian
    std::uint64_t fingerprint = 0;  // of the tokens, whatever file they are in
    std::uint64_t tokenizer = 0;    // Tokenizer::fingerprint of the one that made them, 0 where the format does not say
  };
  /// `documents`: the tokens that documents start at, ascending; without it they end after an end-of-text token.
  TokenShard(std::filesystem::path path, MappedFile file, const Layout& layout, std::optional<std::vector<std::int64_t>> documents);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::int64_t size() const { return layout_.count; }
  [[nodiscard]] std::uint64_t fingerprint() const { return layout_.fingerprint; }
  [[nodiscard]] std::uint64_t tokenizer() const { return layout_.tokenizer; }
  [[nodiscard]] const std::optional<std::vector<std::int64_t>>& documents() const { return documents_; }
  /// Tokens begin, begin + 1, ...; ids of 2^31 and above come out negative.
  void read(std::int64_t begin, std::span<std::int32_t> tokens) const;
  /// Where token `i` is in the file, in bytes.
  [[nodiscard]] std::int64_t offset_of(std::int64_t i) const { return layout_.offset + i * layout_.bytes_per_token; }

 private:
  std::filesystem::path path_;
  MappedFile file_;
  Layout layout_;
  std::optional<std::vector<std::int64_t>> documents_;
};

/// Whether the file starts like a token shard of a format that is known.
bool is_token_shard(const std::filesystem::path& path);

/// Opens llm.c's .bin (256 int32 {20240520, 1, n} and n uint16, or {20240801, 7, n} and n uint32), Megatron's .bin with its .idx, or our
/// own HDF5 shard. An Error names the file and what is wrong with it; so does one without tokens.
std::shared_ptr<const TokenShard> open_token_shard(const std::filesystem::path& path);

/// A fingerprint of tokens from their number and 64 samples of 4 KiB, because reading a terabyte to name it would take too long.
std::uint64_t sampled_fingerprint(std::span<const std::byte> tokens);

}  // namespace oxrse::io
