#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/data/token_shard.h"

namespace oxrse::io {

/// The tokens of several shards, or of parts of them, one after the other.
class TokenStream {
 public:
  /// Adds tokens [begin, begin + count) of a shard. `new_file`: they are the beginning of another file (a text file or a shard), from
  /// whose end a part can be held out.
  void append(std::shared_ptr<const TokenShard> shard, std::int64_t begin, std::int64_t count, bool new_file);

  /// Adds all of another stream.
  void append(const TokenStream& other);

  [[nodiscard]] std::int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] std::uint64_t fingerprint() const;
  void read(std::int64_t begin, std::span<std::int32_t> tokens) const;

  /// Given the tokens from `begin` on, the indices (1 and above) at which another document starts. Shards without a table of documents
  /// have one after every `end_of_text` token.
  [[nodiscard]] std::vector<std::int64_t> document_starts(std::int64_t begin, std::span<const std::int32_t> tokens,
                                                          std::optional<std::int32_t> end_of_text) const;
  /// Whether documents can be told apart everywhere: by tables or by an end-of-text token.
  [[nodiscard]] bool knows_documents(std::optional<std::int32_t> end_of_text) const;

  /// "shard_00001.h5, byte 2048": where a token comes from.
  [[nodiscard]] std::string locate(std::int64_t token) const;

  /// Cuts off the last `fraction` of the tokens of every file: the rest, and what was cut off. A file's share does not depend on what
  /// other files there are.
  [[nodiscard]] std::pair<TokenStream, TokenStream> hold_out(double fraction) const;

 private:
  struct Segment {
    std::shared_ptr<const TokenShard> shard;
    std::int64_t begin = 0, count = 0;
    bool new_file = false;
    bool continues = false;  // follows the segment before without a gap
  };
  /// The segment that token `position` of the stream is in.
  [[nodiscard]] std::size_t segment_of(std::int64_t position) const;
  void append_range(const TokenStream& other, std::int64_t begin, std::int64_t end);

  std::vector<Segment> segments_;
  std::vector<std::int64_t> ends_;  // of the segments, in tokens of the stream
};

}  // namespace oxrse::io
