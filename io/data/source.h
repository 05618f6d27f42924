#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace oxrse::io {

/// What a SOURCE on the command line or in a config names: one file, or the files below a directory in the order of their names.
/// Hidden files, what Oxrse keeps beside shards (dataset.json, tokenizer.json, *.tmp) and the .idx of a .bin do not count.
struct Source {
  enum class Kind { Text, Tokens };  // Text: UTF-8 text and JSONL, to be tokenised. Tokens: shards.
  std::string name;                  // as it was given
  Kind kind = Kind::Text;
  std::vector<std::filesystem::path> files;
};

/// Looks at the files. An Error when there is nothing there, a directory is empty or mixes text and shards, or a .bin or .h5 is no shard.
Source find_source(const std::string& name);

bool is_jsonl(const std::filesystem::path& file);

}  // namespace oxrse::io
