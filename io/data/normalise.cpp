#include "io/data/normalise.h"

#ifdef OXRSE_HAVE_UTF8PROC
#include <utf8proc.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "engine/core/error.h"

namespace oxrse::io {

#ifdef OXRSE_HAVE_UTF8PROC

void require_nfc() {}

std::string to_nfc(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return std::string(text);
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  require(size >= 0, "Unicode normalisation failed: {}", utf8proc_errmsg(size));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  return {reinterpret_cast<const char*>(result), static_cast<std::size_t>(size)};
}

#else

void require_nfc() {
  fail("this program was built without Unicode normalisation; install libutf8proc (Debian: libutf8proc-dev), configure and build again");
}

std::string to_nfc(std::string_view /*text*/) {
  require_nfc();
  return {};
}

#endif

std::string with_plain_line_ends(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t end = text.find("\r\n");
    result += text.substr(0, end);
    if (end == std::string_view::npos) break;
    result += '\n';
    text.remove_prefix(end + 2);
  }
  return result;
}

}  // namespace oxrse::io
