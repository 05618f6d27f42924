#include "io/tokenizer/bpe.h"

#include <array>
#include <atomic>
#include <utility>

#include "engine/core/error.h"
#include "io/checksum.h"
#include "io/tokenizer/tokenizer_json.h"
#include "io/tokenizer/word_cache.h"

namespace oxrse::io {
namespace {

constexpr std::array<std::string_view, 3> kEndOfText = {"<|endoftext|>", "<|end_of_text|>", "</s>"};  // GPT-2, Llama 3, others

std::uint64_t next_instance() {
  static std::atomic<std::uint64_t> instances{1};
  return instances++;
}

std::vector<std::int32_t> tokens_of_bytes(const BpeParts& parts) {
  std::vector<std::int32_t> result(256, -1);
  for (std::size_t id = parts.tokens.size(); id-- > 0;) {
    if (parts.tokens[id].size() == 1) result[static_cast<std::uint8_t>(parts.tokens[id][0])] = static_cast<std::int32_t>(id);
  }
  for (std::size_t byte = 0; byte < result.size(); ++byte) {
    require(result[byte] >= 0, "the vocabulary has no token for the byte 0x{:02x}; a byte-level BPE has one for each of the 256", byte);
  }
  return result;
}

MergeTable table_of(const BpeParts& parts) {
  std::unordered_map<std::string_view, std::int32_t> ids;
  for (std::size_t id = 0; id < parts.tokens.size(); ++id) ids.emplace(parts.tokens[id], static_cast<std::int32_t>(id));
  MergeTable table;
  for (std::size_t rank = 0; rank < parts.merges.size(); ++rank) {
    const auto [left, right] = parts.merges[rank];
    const std::string joined = parts.tokens.at(left) + parts.tokens.at(right);
    const auto found = ids.find(joined);
    require(found != ids.end(), "merge {} joins tokens {} and {}, but the vocabulary has no token for the result", rank, left, right);
    Merge& merge = table(left, right);
    if (merge.result < 0) merge = {static_cast<std::int32_t>(rank), found->second};
  }
  return table;
}

/// The word cache of this thread for one tokenizer.
WordCache& cache_for(std::uint64_t instance) {
  thread_local WordCache cache;
  thread_local std::uint64_t owner = 0;
  if (owner != instance) cache.clear();
  owner = instance;
  return cache;
}

}  // namespace

BpeTokenizer::BpeTokenizer(BpeParts parts)
    : parts_(std::move(parts)),
      splitter_(parts_.pattern),
      merges_(table_of(parts_)),
      byte_tokens_(tokens_of_bytes(parts_)),
      instance_(next_instance()) {
  if (parts_.whole_pieces_first) {
    for (std::size_t id = 0; id < parts_.tokens.size(); ++id) whole_pieces_.emplace(parts_.tokens[id], static_cast<std::int32_t>(id));
  }
  for (const AddedToken& token : parts_.added) {
    whole_pieces_.erase(parts_.tokens.at(token.id));
    if (!token.special) always_found_.add(parts_.tokens[token.id], token.id);
  }
  for (const std::string_view name : kEndOfText) {
    if (!end_of_text_) end_of_text_ = special(name);
  }
}

void BpeTokenizer::encode_to(std::vector<std::int32_t>& tokens, std::string_view text) const {
  always_found_.cut(
      text, [&](std::string_view ordinary) { encode_ordinary(tokens, ordinary); }, [&](std::int32_t token) { tokens.push_back(token); });
}

void BpeTokenizer::encode_ordinary(std::vector<std::int32_t>& tokens, std::string_view text) const {
  if (is_bytes_only()) {
    for (const char c : text) tokens.push_back(byte_tokens_[static_cast<std::uint8_t>(c)]);
    return;
  }
  WordCache& cache = cache_for(instance_);
  splitter_.split(text, [&](std::string_view piece) {
    const bool cached = piece.size() <= WordCache::kLongestPiece;
    if (cached && cache.find(tokens, piece)) return;
    const std::size_t before = tokens.size();
    encode_piece(tokens, piece);
    if (cached) cache.add(piece, std::span(tokens).subspan(before));
  });
}

void BpeTokenizer::encode_piece(std::vector<std::int32_t>& tokens, std::string_view piece) const {
  if (const auto whole = whole_pieces_.find(piece); whole != whole_pieces_.end()) {
    tokens.push_back(whole->second);
    return;
  }
  std::vector<std::int32_t> merged;
  merged.reserve(piece.size());
  for (const char c : piece) merged.push_back(byte_tokens_[static_cast<std::uint8_t>(c)]);
  apply_merges(merges_, merged);
  tokens.insert(tokens.end(), merged.begin(), merged.end());
}

std::string_view BpeTokenizer::bytes_of(std::int32_t token) const {
  require(0 <= token && token < vocab_size(), "token {} is not in the vocabulary of {} tokens", token, vocab_size());
  return parts_.tokens[token];
}

std::optional<std::int32_t> BpeTokenizer::special(std::string_view name) const {
  for (const AddedToken& token : parts_.added) {
    if (token.special && parts_.tokens[token.id] == name) return token.id;
  }
  return std::nullopt;
}

std::vector<std::string> BpeTokenizer::specials() const {
  std::vector<std::string> names;
  for (const AddedToken& token : parts_.added) {
    if (token.special) names.push_back(parts_.tokens[token.id]);
  }
  return names;
}

std::size_t BpeTokenizer::cut(std::string_view text, std::size_t from) const {
  if (!always_found_.empty()) return text.size();
  if (!is_bytes_only()) return splitter_.cut(text, from);
  const std::size_t line_end = text.find('\n', from);  // anywhere would do; this keeps characters and "\r\n" together
  return line_end == std::string_view::npos ? text.size() : line_end + 1;
}

std::string BpeTokenizer::to_json() const { return parts_.source.empty() ? write_tokenizer_json(parts_) : parts_.source; }

std::uint64_t BpeTokenizer::fingerprint() const {
  BpeParts canonical = parts_;
  canonical.source.clear();
  return xxh3(write_tokenizer_json(canonical));
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  BpeParts parts;
  for (int byte = 0; byte < 256; ++byte) parts.tokens.emplace_back(1, static_cast<char>(byte));
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

}  // namespace oxrse::io
