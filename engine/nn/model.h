#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/nn/attention.h"
#include "engine/nn/mlp.h"
#include "engine/nn/output.h"

namespace oxrse::nn {

/// What the forward pass throws away and backward computes again: nothing, the attention half of every block, or both halves.
enum class Recompute : std::uint8_t { None, Attention, Block };

/// The keys and values of one sequence being decoded.
struct DecodeState {
  std::vector<KeyValueCache> layers;
  std::int64_t length = 0;  // tokens in the cache
};

/// A decoder: embedding, L blocks of attention and MLP, output layer.
class Model {
 public:
  /// Adds all parameters to the store. `config` must be resolved.
  Model(const ModelConfig& config, ParameterStore& store, Recompute recompute = Recompute::None);

  /// Makes what the passes read besides parameters, in the context's arena.
  void prepare(Context& context, DType compute);

  /// Forward and backward pass: adds the summed loss to `loss_sum` (1) f64 and the gradients to pass.gradients.
  void train(Pass pass, Tensor loss_sum) const;
  /// Forward pass only: adds the summed loss to `loss_sum` (1) f64.
  void evaluate(Pass pass, Tensor loss_sum) const;

  /// Starts decoding one sequence; the state lives in the context's arena.
  [[nodiscard]] DecodeState start(Pass pass) const;
  /// Feeds the batch's tokens (one row, which continues the sequence) and writes the logits (1, V) of the last one.
  void decode(Pass pass, DecodeState& state, Tensor logits) const;

  [[nodiscard]] const ModelConfig& config() const { return config_; }

 private:
  struct Block {
    AttentionLayer attention;
    MlpLayer mlp;
  };
  /// What the forward pass leaves for the backward pass of a block.
  struct Saved {
    Tensor x;       // (N, C): the block's input
    Tensor middle;  // (N, C): after attention
    AttentionLayer::Saved attention;
    MlpLayer::Saved mlp;
  };

  void embed(const Pass& pass, Tensor x) const;
  void embed_backward(const Pass& pass, ConstTensor dx) const;
  void forward(const Pass& pass, const Block& block, Saved& saved, Tensor y) const;
  void backward(const Pass& pass, const Block& block, Saved& saved, Tensor d) const;

  ModelConfig config_;
  Recompute recompute_;
  ParameterId embedding_, position_;
  std::vector<Block> blocks_;
  std::vector<std::size_t> first_parameter_;  // of every block, then of the output layer
  OutputLayer output_;
  Tensor rope_table_;
};

}  // namespace oxrse::nn
