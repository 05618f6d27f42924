#pragma once

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "engine/nn/model.h"

/// A tiny model on random tokens, for tests: everything a pass needs, in f64 unless said otherwise.
namespace oxrse::nn::testing {

struct Setup {
  ModelConfig model;
  std::int64_t rows = 2;
  std::int64_t length = 7;
  DType compute = DType::F64;
  Recompute recompute = Recompute::None;
  int threads = 1;
};

class Tiny {
 public:
  explicit Tiny(const Setup& setup)
      : setup_(setup),
        arena_(Arena::allocated(std::int64_t{64} << 20)),
        context_{.mode = Mode::Run, .cpu = {setup.threads}, .arena = &arena_, .log = nullptr},
        model_(setup.model, store_, setup.recompute) {
    store_.allocate(context_, setup.compute);
    model_.prepare(context_, setup.compute);
    gradients_.allocate(context_, store_, {0, 1, 1}, Gradients::Order::Pairwise);
    loss_ = arena_.make(DType::F64, {1}, Memory::Workspace);
    store_.initialize(context_, 7);
    randomize();
    const RandomStream random(11, stream_of("tokens"));
    const std::int64_t n = setup.rows * setup.length;
    for (std::int64_t i = 0; i < n; ++i) {
      tokens.push_back(static_cast<std::int32_t>(random.words(i)[0] % setup.model.vocab));
      targets.push_back(static_cast<std::int32_t>(random.words(i)[1] % setup.model.vocab));
      positions.push_back(static_cast<std::int32_t>(i % setup.length));
    }
    targets[static_cast<std::size_t>(n / 2)] = -1;
  }

  /// Norms and biases start at 1 and 0, where wrong gradients can hide: everything gets noise.
  void randomize() {
    const RandomStream random(3, stream_of("noise"));
    std::uint64_t i = 0;
    for (const Parameter& p : store_.parameters()) {
      for (std::int64_t j = 0; j < p.count(); ++j) set(p, j, get(p, j) + 0.15 * random.normal(i++));
    }
    store_.cast(context_);
  }

  /// Loss (sum over valid targets) and gradients.
  double train() {
    gradients_.begin_step();
    *loss_.data<double>() = 0;
    const Batch b = batch();
    Pass p = pass(b);
    p.gradients = &gradients_;
    model_.train(p, loss_);
    gradients_.end_micro_batch(context_);
    gradients_.end_step(context_);
    return *loss_.data<double>();
  }

  double evaluate() {
    *loss_.data<double>() = 0;
    const Batch b = batch();
    model_.evaluate(pass(b), loss_);
    return *loss_.data<double>();
  }

  [[nodiscard]] Batch batch() const {
    const auto view = [](const std::vector<std::int32_t>& v, std::initializer_list<std::int64_t> sizes) {
      return v.empty() ? ConstTensor() : ConstTensor(std::as_bytes(std::span(v)).data(), DType::I32, sizes);
    };
    const std::int64_t n = setup_.rows * setup_.length;
    return {.rows = setup_.rows,
            .length = setup_.length,
            .tokens = view(tokens, {n}),
            .targets = view(targets, {n}),
            .positions = view(positions, {n}),
            .document_start = view(document_start, {setup_.rows, setup_.length})};
  }
  Pass pass(const Batch& batch) { return {.context = context_, .parameters = store_, .batch = batch, .seed = 5, .step = 2}; }

  static double get(const Parameter& p, std::int64_t i) {
    return p.master.dtype() == DType::F64 ? p.master.data<double>()[i] : p.master.data<float>()[i];
  }
  static void set(const Parameter& p, std::int64_t i, double value) {
    if (p.master.dtype() == DType::F64) {
      p.master.data<double>()[i] = value;
    } else {
      p.master.data<float>()[i] = static_cast<float>(value);
    }
  }

  ParameterStore& store() { return store_; }
  Gradients& gradients() { return gradients_; }
  Context& context() { return context_; }
  Model& model() { return model_; }

  std::vector<std::int32_t> tokens, targets, positions, document_start;

 private:
  Setup setup_;
  Arena arena_;
  Context context_;
  ParameterStore store_;
  Model model_;
  Gradients gradients_;
  Tensor loss_;
};

/// GPT-2's switches: LayerNorm, learned positions, GELU, biases, tied.
inline ModelConfig gpt2() { return ModelConfig{.layers = 2, .width = 12, .heads = 3, .context = 9, .vocab = 23}.resolved(); }
/// Llama's: RMSNorm, rotary, SwiGLU, grouped queries, separate output.
inline ModelConfig llama() {
  return ModelConfig{.layers = 2,
                     .width = 16,
                     .heads = 4,
                     .kv_heads = 2,
                     .context = 9,
                     .vocab = 19,
                     .norm = "rmsnorm",
                     .position = "rope",
                     .mlp = "swiglu",
                     .mlp_width = 20,
                     .bias = false,
                     .tied_embeddings = false}
      .resolved();
}
/// Qwen3's: llama with QK-norm, a head width of its own, tied.
inline ModelConfig qwen3() {
  ModelConfig config = llama();
  config.head_width = 6;
  config.kv_heads = 1;
  config.qk_norm = true;
  config.tied_embeddings = true;
  return config.resolved();
}

}  // namespace oxrse::nn::testing
