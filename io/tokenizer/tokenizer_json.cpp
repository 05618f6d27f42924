#include "io/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "engine/core/json.h"
#include "io/tokenizer/byte_level.h"

namespace oxrse::io {
namespace {

/// For reading: the keys of ordered JSON are searched one by one, which takes too long for a vocabulary.
using SortedJson = nlohmann::json;
using Ids = std::unordered_map<std::string, std::int32_t>;  // by the form a token has in the file
constexpr std::int64_t kMostTokens = std::int64_t{1} << 24U;

std::string shown_value(const SortedJson& value) { return shown(Json(value)); }
std::string_view kind_of_value(const SortedJson& value) { return kind_of(Json(value)); }

SortedJson parse(std::string_view text) {
  try {
    return SortedJson::parse(text);
  } catch (const SortedJson::exception& error) {
    fail("not valid JSON: {}", error.what());
  }
}

const SortedJson& member(const SortedJson& object, const char* key) {
  static const SortedJson kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

/// Refuses a member that is there with another value than "off".
void require_off(const SortedJson& object, const char* key, const std::string& where) {
  const SortedJson& value = member(object, key);
  const bool off = value.is_null() || value == false || (value.is_string() && value.get_ref<const std::string&>().empty()) || value == 0.0;
  require(off, "{}.{} is {}, which is not supported", where, key, shown_value(value));
}

std::string text_of(const SortedJson& value, const std::string& where) {
  require(value.is_string(), "{} is {}, expected a string", where, kind_of_value(value));
  return value.get<std::string>();
}

std::int32_t id_of(const SortedJson& value, const std::string& where) {
  require(value.is_number_integer() && value >= 0 && value < kMostTokens, "{} is {}, expected an id from 0 to {}", where,
          shown_value(value), kMostTokens - 1);
  return value.get<std::int32_t>();
}

void place_token(BpeParts& parts, std::int32_t id, std::string bytes) {
  if (static_cast<std::size_t>(id) >= parts.tokens.size()) parts.tokens.resize(static_cast<std::size_t>(id) + 1);
  parts.tokens[id] = std::move(bytes);
}

bool is_added(const BpeParts& parts, std::int32_t id) {
  return std::any_of(parts.added.begin(), parts.added.end(), [&](const AddedToken& token) { return token.id == id; });
}

Ids read_vocab(BpeParts& parts, const SortedJson& vocab) {
  require(vocab.is_object() && !vocab.empty(), "model.vocab is missing or not an object of ids");
  Ids ids;
  std::vector<bool> taken;
  for (const auto& [form, value] : vocab.items()) {
    const std::int32_t id = id_of(value, fmt::format("model.vocab[{}]", shown_value(form)));
    if (static_cast<std::size_t>(id) >= taken.size()) taken.resize(static_cast<std::size_t>(id) + 1);
    require(!taken[id], "model.vocab has two tokens with the id {}", id);
    taken[id] = true;
    ids.emplace(form, id);
    if (is_added(parts, id)) continue;
    auto bytes = from_byte_level(form);
    require(bytes.has_value(), "model.vocab has the token {}, which is not in byte-level form (is this a SentencePiece vocabulary?)",
            shown_value(form));
    place_token(parts, id, std::move(*bytes));
  }
  return ids;
}

void add_merge(BpeParts& parts, const Ids& ids, const std::string& left, const std::string& right, std::size_t number) {
  const auto first = ids.find(left);
  const auto second = ids.find(right);
  require(first != ids.end() && second != ids.end(), "merge {} joins {} and {}, which are not both in the vocabulary", number,
          shown_value(left), shown_value(right));
  parts.merges.emplace_back(first->second, second->second);
}

/// "a b": byte-level forms have no space in them.
void add_merge(BpeParts& parts, const Ids& ids, const std::string& pair, std::size_t number) {
  const std::size_t space = pair.find(' ');
  require(space != std::string::npos, "merge {} is {}, expected two tokens with a space between", number, shown_value(pair));
  add_merge(parts, ids, pair.substr(0, space), pair.substr(space + 1), number);
}

void read_merges(BpeParts& parts, const SortedJson& merges, const Ids& ids) {
  require(merges.is_array(), "model.merges is {}, expected a list", kind_of_value(merges));
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const SortedJson& merge = merges[i];
    const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    require(merge.is_string() || is_pair, "model.merges[{}] is {}, expected \"a b\" or [\"a\", \"b\"]", i, shown_value(merge));
    if (is_pair) {
      add_merge(parts, ids, merge[0].get<std::string>(), merge[1].get<std::string>(), i);
    } else {
      add_merge(parts, ids, merge.get<std::string>(), i);
    }
  }
}

void read_added_tokens(BpeParts& parts, const SortedJson& added) {
  if (added.is_null()) return;
  require(added.is_array(), "added_tokens is {}, expected a list", kind_of_value(added));
  for (std::size_t i = 0; i < added.size(); ++i) {
    const std::string where = fmt::format("added_tokens[{}]", i);
    for (const char* key : {"single_word", "lstrip", "rstrip"}) require_off(added[i], key, where);
    const std::int32_t id = id_of(member(added[i], "id"), where + ".id");
    std::string content = text_of(member(added[i], "content"), where + ".content");
    require(!content.empty(), "{}.content is empty", where);
    require(!is_added(parts, id), "{}.id is {}, which an earlier one has", where, id);
    place_token(parts, id, std::move(content));
    parts.added.push_back({id, member(added[i], "special") == true});
  }
}

/// The pattern of a step of the pre-tokenizer; a step of type ByteLevel may bring GPT-2's.
std::string read_pre_tokenizer_step(const SortedJson& step, const std::string& where) {
  const std::string type = text_of(member(step, "type"), where + ".type");
  if (type == "ByteLevel") {
    require_off(step, "add_prefix_space", where);
    return member(step, "use_regex") == false ? "" : std::string(kGpt2Pattern);
  }
  require(type == "Split", "{}.type is {}, which is not supported (ByteLevel, Split and a Sequence of them are)", where, shown_value(type));
  require_off(step, "invert", where);
  const SortedJson& behavior = member(step, "behavior");
  require(behavior == "Isolated", "{}.behavior is {}, which is not supported (Isolated is)", where, shown_value(behavior));
  return text_of(member(member(step, "pattern"), "Regex"), where + ".pattern.Regex");
}

std::string read_pre_tokenizer(const SortedJson& pre) {
  require(pre.is_object(), "pre_tokenizer is {}: only byte-level BPEs are supported", kind_of_value(pre));
  if (member(pre, "type") != "Sequence") {
    require(member(pre, "type") == "ByteLevel", "pre_tokenizer.type is {}: only byte-level BPEs are supported",
            shown_value(member(pre, "type")));
    return read_pre_tokenizer_step(pre, "pre_tokenizer");
  }
  const SortedJson& steps = member(pre, "pretokenizers");
  require(steps.is_array() && !steps.empty(), "pre_tokenizer.pretokenizers is {}, expected a list of steps", kind_of_value(steps));
  std::string pattern;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string where = fmt::format("pre_tokenizer.pretokenizers[{}]", i);
    const std::string next = read_pre_tokenizer_step(steps[i], where);
    require(pattern.empty() || next.empty(), "{} is a second pattern, which is not supported", where);
    if (!next.empty()) pattern = next;
  }
  require(member(steps.back(), "type") == "ByteLevel", "the last step of pre_tokenizer is {}, expected ByteLevel",
          shown_value(member(steps.back(), "type")));
  return pattern;
}

void check_model(const SortedJson& model) {
  const SortedJson& type = member(model, "type");
  require(type == "BPE" || (type.is_null() && model.is_object()), "model.type is {}: only BPE is supported", shown_value(type));
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"}) require_off(model, key, "model");
}

}  // namespace

