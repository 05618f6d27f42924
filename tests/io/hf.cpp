#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "io/checkpoint/checkpoint.h"
#include "io/files.h"
#include "io/hf/export.h"
#include "io/hf/import.h"
#include "io/safetensors/safetensors_file.h"
#include "io/safetensors/safetensors_model.h"
#include "io/safetensors/safetensors_writer.h"
#include "tests/catch.h"
#include "tests/io/checkpoint_fixture.h"

namespace oxrse::io {
namespace {

using Catch::Contains;
using Shapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

constexpr std::int64_t kC = 6, kH = 3, kK = 1, kD = 4, kI = 5, kV = 11, kT = 7;

/// A value of its own for every element: the tensor's number and the place in it.
float value_at(std::size_t tensor, std::int64_t place) { return static_cast<float>(tensor) * 1000.0F + static_cast<float>(place); }

void write_weights(const std::filesystem::path& file, const Shapes& shapes, DType dtype = DType::F32) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, shape] : shapes) entries.push_back({name, dtype, shape});
  SafetensorsWriter writer(file, entries);
  for (std::size_t t = 0; t < shapes.size(); ++t) {
    std::int64_t count = 1;
    for (const std::int64_t size : shapes[t].second) count *= size;
    visit_floating(dtype, [&](auto tag) {
      using Element = typename decltype(tag)::type;
      std::vector<Element> values;
      for (std::int64_t i = 0; i < count; ++i) values.emplace_back(value_at(t, i));
      writer.write(ConstTensor(reinterpret_cast<const std::byte*>(values.data()), dtype, shapes[t].second));
    });
  }
  writer.commit();
}

Shapes llama_shapes(std::int64_t layers) {
  Shapes shapes{{"model.embed_tokens.weight", {kV, kC}}};
  for (std::int64_t l = 0; l < layers; ++l) {
    const std::string p = "model.layers." + std::to_string(l) + ".";
    shapes.push_back({p + "input_layernorm.weight", {kC}});
    shapes.push_back({p + "self_attn.q_proj.weight", {kH * kD, kC}});
    shapes.push_back({p + "self_attn.k_proj.weight", {kK * kD, kC}});
    shapes.push_back({p + "self_attn.v_proj.weight", {kK * kD, kC}});
    shapes.push_back({p + "self_attn.o_proj.weight", {kC, kH * kD}});
    shapes.push_back({p + "post_attention_layernorm.weight", {kC}});
    shapes.push_back({p + "mlp.gate_proj.weight", {kI, kC}});
    shapes.push_back({p + "mlp.up_proj.weight", {kI, kC}});
    shapes.push_back({p + "mlp.down_proj.weight", {kC, kI}});
  }
  shapes.push_back({"model.norm.weight", {kC}});
  shapes.push_back({"lm_head.weight", {kV, kC}});
  return shapes;
}

Json llama_config() {
  return {{"model_type", "llama"},         {"num_hidden_layers", 2},    {"hidden_size", kC},    {"intermediate_size", kI},
          {"num_attention_heads", kH},     {"num_key_value_heads", kK}, {"head_dim", kD},       {"vocab_size", kV},
          {"max_position_embeddings", kT}, {"rms_norm_eps", 1e-5},      {"rope_theta", 5000.0}, {"hidden_act", "silu"},
          {"tie_word_embeddings", false},  {"torch_dtype", "float32"}};
}

Shapes gpt2_shapes(const std::string& prefix) {
  const std::string p = prefix + "h.0.";
  return {{prefix + "wte.weight", {kV, kC}},
          {prefix + "wpe.weight", {kT, kC}},
          {p + "ln_1.weight", {kC}},
          {p + "ln_1.bias", {kC}},
          {p + "attn.c_attn.weight", {kC, 3 * kC}},
          {p + "attn.c_attn.bias", {3 * kC}},
          {p + "attn.c_proj.weight", {kC, kC}},
          {p + "attn.c_proj.bias", {kC}},
          {p + "attn.bias", {1, 1, kT, kT}},
          {p + "ln_2.weight", {kC}},
          {p + "ln_2.bias", {kC}},
          {p + "mlp.c_fc.weight", {kC, 4 * kC}},
          {p + "mlp.c_fc.bias", {4 * kC}},
          {p + "mlp.c_proj.weight", {4 * kC, kC}},
          {p + "mlp.c_proj.bias", {kC}},
          {prefix + "ln_f.weight", {kC}},
          {prefix + "ln_f.bias", {kC}}};
}

