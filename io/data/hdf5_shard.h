#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "io/data/token_shard.h"

namespace oxrse::io {

/// Our own token shard, an HDF5 file:
///
///     /tokens      uint16 or uint32, contiguous, so that it can be mapped
///     /documents   int64, the tokens that documents start at; a document that began in the shard before has no entry
///     attributes   format "oxrse tokens", version 1, vocab, tokenizer (fingerprint), xxh3 (of the bytes of /tokens)
struct ShardContents {
  std::span<const std::int32_t> tokens;
  std::span<const std::int64_t> documents;
  std::int64_t vocab = 0;       // tokens are below
  std::uint64_t tokenizer = 0;  // Tokenizer::fingerprint
};

/// Writes `path`, a new file, and waits until it is on the disk. Two bytes a token when the vocabulary allows it.
void write_hdf5_shard(const std::filesystem::path& path, const ShardContents& contents);

bool is_hdf5(const MappedFile& file);
/// Reads all tokens once to compare their checksum. An Error names the file and what is missing or damaged in it.
std::shared_ptr<const TokenShard> open_hdf5_shard(const std::filesystem::path& path, MappedFile file);

}  // namespace oxrse::io
