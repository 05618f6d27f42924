#include "engine/core/nearest.h"

#include <algorithm>
#include <vector>

namespace oxrse {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<std::size_t> cost((a.size() + 1) * columns);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return cost[i * columns + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = i;
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, substituted});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  const std::string* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    // A short word is at a small distance of every other short one: at least half of it must be right.
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && 2 * distance <= std::max(word.size(), candidate.size())) {
      best = &candidate;
      best_distance = distance;
    }
  }
  if (best != nullptr) return *best;
  const auto related = std::find_if(candidates.begin(), candidates.end(), [&](const std::string& candidate) {
    return word.size() > 2 && candidate.size() > 2 &&
           (candidate.find(word) != std::string::npos || word.find(candidate) != std::string_view::npos);
  });
  if (related == candidates.end()) return std::nullopt;
  return *related;
}

}  // namespace oxrse
