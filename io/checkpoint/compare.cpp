#include "io/checkpoint/compare.h"

#include <algorithm>
#include <cmath>

namespace oxrse::io {
namespace {

std::vector<double> values_of(const Checkpoint& checkpoint, const StoredTensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(checked_count(tensor.shape, tensor.dtype)));
  checkpoint.read(tensor.name, tensor.part, Tensor(reinterpret_cast<std::byte*>(values.data()), DType::F64, tensor.shape));
  return values;
}

void compare_values(const std::vector<double>& a, const std::vector<double>& b, TensorDifference& result) {
  double difference_squared = 0, norm_squared = 0;
  result.count = static_cast<std::int64_t>(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    norm_squared += a[i] * a[i];
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double distance = std::abs(a[i] - b[i]);
    ++result.different;
    if (!(distance <= result.largest)) result.largest = distance;
    difference_squared += distance * distance;
  }
  result.relative = difference_squared == 0 ? 0 : std::sqrt(difference_squared / norm_squared);
}

const StoredTensor* partner(const Checkpoint& checkpoint, const StoredTensor& tensor) {
  const auto& all = checkpoint.tensors();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const StoredTensor& t) { return t.name == tensor.name && t.part == tensor.part; });
  return found == all.end() ? nullptr : &*found;
}

/// Told by the checksums, where both are stored in the same pieces.
bool same_bits(const StoredTensor& a, const StoredTensor& b) {
  const auto alike = [](const Piece& x, const Piece& y) { return x.region == y.region && x.xxh3 == y.xxh3; };
  return a.dtype == b.dtype && a.shape == b.shape && std::equal(a.pieces.begin(), a.pieces.end(), b.pieces.begin(), b.pieces.end(), alike);
}

}  // namespace

std::vector<TensorDifference> compare(const Checkpoint& a, const Checkpoint& b) {
  std::vector<TensorDifference> differences;
  for (const StoredTensor& tensor : a.tensors()) {
    const StoredTensor* other = partner(b, tensor);
    if (other != nullptr && same_bits(tensor, *other)) continue;
    TensorDifference difference;
    difference.label = tensor.label();
    if (other == nullptr) {
      difference.structure = "only in A";
    } else if (other->shape != tensor.shape) {
      difference.structure = describe_shape(tensor.shape) + " and " + describe_shape(other->shape);
    } else {
      compare_values(values_of(a, tensor), values_of(b, *other), difference);
      if (difference.different == 0) continue;
    }
    differences.push_back(difference);
  }
  for (const StoredTensor& tensor : b.tensors()) {
    if (partner(a, tensor) != nullptr) continue;
    TensorDifference difference;
    difference.label = tensor.label();
    difference.structure = "only in B";
    differences.push_back(difference);
  }
  return differences;
}

}  // namespace oxrse::io