Json gpt2_config() {
  return {{"model_type", "gpt2"}, {"n_layer", 1},      {"n_embd", kC},       {"n_head", kH},
          {"vocab_size", kV},     {"n_positions", kT}, {"n_inner", nullptr}, {"activation_function", "gelu_new"}};
}

/// A Hugging Face directory in a temporary one.
struct HfDirectory {
  TemporaryDirectory dir;
  std::filesystem::path path = dir / "hf", out = dir / "checkpoint", again = dir / "again";
  Warnings warnings;

  HfDirectory(const Json& config, const Shapes& shapes, DType dtype = DType::F32) {
    std::filesystem::create_directory(path);
    put(path / "config.json", config.dump(1));
    write_weights(path / "model.safetensors", shapes, dtype);
  }
  Checkpoint imported() {
    import_hf(path, out, warnings.sink());
    return Checkpoint::open(out, warnings.sink());
  }
  std::string why_refused() {
    try {
      import_hf(path, out, warnings.sink());
    } catch (const Error& error) {
      CHECK_FALSE(std::filesystem::exists(out));
      return error.what();
    }
    return "accepted";
  }
};

std::vector<float> read_floats(const Checkpoint& checkpoint, const std::string& name, const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  std::vector<float> values(static_cast<std::size_t>(count));
  checkpoint.read(name, "model", Tensor(reinterpret_cast<std::byte*>(values.data()), DType::F32, shape));
  return values;
}

void check_same_weights(const std::filesystem::path& a, const std::filesystem::path& b) {
  const SafetensorsModel first(a), second(b);
  for (const std::string& name : second.names()) {
    CAPTURE(name);
    const auto x = first.bytes(name), y = second.bytes(name);
    CHECK(first.at(name).shape == second.at(name).shape);
    CHECK(std::equal(x.begin(), x.end(), y.begin(), y.end()));
  }
}

TEST_CASE("a llama directory becomes a checkpoint: parts one under the other") {
  HfDirectory hf(llama_config(), llama_shapes(2));
  const Checkpoint checkpoint = hf.imported();
  CHECK(hf.warnings.texts.empty());
  CHECK(checkpoint.step() == 0);
  const Json expected = Json::parse(R"({"layers": 2, "width": 6, "mlp_width": 5, "heads": 3, "kv_heads": 1, "head_width": 4, "vocab": 11,
    "context": 7, "norm_eps": 1e-05, "rope_theta": 5000.0, "tied_embeddings": false, "norm": "rmsnorm", "position": "rope",
    "mlp": "swiglu", "bias": false, "qkv_bias": false, "qk_norm": false, "window": 0})");
  CHECK(checkpoint.config().at("model") == expected);

  const auto qkv = read_floats(checkpoint, "blocks.1.attention.qkv.weight", {(kH + 2 * kK) * kD, kC});
  CHECK(qkv[0] == value_at(11, 0));                                                  // q of layer 1
  CHECK(qkv[static_cast<std::size_t>(kH * kD * kC)] == value_at(12, 0));             // k
  CHECK(qkv[static_cast<std::size_t>((kH + kK) * kD * kC + 3)] == value_at(13, 3));  // v
  const auto up = read_floats(checkpoint, "blocks.0.mlp.up.weight", {2 * kI, kC});
  CHECK(up[0] == value_at(7, 0));                                  // gate
  CHECK(up[static_cast<std::size_t>(kI * kC)] == value_at(8, 0));  // up
  CHECK(read_floats(checkpoint, "output.weight", {kV, kC}).back() == value_at(20, kV * kC - 1));
}

