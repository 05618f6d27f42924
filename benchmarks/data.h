#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/core/json.h"

namespace oxrse::bench {

/// Seconds that work took: on the clock, and of processors, all threads together. On a busy machine only the latter says how fast it is.
struct Spent {
  double wall = 0, cpu = 0;
};

/// What making tokens of text takes; medians.
struct DataResult {
  std::int64_t bytes = 0, vocab = 0;                 // of the text; tokens that training gave
  Spent train;                                       // a BPE on all of the text, on all cores
  std::int64_t train_peak_bytes = 0;                 // resident, of the whole process
  Spent encode;                                      // on one thread, from memory to memory
  std::int64_t encode_bytes = 0, encode_tokens = 0;  // of the first part of the text
  Spent prepare;                                     // `oxrse data prepare` of all of the text, on all cores
  std::int64_t turns = 0;
};

/// Trains a BPE of `vocab` tokens on the text of `files`, encodes their first `encode_bytes` bytes or a little more, and makes token
/// shards of them in a directory made in `directory`, which is removed; `turns` times, and reports medians.
DataResult run_data(const std::vector<std::filesystem::path>& files, std::int64_t vocab, std::int64_t encode_bytes,
                    const std::filesystem::path& directory, std::int64_t turns);

std::string describe(const DataResult& result);
Json to_json(const DataResult& result);

}  // namespace oxrse::bench
