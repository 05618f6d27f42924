#pragma once

#include <string>
#include <string_view>

namespace oxrse::io {

/// Unicode's normalization form C (UAX #15) of valid UTF-8. An Error when the program was built without libutf8proc.
std::string to_nfc(std::string_view text);

/// An Error unless to_nfc() works, for saying so before work begins.
void require_nfc();

/// "\r\n" becomes "\n"; a "\r" by itself stays.
std::string with_plain_line_ends(std::string_view text);

}  // namespace oxrse::io
