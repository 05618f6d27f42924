#include "io/tokenizer/token_finder.h"

#include <algorithm>
#include <utility>

namespace oxrse::io {

void TokenFinder::add(std::string name, std::int32_t token) {
  if (name.empty()) return;
  starts_[static_cast<std::uint8_t>(name.front())] = true;
  const auto shorter = [&](const auto& other) { return other.first.size() < name.size(); };
  const auto place = std::find_if(names_.begin(), names_.end(), shorter);
  names_.emplace(place, std::move(name), token);
}

TokenFinder::Found TokenFinder::find(std::string_view text, std::size_t begin) const {
  if (names_.empty()) return {};
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (!starts_[static_cast<std::uint8_t>(text[i])]) continue;
    for (const auto& [name, token] : names_) {
      if (text.substr(i).starts_with(name)) return {i, name.size(), token};
    }
  }
  return {};
}

}  // namespace oxrse::io
