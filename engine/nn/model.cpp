#include "engine/nn/model.h"

#include "engine/ops/dropout.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/embedding.h"
#include "engine/ops/rope.h"

namespace oxrse::nn {

Model::Model(const ModelConfig& config, ParameterStore& store, Recompute recompute) : config_(config), recompute_(recompute) {
  embedding_ = store.add("embedding.weight", {config.vocab, config.width}, {.stddev = kInitialSpread});
  if (config.position == "learned") position_ = store.add("position.weight", {config.context, config.width}, {.stddev = kInitialSpread});
  for (std::int64_t l = 0; l < config.layers; ++l) {
    const std::string name = "blocks." + std::to_string(l);
    first_parameter_.push_back(store.parameters().size());
    AttentionLayer attention(store, name, config);
    blocks_.push_back({std::move(attention), MlpLayer(store, name, config)});
  }
  first_parameter_.push_back(store.parameters().size());
  output_ = OutputLayer(store, config, embedding_);
}

void Model::prepare(Context& context, DType compute) {
  if (config_.position != "rope") return;
  rope_table_ = context.arena->make(accumulator_of(compute), {config_.context, config_.head_width}, Memory::Weights);
  ops::run(context, ops::RopeTable{.table = rope_table_, .theta = config_.rope_theta});
}

void Model::embed(const Pass& pass, Tensor x) const {
  ops::run(pass.context, ops::Embedding{.y = x, .ids = pass.batch.tokens, .table = pass.gather(embedding_)});
  if (position_.present()) {
    ops::run(pass.context, ops::Embedding{.y = x, .ids = pass.batch.positions, .table = pass.gather(position_), .to_y = Write::Add});
  }
  if (config_.dropout > 0 && pass.training()) {
    ops::run(pass.context, ops::Dropout{.y = x,
                                        .x = x,
                                        .residual = {},
                                        .p = config_.dropout,
                                        .random = pass.random("embedding"),
                                        .first_row = pass.batch.first_row * pass.batch.length});
  }
}

void Model::embed_backward(const Pass& pass, ConstTensor dx) const {
  const ArenaScope scope(*pass.context.arena);
  if (config_.dropout > 0) {
    const Tensor dropped = pass.make({dx.size(0), dx.size(1)}, Memory::Workspace);
    ops::run(pass.context, ops::Dropout{.y = dropped,
                                        .x = dx,
                                        .residual = {},
                                        .p = config_.dropout,
                                        .random = pass.random("embedding"),
                                        .first_row = pass.batch.first_row * pass.batch.length});
    dx = dropped;
  }
  const auto backward = [&](ParameterId table, ConstTensor ids) {
    const auto target = pass.gradients->target(table);
    ops::run(pass.context, ops::Embedding::Backward{.dtable = target.sum, .dy = dx, .ids = ids, .to_dtable = target.write});
  };
  backward(embedding_, pass.batch.tokens);
  if (position_.present()) backward(position_, pass.batch.positions);
}

void Model::forward(const Pass& pass, const Block& block, Saved& saved, Tensor y) const {
  const std::int64_t N = pass.batch.count(), C = config_.width;
  Arena& arena = *pass.context.arena;
  if (recompute_ == Recompute::Block || !pass.training()) {
    const ArenaScope scope(arena);
    const Tensor middle = pass.make({N, C});
    block.attention.forward(pass, middle, saved.x);
    block.mlp.forward(pass, y, middle);
    return;
  }
  saved.middle = pass.make({N, C});
  if (recompute_ == Recompute::Attention) {
    const ArenaScope scope(arena);
    block.attention.forward(pass, saved.middle, saved.x);
  } else {
    saved.attention = block.attention.forward(pass, saved.middle, saved.x);
  }
  saved.mlp = block.mlp.forward(pass, y, saved.middle);
}

void Model::backward(const Pass& pass, const Block& block, Saved& saved, Tensor d) const {
  const ArenaScope scope(*pass.context.arena);
  if (recompute_ == Recompute::Block) {
    saved.middle = pass.make({pass.batch.count(), config_.width});
    saved.attention = block.attention.forward(pass, saved.middle, saved.x);
    saved.mlp = block.mlp.forward(pass, {}, saved.middle);
  }
  block.mlp.backward(pass, d, saved.middle, saved.mlp);
  if (recompute_ == Recompute::Attention) saved.attention = block.attention.forward(pass, {}, saved.x);
  block.attention.backward(pass, d, saved.x, saved.attention);
}

void Model::train(Pass pass, Tensor loss_sum) const {
  pass.rope_table = rope_table_;
  Arena& arena = *pass.context.arena;
  const ArenaScope scope(arena);
  const std::int64_t N = pass.batch.count(), C = config_.width;

  const Tensor d = pass.make({N, C}, Memory::Workspace);  // gradient of the residual stream, updated in place
  std::vector<Saved> saved(blocks_.size());
  std::vector<Arena::Mark> marks(blocks_.size());
  Tensor x = pass.make({N, C});
  embed(pass, x);
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    marks[l] = arena.mark();
    saved[l].x = x;
    x = pass.make({N, C});
    forward(pass, blocks_[l], saved[l], x);
  }
  output_.loss(pass, loss_sum, d, x);
  pass.gradients->complete_from(pass.context, first_parameter_.back());
  for (std::size_t l = blocks_.size(); l-- > 0;) {
    backward(pass, blocks_[l], saved[l], d);
    pass.gradients->complete_from(pass.context, first_parameter_[l]);
    arena.release(marks[l]);
  }
  embed_backward(pass, d);
}

void Model::evaluate(Pass pass, Tensor loss_sum) const {
  pass.rope_table = rope_table_;
  const ArenaScope scope(*pass.context.arena);
  const std::int64_t N = pass.batch.count(), C = config_.width;
  Saved saved{.x = pass.make({N, C}), .middle = {}, .attention = {}, .mlp = {}};
  Tensor y = pass.make({N, C});
  embed(pass, saved.x);
  for (const Block& block : blocks_) {
    forward(pass, block, saved, y);
    std::swap(saved.x, y);
  }
  output_.loss(pass, loss_sum, {}, saved.x);
}

DecodeState Model::start(Pass pass) const {
  DecodeState state;
  for (const Block& block : blocks_) state.layers.push_back(block.attention.make_cache(pass));
  return state;
}

void Model::decode(Pass pass, DecodeState& state, Tensor logits) const {
  pass.rope_table = rope_table_;
  const std::int64_t T = pass.batch.length, C = config_.width;
  require(state.length + T <= config_.context, "decoding {} tokens after {}: the model's context is {}", T, state.length, config_.context);
  const ArenaScope scope(*pass.context.arena);
  Tensor x = pass.make({T, C}), y = pass.make({T, C});
  embed(pass, x);
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    const ArenaScope layer(*pass.context.arena);
    const Tensor middle = pass.make({T, C});
    blocks_[l].attention.decode(pass, middle, x, state.layers[l], state.length);
    blocks_[l].mlp.forward(pass, y, middle);
    std::swap(x, y);
  }
  state.length += T;
  output_.logits(pass, logits, x.slice(0, T - 1, T));
}

}  // namespace oxrse::nn
