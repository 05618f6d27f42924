#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace oxrse::io {

/// XXH3 with 64 bits (https://xxhash.com), the checksum of everything Oxrse writes.
std::uint64_t xxh3(std::span<const std::byte> bytes);
std::uint64_t xxh3(std::string_view bytes);
/// Of a whole file, as `xxhsum -H3` prints it; reads in pieces. An Error names a file that cannot be read.
std::uint64_t xxh3_of_file(const std::filesystem::path& path);
/// Sixteen hexadecimal digits.
std::string hex(std::uint64_t checksum);

}  // namespace oxrse::io
