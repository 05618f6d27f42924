#include "engine/train/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/ops/elementwise.h"

namespace oxrse::train {

void Sampling::validate() const {
  require(std::isfinite(temperature) && temperature >= 0, "--temperature {}: expected a number from 0 (most likely token) up", temperature);
  require(top_k >= 0, "--top-k {}: expected 0 (all tokens) or more", top_k);
  require(top_p > 0 && top_p <= 1, "--top-p {}: expected a probability above 0, at most 1", top_p);
}

namespace {

/// Probabilities exist when the largest logit is finite and none is NaN, which is shown without its sign.
void require_probabilities(std::span<const double> logits) {
  constexpr const char* kAdvice = "the weights hold NaN or infinity (oxrse eval names them) or are too large for precision.compute";
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    require(logits[i] < kInfinity, "no token can be drawn, the logit of token {} is {}: {}", i, std::abs(logits[i]), kAdvice);
  }
  const bool any = std::any_of(logits.begin(), logits.end(), [](double logit) { return logit > -kInfinity; });
  require(any, "no token can be drawn, all logits are -inf: {}", kAdvice);
}

}  // namespace

std::int32_t draw(std::span<const double> logits, const Sampling& sampling, std::uint64_t index) {
  if (sampling.vocab > 0) logits = logits.first(std::min(logits.size(), static_cast<std::size_t>(sampling.vocab)));
  require_probabilities(logits);
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](std::int32_t a, std::int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  if (sampling.temperature == 0) return *std::min_element(order.begin(), order.end(), likelier);

  std::sort(order.begin(), order.end(), likelier);
  std::size_t kept = order.size();
  if (sampling.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(sampling.top_k));
  std::vector<double> weight(kept);
  for (std::size_t i = 0; i < kept; ++i) weight[i] = std::exp((logits[order[i]] - logits[order[0]]) / sampling.temperature);
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  double reached = 0;
  for (std::size_t i = 0; i < kept; ++i) {  // the smallest set that reaches top_p
    reached += weight[i];
    if (reached >= sampling.top_p * total) kept = i + 1;
  }
  const double kept_total = std::accumulate(weight.begin(), weight.begin() + static_cast<std::ptrdiff_t>(kept), 0.0);
  double target = RandomStream(sampling.seed, stream_of("sampling")).uniform(index) * kept_total;
  for (std::size_t i = 0; i + 1 < kept; ++i) {
    if (target < weight[i]) return order[i];
    target -= weight[i];
  }
  return order[kept - 1];
}

std::vector<double> Generator::feed(nn::DecodeState& state, std::span<const std::int32_t> tokens) {
  const ArenaScope scope(*context_.arena);
  const auto T = static_cast<std::int64_t>(tokens.size());
  const std::int64_t V = model_.config().vocab;
  const Tensor ids = context_.arena->make(DType::I32, {T}, Memory::Workspace);
  const Tensor positions = context_.arena->make(DType::I32, {T}, Memory::Workspace);
  const Tensor logits = context_.arena->make(parameters_.compute_type(), {1, V}, Memory::Workspace);
  const Tensor wide = context_.arena->make(DType::F64, {1, V}, Memory::Workspace);
  if (!context_.planning()) {
    std::vector<std::int32_t> places(tokens.size());
    std::iota(places.begin(), places.end(), static_cast<std::int32_t>(state.length));
    context_.write(ids, tokens.data());
    context_.write(positions, places.data());
  }
  const nn::Batch batch{.rows = 1, .length = T, .tokens = ids, .targets = {}, .positions = positions, .document_start = {}};
  model_.decode({.context = context_, .parameters = parameters_, .batch = batch}, state, logits);
  ops::run(context_, ops::Cast{.y = wide, .x = logits});
  if (context_.planning()) return {};
  context_.wait();
  return {wide.data<double>(), wide.data<double>() + V};
}

void Generator::generate(std::span<const std::int32_t> prompt, std::int64_t count, const Sampling& sampling,
                         const std::function<bool(std::int32_t)>& on_token) {
  require(!prompt.empty(), "there is nothing to continue: give a prompt of at least one token");
  sampling.validate();
  const ArenaScope scope(*context_.arena);
  const std::int64_t T = model_.config().context;
  const nn::Batch none;
  nn::DecodeState state = model_.start({.context = context_, .parameters = parameters_, .batch = none});
  if (context_.planning()) {
    feed(state, std::vector<std::int32_t>(static_cast<std::size_t>(T)));
    return;
  }
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  const auto newest = [&](std::int64_t n) {
    return std::span(tokens).last(static_cast<std::size_t>(std::min<std::int64_t>(n, std::ssize(tokens))));
  };
  std::vector<double> logits = feed(state, newest(T));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t token = draw(logits, sampling, static_cast<std::uint64_t>(i));
    tokens.push_back(token);
    if (!on_token(token) || i + 1 == count) return;
    if (state.length == T) {
      state.length = 0;
      logits = feed(state, newest((T + 1) / 2));
    } else {
      logits = feed(state, newest(1));
    }
  }
}

}  // namespace oxrse::train