BpeParts read_tokenizer_json(std::string_view text) {
  const SortedJson json = parse(text);
  require(json.is_object() && json.contains("model"), "no tokenizer.json: the member \"model\" is missing");
  require_off(json, "normalizer", "(root)");
  require_off(json, "truncation", "(root)");
  require_off(json, "padding", "(root)");
  const SortedJson& model = json["model"];
  check_model(model);
  BpeParts parts;
  parts.source = text;
  parts.pattern = read_pre_tokenizer(member(json, "pre_tokenizer"));
  parts.whole_pieces_first = member(model, "ignore_merges") == true;
  read_added_tokens(parts, member(json, "added_tokens"));
  const Ids ids = read_vocab(parts, member(model, "vocab"));
  read_merges(parts, member(model, "merges"), ids);
  return parts;
}

BpeParts read_gpt2_files(std::string_view vocab_json, std::string_view merges_txt) {
  const SortedJson vocab = parse(vocab_json);
  BpeParts parts;
  parts.pattern = kGpt2Pattern;
  const Ids ids = read_vocab(parts, vocab);
  if (const auto end = ids.find("<|endoftext|>"); end != ids.end()) parts.added.push_back({end->second, true});
  std::size_t number = 0;
  while (!merges_txt.empty()) {
    const std::size_t end = merges_txt.find('\n');
    const std::string_view line = merges_txt.substr(0, end);
    merges_txt.remove_prefix(end == std::string_view::npos ? merges_txt.size() : end + 1);
    const bool is_header = number == 0 && line.starts_with("#version");
    if (!line.empty() && !is_header) add_merge(parts, ids, std::string(line), number++);
  }
  return parts;
}

std::string write_tokenizer_json(const BpeParts& parts) {
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  Json json = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", Json::array()}, {"normalizer", nullptr}};
  for (const AddedToken& token : parts.added) {
    json["added_tokens"].push_back({{"id", token.id},
                                    {"content", parts.tokens[token.id]},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", token.special}});
  }
  json["pre_tokenizer"] = byte_level;
  if (!parts.pattern.empty()) {
    const Json split = {{"type", "Split"}, {"pattern", {{"Regex", parts.pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
    json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}};
  }
  json["post_processor"] = nullptr;
  json["decoder"] = byte_level;
  Json& model = json["model"];
  model = {{"type", "BPE"},
           {"dropout", nullptr},
           {"unk_token", nullptr},
           {"continuing_subword_prefix", nullptr},
           {"end_of_word_suffix", nullptr},
           {"fuse_unk", false},
           {"byte_fallback", false},
           {"ignore_merges", parts.whole_pieces_first},
           {"vocab", Json::object()},
           {"merges", Json::array()}};
  Json vocab = Json::object();
  auto& entries = vocab.get_ref<Json::object_t&>();
  for (std::size_t id = 0; id < parts.tokens.size(); ++id) {
    const std::string& token = parts.tokens[id];
    if (token.empty()) continue;
    const bool added = is_added(parts, static_cast<std::int32_t>(id));          // written out as it is, so that readers keep its id
    entries.Container::emplace_back(added ? token : to_byte_level(token), id);  // without a search for each
  }
  model["vocab"] = std::move(vocab);
  for (const auto& [left, right] : parts.merges) {
    model["merges"].push_back(to_byte_level(parts.tokens[left]) + " " + to_byte_level(parts.tokens[right]));
  }
  return json.dump(1) + "\n";
}

}  // namespace oxrse::io
