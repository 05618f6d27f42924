#include "io/data/open_source.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

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

/// Files of the text that the shards came from, as dataset.json knows them.
std::vector<std::int64_t> tokens_of_files(const fs::path& index_file, const Shards& shards) {
  std::int64_t tokens = 0;
  for (const auto& shard : shards) tokens += shard->size();
  try {
    const Json index = Json::parse(read_file(index_file));
    require(index.at("format") == "oxrse tokens" && index.at("version") == 1, "{} describes data of another format or version",
            index_file.string());
    require(index.at("tokens") == tokens, "{} says {} tokens, but the shards next to it have {}: a shard is missing or is one too many",
            index_file.string(), shown(index.at("tokens")), tokens);
    std::vector<std::int64_t> counts;
    std::int64_t sum = 0;
    for (const Json& file : index.at("files")) sum += counts.emplace_back(file.at("tokens").get<std::int64_t>());
    require(sum == tokens, "{}: the files have {} tokens together, the shards {}", index_file.string(), sum, tokens);
    return counts;
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
std::string cache_key(const Source& source, std::uint64_t recipe) {
  std::vector<std::uint64_t> parts = {kCacheVersion, recipe};
  for (const fs::path& file : source.files) {
    parts.push_back(xxh3_of_file(file));
    parts.push_back(is_jsonl(file) ? 1 : 0);
  }
  return hex(xxh3(std::as_bytes(std::span(parts))));
}

}  // namespace

TokenStream open_tokens(const Source& source) {
  Shards shards;
  for (const fs::path& file : source.files) shards.push_back(open_token_shard(file));
  TokenStream stream;
  const fs::path index = fs::path(source.name) / "dataset.json";
  if (!fs::exists(index)) {
    for (const auto& shard : shards) stream.append(shard, 0, shard->size(), true);
    return stream;
  }
  std::int64_t begin = 0;
  for (const std::int64_t count : tokens_of_files(index, shards)) {
    append_file(stream, shards, begin, count);
    begin += count;
  }
  return stream;
}

TokenStream open_source(const Source& source, const Tokenizer* tokenizer, const fs::path& cache, const OnProgress& progress) {
  if (source.kind == Source::Kind::Tokens) return open_tokens(source);
  require(tokenizer != nullptr,
          "{} is text, which needs a tokenizer: set data.tokenizer to \"bytes\" or a tokenizer.json, or data.bpe_vocab", source.name);
  const fs::path directory = cache / ("tokens-" + cache_key(source, tokenizer->fingerprint()));
  if (!fs::exists(directory / "dataset.json")) {
    make_directory_atomically(directory, [&](const fs::path& temporary) { tokenise(source.files, *tokenizer, temporary, progress); });
  }
  return open_tokens(find_source(directory.string()));
}

std::unique_ptr<Tokenizer> open_trained_tokenizer(const Source& source, std::int64_t vocab, const fs::path& cache,
                                                  const OnProgress& progress) {
  const fs::path file = cache / fmt::format("tokenizer-{}.json", cache_key(source, static_cast<std::uint64_t>(vocab)));
  if (!fs::exists(file)) train_tokenizer(source.files, vocab, progress)->save(file.string());
  return load_tokenizer(file.string());
}

fs::path default_cache() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') return fs::path(cache) / "oxrse";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return fs::path(home) / ".cache" / "oxrse";
  return fs::temp_directory_path() / "oxrse-cache";
}

}  // namespace oxrse::io
