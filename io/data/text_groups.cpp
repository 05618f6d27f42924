#include "io/data/text_groups.h"

#include <utility>

namespace oxrse::io {
namespace {

constexpr std::size_t kGroupBytes = std::size_t{1} << 20U;
constexpr std::size_t kPartCost = 64;  // in bytes, so that groups of tiny documents do not become long

}  // namespace

TextGroups::Group TextGroups::next() {
  const std::lock_guard lock(guard_);
  if (failed_) return {};
  failed_ = true;  // unless all goes well
  Group group{.number = next_number_++, .parts = {}, .end = {}};
  for (std::size_t size = 0; size < kGroupBytes;) {
    auto part = reader_.next();
    if (!part) break;
    size += part->text.size() + kPartCost;
    group.parts.push_back(std::move(*part));
  }
  group.end = reader_.position();
  failed_ = false;
  return group;
}

}  // namespace oxrse::io
