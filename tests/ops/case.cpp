#include "tests/ops/case.h"

#include <algorithm>
#include <utility>

#include "engine/core/philox.h"

namespace oxrse::test {
namespace {

std::size_t count_of(const Sizes& sizes) {
  std::size_t count = 1;
  for (const std::int64_t s : sizes) count *= static_cast<std::size_t>(s);
  return count;
}

}  // namespace

Array normal(Sizes sizes, std::uint64_t seed, double scale, double shift) {
  const RandomStream random(seed, stream_of("test"));
  Values values(count_of(sizes));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = shift + scale * random.normal(i);
  return {std::move(sizes), std::move(values)};
}

Array integers(Sizes sizes, std::uint64_t seed, std::int64_t below) {
  const RandomStream random(seed, stream_of("test"));
  Values values(count_of(sizes));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::floor(random.uniform(i) * static_cast<double>(below));
  return {std::move(sizes), std::move(values)};
}

Array numbers(Sizes sizes, Values values) {
  require(values.size() == count_of(sizes), "{} numbers for {} elements", values.size(), count_of(sizes));
  return {std::move(sizes), std::move(values)};
}

Run::Run(const Arrays& inputs, Setting setting)
    : inputs_(inputs), setting_(std::move(setting)), context_(context_for(setting_.type, setting_.threads)) {}

Tensor Run::made(const std::string& name) const {
  const auto result = results_.find(name);
  const auto found = tensors_.find(result != results_.end() ? result->second : name);
  require(found != tensors_.end(), "the case has not made a tensor {}", name);
  return found->second.view();
}

Tensor Run::input(const std::string& name, DType as, std::int64_t gap) {
  if (tensors_.contains(name)) return tensors_.at(name).view();
  const auto found = inputs_.find(name);
  if (found == inputs_.end()) return {};
  Guarded tensor(as, found->second.sizes, gap, setting_.aligned);
  tensor.set(found->second.values);
  return tensors_.emplace(name, std::move(tensor)).first->second.view();
}

Tensor Run::output(const std::string& name, DType as, const Sizes& sizes, std::int64_t gap, bool sum) {
  const auto alias = setting_.in_place.find(name);
  if (alias != setting_.in_place.end()) {
    results_[name] = alias->second;
    return tensors_.contains(alias->second) ? tensors_.at(alias->second).view() : input(alias->second, as, gap);
  }
  Guarded tensor(as, sizes, gap, setting_.aligned);
  if (sum && setting_.write == Write::Add) tensor.set(before(count_of(sizes)));
  results_[name] = name;
  return tensors_.insert_or_assign(name, std::move(tensor)).first->second.view();
}

Tensor Run::rows_copy(const std::string& name, const std::string& input) {
  const Array& from = inputs_.find(input)->second;
  Tensor tensor = rows_out(name, from.sizes);
  tensors_.at(name).set(from.values);
  return tensor;
}

Values Run::before(std::size_t count) { return normal({static_cast<std::int64_t>(count)}, 77).values; }

Arrays Run::results() const {
  for (const auto& [name, tensor] : tensors_) require(tensor.intact(), "memory around {} was written", name);
  Arrays arrays;
  for (const auto& [name, holder] : results_) {
    const Guarded& tensor = tensors_.at(holder);
    require(tensor.written(), "an element of {} was not written", name);
    const Tensor view = tensor.view();
    arrays[name] = {Sizes(view.sizes().begin(), view.sizes().end()), tensor.values()};
  }
  return arrays;
}

std::map<std::string, std::vector<std::byte>> Run::bits() const {
  std::map<std::string, std::vector<std::byte>> bits;
  for (const auto& [name, holder] : results_) bits[name] = tensors_.at(holder).bits();
  return bits;
}

}  // namespace oxrse::test