TEST_CASE("a gpt2 directory becomes a checkpoint: linear weights are turned") {
  for (const std::string prefix : {"", "transformer."}) {
    HfDirectory hf(gpt2_config(), gpt2_shapes(prefix));
    const Checkpoint checkpoint = hf.imported();
    CHECK(hf.warnings.texts.empty());
    CHECK(checkpoint.config().at("model").at("mlp_width") == 4 * kC);
    CHECK(checkpoint.config().at("model").at("head_width") == kC / kH);
    CHECK(checkpoint.config().at("model").at("tied_embeddings") == true);
    const auto qkv = read_floats(checkpoint, "blocks.0.attention.qkv.weight", {3 * kC, kC});
    for (std::int64_t out = 0; out < 3 * kC; ++out) {
      for (std::int64_t in = 0; in < kC; ++in) CHECK(qkv[static_cast<std::size_t>(out * kC + in)] == value_at(4, in * 3 * kC + out));
    }
  }
}

TEST_CASE("import and export give back the same weights and config, bit for bit") {
  Json qwen3 = llama_config();
  qwen3["model_type"] = "qwen3";
  Shapes qwen3_shapes = llama_shapes(2);
  for (const std::string l : {"0", "1"}) {
    for (const std::string n : {"q_norm", "k_norm"}) qwen3_shapes.push_back({"model.layers." + l + ".self_attn." + n + ".weight", {kD}});
  }
  Json qwen2 = llama_config();
  qwen2["model_type"] = "qwen2";
  qwen2["hidden_size"] = kH * kD;
  qwen2.erase("head_dim");
  qwen2["sliding_window"] = 4096;
  qwen2["use_sliding_window"] = false;
  Shapes qwen2_shapes = llama_shapes(2);
  for (auto& [name, shape] : qwen2_shapes) std::replace(shape.begin(), shape.end(), kC, kH * kD);
  for (const std::string l : {"0", "1"}) {
    for (const std::string n : {"q", "k", "v"}) {
      qwen2_shapes.push_back({"model.layers." + l + ".self_attn." + n + "_proj.bias", {n == "q" ? kH * kD : kK * kD}});
    }
  }
  Json mistral = llama_config();
  mistral["model_type"] = "mistral";
  mistral["sliding_window"] = 4;
  struct Case {
    Json config;
    Shapes shapes;
  };
  const std::vector<Case> cases{{llama_config(), llama_shapes(2)},
                                {gpt2_config(), gpt2_shapes("transformer.")},
                                {qwen3, qwen3_shapes},
                                {qwen2, qwen2_shapes},
                                {mistral, llama_shapes(2)}};
  for (const Case& c : cases) {
    for (const DType dtype : {DType::F32, DType::BF16, DType::F16, DType::F64}) {
      CAPTURE(c.config.at("model_type"), name_of(dtype));
      HfDirectory hf(c.config, c.shapes, dtype);
      const Checkpoint checkpoint = hf.imported();
      export_hf(checkpoint, hf.again, {});
      check_same_weights(hf.path, hf.again);
      const Json config = Json::parse(read_file(hf.again / "config.json"));
      CHECK(config.at("model_type") == c.config.at("model_type"));
      for (const auto& [key, value] : c.config.items()) {
        if (config.contains(key) && !value.is_null() && key != "torch_dtype") CHECK(config.at(key) == value);
      }
      import_hf(hf.again, hf.dir / "second", hf.warnings.sink());
      CHECK(Checkpoint::open(hf.dir / "second", hf.warnings.sink()).config() == checkpoint.config());
      CHECK(read_file(hf.dir / "second" / "step_0000000000" / "shard_r00000.h5") ==
            read_file(hf.out / "step_0000000000" / "shard_r00000.h5"));
    }
  }
}

