#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/nn/model.h"

namespace oxrse::train {

/// How the next token is drawn from logits.
struct Sampling {
  double temperature = 1.0;  // 0: the most likely token
  std::int64_t top_k = 0;    // only the k most likely; 0: all
  double top_p = 1.0;        // only the most likely tokens that together reach this probability
  std::int64_t vocab = 0;    // only tokens below, where the model's rows beyond them are padding; 0: all
  std::uint64_t seed = 0;

  /// An Error names the option that is out of range.
  void validate() const;
};

/// Draws a token. Logits of -inf are tokens of probability 0; an Error names a token whose logit is NaN or +inf. `index` counts the draws
/// of a sequence: the same (seed, index, logits) give the same token.
std::int32_t draw(std::span<const double> logits, const Sampling& sampling, std::uint64_t index);

/// Decodes sequences with a key/value cache. When the model's context is full, the second half of it is read again as a new start.
class Generator {
 public:
  Generator(Context& context, const nn::ParameterStore& parameters, const nn::Model& model)
      : context_(context), parameters_(parameters), model_(model) {}

  /// Continues `prompt` (at least one token) by `count` tokens, each given to `on_token` as it is drawn; stops early when that says
  /// false. While planning, it only reserves what the longest sequence takes.
  void generate(std::span<const std::int32_t> prompt, std::int64_t count, const Sampling& sampling,
                const std::function<bool(std::int32_t)>& on_token);

 private:
  /// Feeds tokens and returns the logits of the last one.
  std::vector<double> feed(nn::DecodeState& state, std::span<const std::int32_t> tokens);

  Context& context_;
  const nn::ParameterStore& parameters_;
  const nn::Model& model_;
};

}  // namespace oxrse::train
