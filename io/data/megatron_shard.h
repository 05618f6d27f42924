#pragma once

#include <filesystem>
#include <memory>

#include "io/data/token_shard.h"

namespace oxrse::io {

/// The tokens of Megatron-LM's indexed datasets are NAME.bin, nothing but tokens, and NAME.idx (megatron/core/datasets/indexed_dataset.py;
/// little-endian, nothing aligned):
///
///     "MMIDIDX\0\0", u64 version 1, u8 type of the tokens, u64 sequences, u64 documents + 1,
///     i32 length of every sequence, i64 byte where it begins in NAME.bin, i64 the sequences that documents begin at and their number
///
/// Whether `file` is a NAME.idx, or a NAME.bin with one beside it.
bool is_megatron(const std::filesystem::path& file);

/// NAME.idx of NAME.bin; the file itself when it is called .idx.
std::filesystem::path megatron_index_of(const std::filesystem::path& file);

/// Opens either of the two files. Tokens are uint16 or int32, sequences follow one another without gaps. An Error names the file and what
/// is wrong with it.
std::shared_ptr<const TokenShard> open_megatron_shard(const std::filesystem::path& file);

}  // namespace oxrse::io