TEST_CASE("weights beyond a size are exported into several files with an index, and imported from them") {
  HfDirectory hf(llama_config(), llama_shapes(2));
  const Checkpoint checkpoint = hf.imported();
  export_hf(checkpoint, hf.again, {.family = "", .dtype = {}, .shard_bytes = 1000});
  check_same_weights(hf.path, hf.again);
  CHECK_FALSE(std::filesystem::exists(hf.again / "model.safetensors"));
  const Json index = Json::parse(read_file(hf.again / "model.safetensors.index.json"));
  std::int64_t total = 0;
  std::set<std::string> files;
  for (const auto& [name, file] : index.at("weight_map").items()) files.insert(file.get<std::string>());
  for (const std::string& file : files) {
    const SafetensorsFile shard(hf.again / file);
    std::int64_t bytes = 0;
    for (const auto& [name, tensor] : shard.tensors()) {
      CHECK(index.at("weight_map").at(name) == file);
      bytes += tensor.end - tensor.begin;
    }
    CHECK(bytes <= 1000);
    total += bytes;
  }
  CHECK(files.size() > 2);
  CHECK(*files.begin() == fmt::format("model-00001-of-{:05}.safetensors", files.size()));
  CHECK(index.at("metadata").at("total_size") == total);
  import_hf(hf.again, hf.dir / "second", hf.warnings.sink());
  CHECK(read_file(hf.dir / "second" / "step_0000000000" / "shard_r00000.h5") == read_file(hf.out / "step_0000000000" / "shard_r00000.h5"));

  export_hf(checkpoint, hf.dir / "tiny", {.family = "", .dtype = {}, .shard_bytes = 1});  // a file for every tensor
  check_same_weights(hf.path, hf.dir / "tiny");
  CHECK(std::filesystem::exists(hf.dir / "tiny/model-00021-of-00021.safetensors"));
  CHECK_THROWS_WITH(export_hf(checkpoint, hf.dir / "none", {.family = "", .dtype = {}, .shard_bytes = 0}), Contains("at most 0 bytes"));
}

TEST_CASE("qwen2's biases and mistral's window are where the model looks for them") {
  Json qwen2 = llama_config();
  qwen2["model_type"] = "qwen2";
  qwen2["hidden_size"] = kH * kD;
  qwen2.erase("head_dim");
  Shapes shapes = llama_shapes(2);
  for (auto& [name, shape] : shapes) std::replace(shape.begin(), shape.end(), kC, kH * kD);
  for (const std::string n : {"q", "k", "v"}) {
    for (const std::string l : {"0", "1"}) {
      shapes.push_back({"model.layers." + l + ".self_attn." + n + "_proj.bias", {n == "q" ? kH * kD : kK * kD}});
    }
  }
  const std::size_t first = llama_shapes(2).size();  // the biases: q of layer 0, q of layer 1, k of 0, ...
  HfDirectory hf(qwen2, shapes);
  const Checkpoint checkpoint = hf.imported();
  CHECK(checkpoint.config().at("model").at("qkv_bias") == true);
  CHECK(checkpoint.config().at("model").at("bias") == false);
  const auto bias = read_floats(checkpoint, "blocks.1.attention.qkv.bias", {(kH + 2 * kK) * kD});
  CHECK(bias[2] == value_at(first + 1, 2));
  CHECK(bias[static_cast<std::size_t>(kH * kD + 1)] == value_at(first + 3, 1));
  CHECK(bias[static_cast<std::size_t>((kH + kK) * kD)] == value_at(first + 5, 0));
  CHECK_THAT(HfDirectory(qwen2, llama_shapes(2)).why_refused(), Contains("has shape") || Contains("no tensor"));

  for (const Json& window : {Json(4), Json(nullptr)}) {
    Json mistral = llama_config();
    mistral["model_type"] = "mistral";
    mistral["sliding_window"] = window;
    HfDirectory directory(mistral, llama_shapes(2));
    const Checkpoint imported = directory.imported();
    CHECK(imported.config().at("model").at("window") == (window.is_null() ? Json(0) : window));
    export_hf(imported, directory.again, {.family = "mistral", .dtype = {}});
    CHECK(Json::parse(read_file(directory.again / "config.json")).at("sliding_window") == window);
  }
}

