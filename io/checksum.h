#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace oxrse::io {

class InputFile;

/// XXH3 with 64 bits (https://xxhash.com), the checksum of everything Oxrse writes.
std::uint64_t xxh3(std::span<const std::byte> bytes);
std::uint64_t xxh3(std::string_view bytes);
/// Of a whole file, as `xxhsum -H3` prints it; reads in pieces. An Error names a file that cannot be read.
std::uint64_t xxh3_of_file(const std::filesystem::path& path);

/// XXH3 of bytes that come in parts.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;

  void add(std::span<const std::byte> bytes);
  /// Bytes [begin, end) of a file; none when `end` is not after `begin`.
  void add(const InputFile& file, std::int64_t begin, std::int64_t end);
  [[nodiscard]] std::uint64_t value() const;

 private:
  XXH3_state_s* state_;
};

/// XXH3 with 128 bits, for telling very many things apart.
struct Hash128 {
  std::uint64_t low = 0, high = 0;
  bool operator==(const Hash128&) const = default;
};

/// The Hash128 of bytes that come piece by piece.
class Hasher128 {
 public:
  Hasher128();
  Hasher128(const Hasher128&) = delete;
  Hasher128& operator=(const Hasher128&) = delete;
  ~Hasher128();
  void add(std::string_view bytes);
  [[nodiscard]] Hash128 result() const;

 private:
  void* state_;
};

/// Sixteen hexadecimal digits.
std::string hex(std::uint64_t checksum);

}  // namespace oxrse::io
