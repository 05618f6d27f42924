#include "io/data/document_set.h"

#include <utility>

#include "engine/core/error.h"

namespace oxrse::io {
namespace {

constexpr std::size_t kFirstSlots = 16;
constexpr Hash128 kFree = {};

}  // namespace

Hash128& DocumentSet::place_in(std::vector<Hash128>& slots, Hash128 document) {
  std::size_t i = document.low & (slots.size() - 1);
  while (slots[i] != kFree && slots[i] != document) i = (i + 1) & (slots.size() - 1);
  return slots[i];
}

void DocumentSet::grow(Table& table) {
  const std::size_t slots = table.slots.empty() ? kFirstSlots : 2 * table.slots.size();
  const auto more = static_cast<std::int64_t>((slots - table.slots.size()) * sizeof(Hash128));
  require(bytes_ + more <= most_bytes_,
          "more than {} different documents do not fit into the {} bytes that de-duplication may use: give it more (--deduplicate-memory)",
          size_, most_bytes_);
  std::vector<Hash128> larger(slots);
  for (const Hash128 document : table.slots) {
    if (document != kFree) place_in(larger, document) = document;
  }
  table.slots = std::move(larger);
  bytes_ += more;
}

bool DocumentSet::insert(Hash128 document) {
  if (document == kFree) document.low = 1;
  Table& table = tables_[document.high >> 56U];
  if (!table.slots.empty() && place_in(table.slots, document) == document) return false;
  if (4 * (table.used + 1) > 3 * table.slots.size()) grow(table);
  place_in(table.slots, document) = document;
  ++table.used;
  ++size_;
  return true;
}

}  // namespace oxrse::io
