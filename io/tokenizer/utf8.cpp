#include "io/tokenizer/utf8.h"

#include <cstring>

namespace oxrse::io {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) { return static_cast<std::uint8_t>(text[i]); }

/// Bytes a character that starts with `lead` takes; 0 for a byte that starts none.
std::size_t length_from_lead(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 0;
}

/// Whether `second` may follow `lead`: the range is narrower where overlong forms, surrogates or too large values would arise.
bool may_follow(std::uint8_t lead, std::uint8_t second) {
  const std::uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const std::uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  return low <= second && second <= high;
}

/// How many bytes at the start of `text` are a correct beginning of one character of `length` bytes.
std::size_t correct_beginning(std::string_view text, std::size_t length) {
  if (length < 2 || text.size() < 2) return 1;
  if (!may_follow(byte_at(text, 0), byte_at(text, 1))) return 1;
  std::size_t n = 2;
  while (n < length && n < text.size() && (byte_at(text, n) & 0xc0U) == 0x80U) ++n;
  return n;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const std::size_t length = length_from_lead(byte_at(text, 0));
  return length != 0 && correct_beginning(text, length) == length ? length : 0;
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    std::uint64_t eight = 0;
    while (i + 8 <= text.size()) {  // eight ASCII bytes at once
      std::memcpy(&eight, text.data() + i, 8);
      if ((eight & 0x8080808080808080U) != 0) break;
      i += 8;
    }
    if (i == text.size()) break;
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) break;
    i += length;
  }
  return i;
}

bool is_incomplete_utf8(std::string_view text) {
  if (text.empty()) return false;
  const std::size_t length = length_from_lead(byte_at(text, 0));
  return text.size() < length && correct_beginning(text, length) == text.size();
}

std::uint32_t decode_utf8(std::string_view text) {
  if (text.size() == 1) return byte_at(text, 0);
  std::uint32_t code = byte_at(text, 0) & (0x7fU >> text.size());
  for (std::size_t i = 1; i < text.size(); ++i) code = code << 6U | (byte_at(text, i) & 0x3fU);
  return code;
}

void append_utf8(std::string& text, std::uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
    return;
  }
  if (code < 0x800) {
    text += static_cast<char>(0xc0U | code >> 6U);
  } else {
    if (code < 0x10000) {
      text += static_cast<char>(0xe0U | code >> 12U);
    } else {
      text += static_cast<char>(0xf0U | code >> 18U);
      text += static_cast<char>(0x80U | (code >> 12U & 0x3fU));
    }
    text += static_cast<char>(0x80U | (code >> 6U & 0x3fU));
  }
  text += static_cast<char>(0x80U | (code & 0x3fU));
}

}  // namespace oxrse::io
