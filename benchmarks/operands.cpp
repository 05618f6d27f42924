#include "benchmarks/operands.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/ops/elementwise.h"

namespace oxrse::bench {
namespace {

double element(const Tensor& t, std::int64_t i) {
  return visit_floating(t.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return static_cast<double>(static_cast<accumulator_t<T>>(t.data<T>()[i]));
  });
}

double error_of(const Tensor& x, const Tensor& truth) {
  double largest = 0, error = 0;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const double expected = element(truth, i);
    const double difference = std::abs(element(x, i) - expected);
    largest = std::max(largest, std::abs(expected));
    if (difference > error || std::isnan(difference)) error = difference;  // nothing is greater than a NaN: it stays
  }
  return largest > 0 ? error / largest : error;
}

}  // namespace

bool Operands::copied(const Tensor& input) {
  inputs_.push_back(input);
  context_.wait();  // before the host writes
  if (model_ == nullptr || context_.planning()) return false;
  std::memcpy(input.address(), model_->inputs_[inputs_.size() - 1].address(), static_cast<std::size_t>(input.bytes()));
  return true;
}

Tensor Operands::random(DType type, DType precision, std::initializer_list<std::int64_t> sizes, double spread, double mean) {
  const Tensor result = room(type, sizes);
  const RandomStream stream = next_stream();
  if (copied(result)) return result;
  const auto fill = [&](Tensor t) { ops::run(host_, ops::FillNormal{.y = t, .mean = mean, .stddev = spread, .random = stream}); };
  if (type == precision) {
    fill(result);
    return result;
  }
  const ArenaScope scope(*context_.arena);
  const Tensor rounded = context_.arena->make(precision, sizes, Memory::Workspace);
  fill(rounded);
  ops::run(host_, ops::Cast{.y = result, .x = rounded});
  return result;
}

Tensor Operands::normal(std::initializer_list<std::int64_t> sizes, double spread, double mean) {
  return random(compute_, precision_, sizes, spread, mean);
}

Tensor Operands::normal_sums(std::initializer_list<std::int64_t> sizes, double spread, double mean) {
  return random(accumulator(), accumulator_of(precision_), sizes, spread, mean);
}

Tensor Operands::integers(std::int64_t count, std::int64_t below) {
  const Tensor result = room(DType::I32, {count});
  const RandomStream stream = next_stream();
  if (copied(result)) return result;
  for (std::int64_t i = 0; i < count && !context_.planning(); ++i) {
    result.data<std::int32_t>()[i] = static_cast<std::int32_t>(stream.words(static_cast<std::uint64_t>(i))[0] % below);
  }
  return result;
}

Tensor Operands::counting(std::int64_t count, std::int64_t below) {
  const Tensor result = room(DType::I32, {count});
  context_.wait();
  for (std::int64_t i = 0; i < count && !context_.planning(); ++i) result.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % below);
  return result;
}

Tensor Operands::room(DType type, std::initializer_list<std::int64_t> sizes) {
  return context_.arena->make(type, sizes, Memory::Workspace);
}

Tensor Operands::result(Tensor tensor) {
  results_.push_back(tensor);
  return tensor;
}

double largest_error(const std::vector<Tensor>& results, const std::vector<Tensor>& truth) {
  double largest = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const double error = error_of(results[i], truth[i]);
    if (error > largest || std::isnan(error)) largest = error;
  }
  return largest;
}

}  // namespace oxrse::bench
