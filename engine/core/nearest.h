#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace oxrse {

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string alignment distance).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate a mistyped `word` was probably meant to be: the one at the smallest distance, or one that contains the word or is
/// contained in it. Nothing when none is close.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace oxrse
