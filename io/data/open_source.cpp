#include "io/data/open_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/core/environment.h"
#include "engine/core/error.h"
#include "engine/core/json.h"
#include "io/checksum.h"
#include "io/data/tokenise.h"
#include "io/data/train_tokenizer.h"
#include "io/files.h"

namespace oxrse::io {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kCacheVersion = 1;  // changes when the same text would give other tokens

using Shards = std::vector<std::shared_ptr<const TokenShard>>;

/// What dataset.json knows of shards that were made from text.
struct Index {
  std::vector<std::int64_t> tokens_of_files;
  TextReport left_out;
};

TextReport left_out_from(const Json& json) {
  return {.empty = json.at("empty"),
          .duplicates = json.at("duplicates"),
          .invalid = json.at("invalid"),
          .reasons = json.at("reasons").get<std::vector<std::string>>()};
}

Index read_index(const fs::path& index_file, const Shards& shards) {
  std::int64_t tokens = 0;
  for (const auto& shard : shards) tokens += shard->size();
  try {
    const Json json = Json::parse(read_file(index_file));
    require(json.at("format") == "oxrse tokens" && json.at("version") == 1, "{} describes data of another format or version",
            index_file.string());
    require(json.at("tokens") == tokens, "{} says {} tokens, but the shards next to it have {}: a shard is missing or is one too many",
            index_file.string(), shown(json.at("tokens")), tokens);
    Index index;
    std::int64_t sum = 0;
    for (const Json& file : json.at("files")) sum += index.tokens_of_files.emplace_back(file.at("tokens").get<std::int64_t>());
    require(sum == tokens, "{}: the files have {} tokens together, the shards {}", index_file.string(), sum, tokens);
    if (json.contains("left_out")) index.left_out = left_out_from(json.at("left_out"));
    return index;
  } catch (const Json::exception& error) {
    fail("{} cannot be read: {}", index_file.string(), error.what());
  }
}

/// Appends `count` tokens from place `begin` of all shards together.
void append_file(TokenStream& stream, const Shards& shards, std::int64_t begin, std::int64_t count) {
  bool first = true;
  for (const auto& shard : shards) {
    const std::int64_t skip = std::max<std::int64_t>(begin, 0);
    const std::int64_t n = std::min(shard->size() - skip, count);
    if (n > 0) {
      stream.append(shard, skip, n, first);
      first = false;
      count -= n;
    }
    begin -= shard->size();
  }
}

/// A name for what is made from the text of `source` in a way that `recipe` stands for.
std::string cache_key(const Source& source, const TextOptions& options, std::uint64_t recipe) {
  std::vector<std::uint64_t> parts = {kCacheVersion, recipe};
  if (options.skip_invalid) parts.push_back(1);  // what skips must not hide the error from what does not
  for (const fs::path& file : source.files) {
    parts.push_back(xxh3_of_file(file));
    parts.push_back(is_jsonl(file) ? 1 : 0);
  }
  return hex(xxh3(std::as_bytes(std::span(parts))));
}

OpenedSource open_cached(const fs::path& directory) {
  require(fs::exists(directory / "dataset.json"), "{} has no dataset.json", directory.string());
  return open_tokens(find_source(directory.string()), nullptr);
}

}  // namespace

OpenedSource open_tokens(const Source& source, const Tokenizer* tokenizer) {
  Shards shards;
  for (const fs::path& file : source.files) {
    shards.push_back(open_token_shard(file));
    const std::uint64_t made_by = shards.back()->tokenizer();
    require(tokenizer == nullptr || made_by == 0 || made_by == tokenizer->fingerprint(),
            "{}: its tokens were made with another tokenizer; give the one that they were prepared with, or prepare the text again",
            file.string());
  }
  OpenedSource opened;
  const fs::path index_file = fs::path(source.name) / "dataset.json";
  if (!fs::exists(index_file)) {
    for (const auto& shard : shards) opened.tokens.append(shard, 0, shard->size(), true);
    return opened;
  }
  Index index = read_index(index_file, shards);
  std::int64_t begin = 0;
  for (const std::int64_t count : index.tokens_of_files) {
    append_file(opened.tokens, shards, begin, count);
    begin += count;
  }
  opened.left_out = std::move(index.left_out);
  return opened;
}

OpenedSource open_source(const Source& source, const Tokenizer* tokenizer, const fs::path& cache, const TextOptions& options,
                         const OnProgress& progress) {
  if (source.kind == Source::Kind::Tokens) return open_tokens(source, tokenizer);
  require(tokenizer != nullptr,
          "{} is text, which needs a tokenizer: set data.tokenizer to \"bytes\" or a tokenizer.json, or data.bpe_vocab", source.name);
  const fs::path directory = cache / ("tokens-" + cache_key(source, options, tokenizer->fingerprint()));
  std::string damage;
  if (fs::exists(directory)) {
    try {
      return open_cached(directory);
    } catch (const Error& error) {
      damage = error.what();
      fs::remove_all(directory);
    }
  }
  if (!fs::exists(directory)) {
    make_directory_atomically(
        directory, [&](const fs::path& temporary) { tokenise(source.files, *tokenizer, temporary, {.text = options}, nullptr, progress); });
  }
  OpenedSource opened = open_cached(directory);
  opened.rebuilt = std::move(damage);
  return opened;
}

std::unique_ptr<Tokenizer> open_trained_tokenizer(const Source& source, std::int64_t vocab, const fs::path& cache,
                                                  const TextOptions& options, const OnProgress& progress) {
  const fs::path file = cache / fmt::format("tokenizer-{}.json", cache_key(source, options, static_cast<std::uint64_t>(vocab)));
  if (fs::exists(file)) {
    try {
      return load_tokenizer(file.string());
    } catch (const Error&) {  // damaged: the same is trained again
    }
  }
  train_tokenizer(source.files, vocab, options, progress)->save(file.string());
  return load_tokenizer(file.string());
}

fs::path default_cache() {
  const fs::path directory = cache_directory();
  return directory.empty() ? fs::temp_directory_path() / "oxrse-cache" : directory;
}

}  // namespace oxrse::io
