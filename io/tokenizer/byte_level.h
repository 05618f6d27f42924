#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace oxrse::io {

/// The printable stand-ins of bytes in the files of byte-level BPEs (GPT-2, Radford et al. 2019): 0x21-7E, A1-AC and AE-FF stand for
/// themselves, the other 68 bytes in order for U+0100, U+0101, ...
std::string to_byte_level(std::string_view bytes);

/// The bytes that `text` stands for; nothing when it has a character that stands for none.
std::optional<std::string> from_byte_level(std::string_view text);

}  // namespace oxrse::io
