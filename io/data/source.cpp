#include "io/data/source.h"

#include <algorithm>
#include <array>

#include "engine/core/error.h"
#include "io/data/token_shard.h"

namespace oxrse::io {
namespace {

namespace fs = std::filesystem;

/// Whether the file is the index of a .bin that is listed, too.
bool is_index(const fs::path& file) { return file.extension() == ".idx" && fs::exists(fs::path(file).replace_extension(".bin")); }

bool is_ours(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.starts_with(".") || name == "dataset.json" || name == "tokenizer.json" || file.extension() == ".tmp";
}

std::vector<fs::path> files_below(const fs::path& directory) {
  std::vector<fs::path> files;
  fs::recursive_directory_iterator entries(directory, fs::directory_options::follow_directory_symlink);
  for (const fs::directory_entry& entry : entries) {
    const bool hidden = entry.path().filename().string().starts_with(".");
    if (hidden && entry.is_directory()) {
      entries.disable_recursion_pending();
    } else if (entry.is_regular_file() && !is_ours(entry.path()) && !is_index(entry.path())) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

Source::Kind kind_of_file(const fs::path& file) {
  constexpr std::array<std::string_view, 3> kShardNames = {".bin", ".h5", ".hdf5"};
  const std::string extension = file.extension().string();
  const bool named_so = std::find(kShardNames.begin(), kShardNames.end(), extension) != kShardNames.end();
  return named_so || is_token_shard(file) ? Source::Kind::Tokens : Source::Kind::Text;
}

}  // namespace

Source find_source(const std::string& name) {
  require(!name.empty(), "no data is named: give a text file, a .jsonl file, token shards or a directory of them");
  require(fs::exists(name), "there is no data {}", name);
  Source source;
  source.name = name;
  if (!fs::is_directory(name)) {
    require(fs::is_regular_file(name), "{} is neither a file nor a directory (a pipe or a device?); write it to a file first", name);
    source.files = {name};
  } else {
    try {
      source.files = files_below(name);
    } catch (const fs::filesystem_error& error) {
      fail("the directory {} cannot be searched: {}: {}", name, error.path1().string(), error.code().message());
    }
    require(!source.files.empty(), "the directory {} has no files to read data from", name);
  }
  source.kind = kind_of_file(source.files.front());
  for (const fs::path& file : source.files) {
    require(kind_of_file(file) == source.kind, "{} mixes text ({}) and token shards ({}); name one kind", name,
            (source.kind == Source::Kind::Text ? source.files.front() : file).string(),
            (source.kind == Source::Kind::Text ? file : source.files.front()).string());
  }
  return source;
}

bool is_jsonl(const fs::path& file) { return file.extension() == ".jsonl" || file.extension() == ".ndjson"; }

}  // namespace oxrse::io
