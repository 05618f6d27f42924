#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/train/training.h"
#include "io/data/open.h"
#include "tests/io/temporary.h"

/// Small trainings on token shards, for tests.
namespace oxrse::train::testing {

/// An llm.c token shard (magic 20240520, 16-bit tokens).
inline void write_shard(const std::filesystem::path& path, const std::vector<std::uint16_t>& tokens) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = static_cast<std::int32_t>(tokens.size());
  std::string bytes(reinterpret_cast<const char*>(header.data()), header.size() * 4);
  bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2);
  io::put(path, bytes);
}

/// Tokens that a model can learn: mostly a fixed function of the one before.
inline std::vector<std::uint16_t> learnable_tokens(std::int64_t count, std::uint32_t vocab) {
  const RandomStream random(9, stream_of("learnable"));
  std::vector<std::uint16_t> tokens = {3};
  while (std::ssize(tokens) < count) {
    const auto words = random.words(tokens.size());
    const std::uint32_t noise = words[0] % 10 < 3 ? words[1] % 5 : 0;
    tokens.push_back(static_cast<std::uint16_t>((tokens.back() * 7U + 3 + noise) % vocab));
  }
  return tokens;
}

/// A config of a tiny llama on the shard of a fixture.
inline Config tiny_config() {
  Config config;
  nn::ModelConfig model{.layers = 2,
                        .width = 16,
                        .heads = 4,
                        .kv_heads = 2,
                        .context = 12,
                        .vocab = 31,
                        .norm = "rmsnorm",
                        .position = "rope",
                        .mlp = "swiglu",
                        .mlp_width = 24,
                        .bias = false,
                        .tied_embeddings = false};
  config.model = write_config(model);
  config.train.steps = 12;
  config.train.global_batch = 6;
  config.train.micro_batch = 2;
  config.train.context = 12;
  config.optimizer.lr = 5e-3;
  config.optimizer.min_lr = 5e-4;
  config.optimizer.warmup_steps = 3;
  config.data.order = "sequential";
  return config;
}

/// The same on documents of text, one byte a token.
inline Config documents_config(const std::filesystem::path& jsonl) {
  Config config = tiny_config();
  config.model["vocab"] = 256;
  config.data.train = jsonl.string();
  config.data.tokenizer = "bytes";
  config.data.packing = "documents";
  return config;
}

/// What a training computes with, byte for byte.
inline std::string weights_of(Training& training) {
  std::string all;
  for (const nn::Parameter& p : training.parameters().parameters()) {
    all.append(reinterpret_cast<const char*>(p.compute.address()), static_cast<std::size_t>(p.compute.bytes()));
  }
  return all;
}

/// A config, its data and a training that starts with the initial weights.
class Fixture {
 public:
  explicit Fixture(Config config, int threads = 1, comm::Communicator* ranks = nullptr, Device* device = nullptr)
      : config_(std::move(config)), arena_(Arena::allocated(std::int64_t{64} << 20, device)) {
    if (!config_.data.train.is_string() || config_.data.train.get<std::string>().empty()) {
      write_shard(directory_ / "tokens.bin", learnable_tokens(12 * 6 * 12 + 1, 31));
      config_.data.train = (directory_ / "tokens.bin").string();
    }
    config_.data.cache = (directory_ / "cache").string();
    model_ = resolve_model(config_, 0);
    const auto tokenizer = io::open_tokenizer(config_.data);
    data_ = io::open_training_data(
        config_.data, tokenizer.get(),
        {.context = config_.train.context, .seed = static_cast<std::uint64_t>(config_.run.seed), .vocab = model_.vocab});
    context_.cpu.threads = threads;
    context_.arena = &arena_;
    context_.device = device;
    training_ = std::make_unique<Training>(context_, config_, model_, ranks);
    training_->initialize();
  }

  StepReport step(std::int64_t i) { return training_->step(data_.train.get(), i); }
  /// All weights and optimizer states, byte for byte.
  [[nodiscard]] std::string bits() const {
    std::string all;
    const auto append = [&](const Tensor& t) {
      if (t.present()) all.append(reinterpret_cast<const char*>(t.address()), static_cast<std::size_t>(t.bytes()));
    };
    for (const nn::Parameter& p : training_->parameters().parameters()) append(p.master);
    for (const auto& state : training_->optimizer().states()) {
      append(state.exp_avg);
      append(state.exp_avg_sq);
      append(state.momentum);
    }
    return all;
  }

  Training& training() { return *training_; }
  const io::Dataset& data() { return *data_.train; }
  const Config& config() { return config_; }
  const nn::ModelConfig& model() { return model_; }
  const io::TemporaryDirectory& directory() { return directory_; }

 private:
  io::TemporaryDirectory directory_;
  Config config_;
  nn::ModelConfig model_;
  io::TrainingData data_;
  Arena arena_;
  Context context_;
  std::unique_ptr<Training> training_;
};

}  // namespace oxrse::train::testing