TEST_CASE("an export in another type converts, and says what does not fit") {
  HfDirectory hf(llama_config(), llama_shapes(2));
  const Checkpoint checkpoint = hf.imported();
  export_hf(checkpoint, hf.again, {.family = "llama", .dtype = DType::BF16});
  const SafetensorsModel written(hf.again);
  CHECK(written.at("lm_head.weight").dtype == "BF16");
  CHECK(Json::parse(read_file(hf.again / "config.json")).at("torch_dtype") == "bfloat16");
  bf16 last;
  std::memcpy(&last, written.bytes("lm_head.weight").last(2).data(), 2);
  CHECK(last.bits == bf16(value_at(20, kV * kC - 1)).bits);

  SmallState saved(0);  // weights beyond the range of f16
  saved.state.config["model"] = checkpoint.config().at("model");
  saved.state.tokenizer_json.clear();
  saved.entries.clear();
  std::vector<std::byte> memory(4096);
  const float large = 1e5F;
  std::memcpy(memory.data(), &large, sizeof large);
  for (const StoredTensor& tensor : checkpoint.tensors())
    saved.entries.push_back({tensor.name, "master", ConstTensor(memory.data(), DType::F32, tensor.shape)});
  saved.save(hf.dir / "large");
  const Checkpoint too_large = Checkpoint::open(hf.dir / "large", hf.warnings.sink());
  CHECK_THROWS_WITH(export_hf(too_large, hf.dir / "f16", {.family = "", .dtype = DType::F16}),
                    Contains("embedding.weight") && Contains("100000"));
  CHECK_FALSE(std::filesystem::exists(hf.dir / "f16"));
}

