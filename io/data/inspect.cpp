#include "io/data/inspect.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/core/error.h"
#include "io/data/open_source.h"
#include "io/data/text_reader.h"

namespace oxrse::io {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostFiles = 20;       // that are listed
constexpr std::size_t kExcerptTokens = 100;  // that are shown
constexpr std::size_t kExcerptBytes = 400;

std::string list_files(const Source& source) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kMostFiles, source.files.size()); ++i) {
    const fs::path& file = source.files[i];
    text += fmt::format("  {}: {} bytes", file.string(), fs::file_size(file));
    if (source.kind == Source::Kind::Tokens) {
      const auto shard = open_token_shard(file);
      text += fmt::format(", {} tokens", shard->size());
      if (shard->documents()) text += fmt::format(", {} documents begin", shard->documents()->size());
    }
    text += '\n';
  }
  if (source.files.size() > kMostFiles) text += fmt::format("  ... and {} more\n", source.files.size() - kMostFiles);
  return text;
}

std::int32_t largest_token(const TokenStream& stream) {
  std::uint32_t largest = 0;
  std::vector<std::int32_t> tokens(1 << 20U);
  for (std::int64_t begin = 0; begin < stream.size(); begin += static_cast<std::int64_t>(tokens.size())) {
    const auto part = std::span(tokens).first(std::min<std::int64_t>(tokens.size(), stream.size() - begin));
    stream.read(begin, part);
    for (const std::int32_t token : part) largest = std::max(largest, static_cast<std::uint32_t>(token));
  }
  return static_cast<std::int32_t>(largest);
}

std::string inspect_tokens(const Source& source) {
  const TokenStream stream = open_tokens(source);
  std::string text = fmt::format("{}: {} tokens, the largest is {}\n{}", source.name, stream.size(),
                                 static_cast<std::uint32_t>(largest_token(stream)), list_files(source));
  std::vector<std::int32_t> first(std::min<std::size_t>(kExcerptTokens, stream.size()));
  stream.read(0, first);
  const fs::path beside = fs::path(source.name) / "tokenizer.json";
  text += "begins:";
  if (fs::exists(beside)) return text + "\n" + load_tokenizer(beside.string())->decode(first) + "\n";
  for (const std::int32_t token : first) text += fmt::format(" {}", token);
  return text + "\n";
}

std::string inspect_text(const Source& source) {
  const auto bytes = load_tokenizer("bytes");
  TextReader reader(source.files, [&](std::string_view text, std::size_t from) { return bytes->cut(text, from); });
  std::int64_t documents = 0;
  std::string excerpt;
  while (const auto part = reader.next()) {
    documents += part->ends_document ? 1 : 0;
    if (excerpt.empty()) excerpt = part->text.substr(0, kExcerptBytes);
  }
  return fmt::format("{}: {} bytes of text in {} documents ({} more are empty)\n{}begins:\n{}\n", source.name, reader.bytes_in_all(),
                     documents, reader.empty_documents(), list_files(source), excerpt);
}

}  // namespace

std::string inspect_source(const Source& source) {
  return source.kind == Source::Kind::Tokens ? inspect_tokens(source) : inspect_text(source);
}

}  // namespace oxrse::io
