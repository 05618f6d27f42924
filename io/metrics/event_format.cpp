#include "io/metrics/event_format.h"

#include <array>
#include <bit>

namespace oxrse::io {
namespace {

constexpr std::uint32_t kReversedPolynomial = 0x82f63b78U;

constexpr std::array<std::uint32_t, 256> kCrcOfByte = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kReversedPolynomial : 0U);
    table[byte] = crc;
  }
  return table;
}();

/// A CRC of data that hold their own CRC is weak, hence the mask of the format.
std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8U; }

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xffU);
  return bytes;
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7U) bytes += static_cast<char>((value & 0x7fU) | 0x80U);
  return bytes + static_cast<char>(value);
}

enum class Wire : std::uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

std::string key(unsigned number, Wire wire) { return varint(number << 3U | static_cast<unsigned>(wire)); }
std::string field(unsigned number, std::uint64_t value) { return key(number, Wire::Varint) + varint(value); }
std::string field(unsigned number, double value) { return key(number, Wire::Fixed64) + little_endian(std::bit_cast<std::uint64_t>(value)); }
std::string field(unsigned number, float value) { return key(number, Wire::Fixed32) + little_endian(std::bit_cast<std::uint32_t>(value)); }
std::string field(unsigned number, std::string_view bytes) { return key(number, Wire::Bytes) + varint(bytes.size()) + std::string(bytes); }

// Field numbers of Event, SessionLog, Summary and Summary.Value.
constexpr unsigned kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr unsigned kStatus = 1, kValue = 1, kTag = 1, kSimpleValue = 2;
constexpr std::uint64_t kStart = 1;

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) crc = (crc >> 8U) ^ kCrcOfByte[(crc ^ static_cast<std::uint8_t>(c)) & 0xffU];
  return ~crc;
}

std::string tf_record(std::string_view data) {
  const std::string length = little_endian(std::uint64_t{data.size()});
  return length + little_endian(masked_crc(length)) + std::string(data) + little_endian(masked_crc(data));
}

std::string version_event(double time) { return field(kWallTime, time) + field(kFileVersion, std::string_view("brain.Event:2")); }

std::string start_event(double time, std::int64_t step) {
  return field(kWallTime, time) + field(kStep, static_cast<std::uint64_t>(step)) +
         field(kSessionLog, std::string_view(field(kStatus, kStart)));
}

std::string scalars_event(double time, std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    summary += field(kValue, std::string_view(field(kTag, tag) + field(kSimpleValue, static_cast<float>(value))));
  }
  return field(kWallTime, time) + field(kStep, static_cast<std::uint64_t>(step)) + field(kSummary, std::string_view(summary));
}

}  // namespace oxrse::io