TEST_CASE("what cannot be imported is refused with its name") {
  const auto with = [](const std::string& key, const Json& value) {
    Json config = llama_config();
    config[key] = value;
    return HfDirectory(config, llama_shapes(2)).why_refused();
  };
  CHECK_THAT(with("rope_scaling", {{"factor", 2.0}}), Contains("config.json:") && Contains("rope_scaling") && Contains("not supported"));
  CHECK_THAT(with("rope_parameters", {{"rope_type", "yarn"}}), Contains("rope_parameters.rope_type"));
  CHECK_THAT(with("hidden_act", "gelu"), Contains("hidden_act") && Contains("\"silu\" is"));
  CHECK_THAT(with("attention_bias", true), Contains("attention_bias"));
  CHECK_THAT(with("model_type", "bert"), Contains("bert") && Contains("gpt2, llama, mistral, qwen2, qwen3"));
  CHECK_THAT(with("hidden_size", "six"), Contains("hidden_size") && Contains("an integer from 1 to 2147483647"));
  CHECK_THAT(with("max_position_embeddings", 1'000'000'000'000'000'000),
             Contains("max_position_embeddings") && Contains("an integer from 1 to 2147483647, found 1000000000000000000"));
  CHECK_THAT(with("hidden_size", -6), Contains("an integer from 1 to 2147483647"));
  CHECK_THAT(with("num_hidden_layers", 2'000'000'000), Contains("2000000000 layers"));
  CHECK_THAT(with("num_hidden_layers", 3), Contains("no tensor model.layers.2"));
  CHECK_THAT(with("num_hidden_layers", 1), Contains("model.layers.1") && Contains("no place"));
  CHECK_THAT(with("vocab_size", 12), Contains("model.embed_tokens.weight") && Contains("(11, 6)") && Contains("(12, 6)"));
  CHECK_THAT(with("rms_norm_eps", -1), Contains("rms_norm_eps"));
  CHECK(with("rope_parameters", {{"rope_type", "default"}}) == "accepted");

  Json config = llama_config();
  config.erase("hidden_size");
  CHECK_THAT(HfDirectory(config, llama_shapes(2)).why_refused(), Contains("\"hidden_size\" is missing"));
  Json unknown = llama_config();
  unknown["logit_cap"] = 30;
  HfDirectory hf(unknown, llama_shapes(2));
  CHECK(hf.why_refused() == "accepted");
  REQUIRE(hf.warnings.texts.size() == 1);
  CHECK_THAT(hf.warnings.texts.front(), Contains("logit_cap"));
  CHECK_THROWS_WITH(import_hf(hf.path, hf.out, hf.warnings.sink()), Contains("holds a checkpoint already"));
}

TEST_CASE("a tied model with an output layer of its own is refused, a copy of the embedding is fine") {
  Json config = llama_config();
  config["tie_word_embeddings"] = true;
  CHECK_THAT(HfDirectory(config, llama_shapes(2)).why_refused(),
             Contains("lm_head.weight differs from model.embed_tokens.weight") && Contains("\"tie_word_embeddings\" to false in"));
  Json gpt2 = gpt2_config();  // tied when the config says nothing
  Shapes with_output = gpt2_shapes("transformer.");
  with_output.push_back({"lm_head.weight", {kV, kC}});
  CHECK_THAT(HfDirectory(gpt2, with_output).why_refused(), Contains("lm_head.weight differs from transformer.wte.weight"));

  HfDirectory copied(config, {});
  Shapes shapes = llama_shapes(2);
  shapes.pop_back();
  write_weights(copied.path / "model.safetensors", shapes);
  CHECK(copied.why_refused() == "accepted");
  std::filesystem::remove_all(copied.out);
  std::vector<SafetensorsEntry> entries{{"lm_head.weight", DType::F32, {kV, kC}}};
  for (const auto& [name, shape] : shapes) entries.push_back({name, DType::F32, shape});
  const SafetensorsModel weights(copied.path);
  SafetensorsWriter writer(copied.dir / "tied.safetensors", entries);
  for (const SafetensorsEntry& entry : entries) {
    const auto bytes = weights.bytes(entry.name == "lm_head.weight" ? "model.embed_tokens.weight" : entry.name);
    writer.write(ConstTensor(bytes.data(), DType::F32, entry.shape));
  }
  writer.commit();
  std::filesystem::rename(copied.dir / "tied.safetensors", copied.path / "model.safetensors");
  CHECK(copied.why_refused() == "accepted");
}

TEST_CASE("weights that are not finite are imported with a warning for each tensor") {
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16}) {
    HfDirectory hf(llama_config(), llama_shapes(2), dtype);
    std::string file = read_file(hf.path / "model.safetensors");
    const auto last = static_cast<std::size_t>(size_of(dtype));
    std::memset(file.data() + file.size() - 2 * last, 0xff, 2 * last);  // NaN in every type
    put(hf.path / "model.safetensors", file);
    CHECK(hf.why_refused() == "accepted");
    REQUIRE(hf.warnings.texts.size() == 1);
    CHECK(hf.warnings.texts.front() == "tensor lm_head.weight: 2 of 66 weights are NaN or infinite");
  }
}

TEST_CASE("what cannot be exported is refused with the reason") {
  const TemporaryDirectory dir;
  Warnings warnings;
  SmallState(1).save(dir / "nothing");
  const Checkpoint nothing = Checkpoint::open(dir / "nothing", warnings.sink());
  CHECK_THROWS_WITH(export_hf(nothing, dir / "out", {}), Contains("does not say in its config what model"));

  HfDirectory hf(llama_config(), llama_shapes(2));
  const Checkpoint checkpoint = hf.imported();
  CHECK_THROWS_WITH(export_hf(checkpoint, dir / "out", {.family = "gpt2", .dtype = {}}), Contains("gpt2: model.norm is \"rmsnorm\""));
  CHECK_THROWS_WITH(export_hf(checkpoint, dir / "out", {.family = "bert", .dtype = {}}), Contains("bert"));
  CHECK_THROWS_WITH(export_hf(checkpoint, dir.path(), {}), Contains("exists already"));
  SmallState odd(1);
  odd.state.config["model"] = checkpoint.config().at("model");
  odd.save(dir / "odd");
  CHECK_THROWS_WITH(export_hf(Checkpoint::open(dir / "odd", warnings.sink()), dir / "out", {}),
                    Contains("embedding.weight (model) has shape (33, 17)"));
  CHECK_FALSE(std::filesystem::exists(dir / "out"));
}

}  // namespace
}  // namespace oxrse::io
