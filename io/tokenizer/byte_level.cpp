#include "io/tokenizer/byte_level.h"

#include <array>

#include "io/tokenizer/utf8.h"

namespace oxrse::io {
namespace {

constexpr std::size_t kStandIns = 0x100 + 68;  // the largest code point used, plus one

struct Map {
  std::array<std::uint16_t, 256> code_of{};
  std::array<std::int16_t, kStandIns> byte_of{};
};

constexpr bool stands_for_itself(unsigned byte) { return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae; }

constexpr Map make_map() {
  Map map;
  for (auto& byte : map.byte_of) byte = -1;
  std::uint16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::uint16_t code = stands_for_itself(byte) ? static_cast<std::uint16_t>(byte) : next++;
    map.code_of[byte] = code;
    map.byte_of[code] = static_cast<std::int16_t>(byte);
  }
  return map;
}

constexpr Map kMap = make_map();

}  // namespace

std::string to_byte_level(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) append_utf8(text, kMap.code_of[static_cast<std::uint8_t>(c)]);
  return text;
}

std::optional<std::string> from_byte_level(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return std::nullopt;
    const std::uint32_t code = decode_utf8(text.substr(0, length));
    if (code >= kStandIns || kMap.byte_of[code] < 0) return std::nullopt;
    bytes += static_cast<char>(kMap.byte_of[code]);
    text.remove_prefix(length);
  }
  return bytes;
}

}  // namespace oxrse::io
