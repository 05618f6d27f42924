#include "io/tokenizer/tokenizer.h"

#include <filesystem>

#include "engine/core/error.h"
#include "io/files.h"
#include "io/tokenizer/bpe.h"
#include "io/tokenizer/tokenizer_json.h"
#include "io/tokenizer/utf8.h"

namespace oxrse::io {
namespace {

namespace fs = std::filesystem;

BpeParts read_parts(const fs::path& file) {
  const std::string text = read_file(file);
  try {
    if (file.filename() != "vocab.json") return read_tokenizer_json(text);
    return read_gpt2_files(text, read_file(file.parent_path() / "merges.txt"));
  } catch (const Error& error) {
    throw error.in(file.string());
  }
}

fs::path tokenizer_file(const fs::path& spec) {
  if (!fs::is_directory(spec)) return spec;
  for (const char* name : {"tokenizer.json", "vocab.json"}) {
    if (fs::exists(spec / name)) return spec / name;
  }
  fail("{} has no tokenizer: neither tokenizer.json nor vocab.json is there", spec.string());
}

}  // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  encode_to(tokens, text);
  return tokens;
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, std::span<const std::string> allowed) const {
  const bool all = allowed.size() == 1 && allowed.front() == "all";
  TokenFinder finder;
  for (const std::string& name : all ? specials() : std::vector<std::string>(allowed.begin(), allowed.end())) {
    const auto token = special(name);
    require(token.has_value(), "the tokenizer has no special token {}", name);
    finder.add(name, *token);
  }
  std::vector<std::int32_t> tokens;
  finder.cut(
      text, [&](std::string_view ordinary) { encode_to(tokens, ordinary); }, [&](std::int32_t token) { tokens.push_back(token); });
  return tokens;
}

std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) text += bytes_of(token);
  return text;
}

void Tokenizer::save(const std::string& path) const { write_file_atomically(path, to_json()); }

std::unique_ptr<Tokenizer> tokenizer_from_json(const std::string& text, const std::string& name) {
  try {
    return std::make_unique<BpeTokenizer>(read_tokenizer_json(text));
  } catch (const Error& error) {
    throw error.in(name);
  }
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& spec) {
  if (spec == "bytes") return make_byte_tokenizer();
  require(fs::exists(spec), "there is no tokenizer {}: give \"bytes\", a tokenizer.json or a directory with one", spec);
  const fs::path file = tokenizer_file(spec);
  BpeParts parts = read_parts(file);
  try {
    return std::make_unique<BpeTokenizer>(std::move(parts));
  } catch (const Error& error) {
    throw error.in(file.string());
  }
}

std::string StreamDecoder::push(std::int32_t token) {
  held_ += tokenizer_.bytes_of(token);
  std::size_t whole = 0;
  while (whole < held_.size()) {
    const std::string_view rest = std::string_view(held_).substr(whole);
    if (is_incomplete_utf8(rest)) break;
    const std::size_t length = utf8_length(rest);
    whole += length == 0 ? 1 : length;
  }
  std::string text = held_.substr(0, whole);
  held_.erase(0, whole);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  text.swap(held_);
  return text;
}

}  // namespace oxrse::io
