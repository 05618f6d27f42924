#include "engine/core/config.h"
#include "engine/nn/model_config.h"
#include "engine/train/config.h"
#include "io/model_zoo.h"
#include "tests/catch.h"

using namespace oxrse;

namespace {

nn::ModelConfig model(const std::string& name) {
  nn::ModelConfig config;
  read_config(io::read_model_zoo("models", name), config);
  if (config.vocab == 0) config.vocab = 1000;
  return config.resolved();
}

/// Parameters by the shapes of the weights, written down independently of the engine.
std::int64_t parameters(const nn::ModelConfig& c) {
  const std::int64_t queries = c.heads * c.head_width, keys = c.kv_heads * c.head_width;
  const std::int64_t norm = c.norm == "layernorm" && c.bias ? 2 * c.width : c.width;
  const std::int64_t attention =
      c.width * (2 * queries + 2 * keys) + (c.bias ? queries + 2 * keys + c.width : 0) + (c.qk_norm ? 2 * c.head_width : 0);
  const std::int64_t matrices = c.mlp == "swiglu" ? 3 : 2;
  const std::int64_t mlp = matrices * c.width * c.mlp_width + (c.bias ? c.mlp_width + c.width : 0);
  const std::int64_t embeddings = c.vocab * c.width * (c.tied_embeddings ? 1 : 2) + (c.position == "learned" ? c.context * c.width : 0);
  return embeddings + c.layers * (attention + mlp + 2 * norm) + norm;
}

}  // namespace

TEST_CASE("every model of the zoo is a valid model config") {
  for (const std::string& name : io::model_zoo_entries("models")) {
    INFO(name);
    CHECK_NOTHROW(model(name));
  }
}

TEST_CASE("known models have their published number of parameters") {
  const std::map<std::string, std::int64_t> published = {
      {"gpt2/124m", 124439808},   {"gpt2/350m", 354823168},   {"gpt2/774m", 774030080},   {"gpt2/1558m", 1557611200},
      {"llama/7b", 6738415616},   {"llama/8b", 8030261248},   {"llama/70b", 70553706496}, {"llama/405b", 405853388800},
      {"mistral/7b", 7241732096}, {"qwen3/0.6b", 596049920},  {"qwen3/1.7b", 1720574976}, {"qwen3/4b", 4022468096},
      {"qwen3/8b", 8190735360},   {"qwen3/14b", 14768307200}, {"qwen3/32b", 32762123264},
  };
  for (const auto& [name, count] : published) {
    INFO(name);
    CHECK(parameters(model(name)) == count);
  }
}

TEST_CASE("every recipe is a valid config with a model that fits it") {
  for (const std::string& name : io::model_zoo_entries("recipes")) {
    INFO(name);
    const train::Config config = train::load_config(io::read_model_zoo("recipes", name));
    CHECK(train::resolve_model(config, config.data.bpe_vocab.value_or(256)).vocab > 0);
    CHECK(config.optimizer.min_lr <= config.optimizer.lr);
  }
}
