#include "io/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <new>
#include <vector>

#include "io/file_stream.h"

namespace oxrse::io {

std::uint64_t xxh3(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
std::uint64_t xxh3(std::string_view bytes) { return xxh3(std::as_bytes(std::span(bytes))); }

std::uint64_t xxh3_of_file(const std::filesystem::path& path) {
  const InputFile file(path);
  Xxh3 checksum;
  checksum.add(file, 0, file.size());
  return checksum.value();
}

Hasher128::Hasher128() : state_(XXH3_createState()) { XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_)); }
Hasher128::~Hasher128() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }

void Hasher128::add(std::string_view bytes) { XXH3_128bits_update(static_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size()); }

Hash128 Hasher128::result() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_));
  return {.low = hash.low64, .high = hash.high64};
}

Xxh3::Xxh3() : state_(XXH3_createState()) {
  if (state_ == nullptr || XXH3_64bits_reset(state_) == XXH_ERROR) throw std::bad_alloc();
}
Xxh3::~Xxh3() { XXH3_freeState(state_); }

void Xxh3::add(std::span<const std::byte> bytes) { XXH3_64bits_update(state_, bytes.data(), bytes.size()); }

void Xxh3::add(const InputFile& file, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kPiece = std::int64_t{1} << 22U;  // stays in the cache between reading and hashing
  if (begin >= end) return;
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(kPiece, end - begin)));
  for (std::int64_t offset = begin; offset < end; offset += kPiece) {
    const std::span part(piece.data(), static_cast<std::size_t>(std::min(kPiece, end - offset)));
    file.read(part, offset);
    add(part);
  }
}

std::uint64_t Xxh3::value() const { return XXH3_64bits_digest(state_); }

std::string hex(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

}  // namespace oxrse::io
