#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace oxrse::io {

/// Length in bytes of the valid UTF-8 character at the start of `text` (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF);
/// 0 when what is there is not one.
std::size_t utf8_length(std::string_view text);

/// Bytes from the start of `text` that are valid UTF-8.
std::size_t valid_utf8_prefix(std::string_view text);

/// True when `text` could become one valid character if more bytes followed.
bool is_incomplete_utf8(std::string_view text);

/// The code point of the valid character `text`.
std::uint32_t decode_utf8(std::string_view text);

void append_utf8(std::string& text, std::uint32_t code_point);

}  // namespace oxrse::io
