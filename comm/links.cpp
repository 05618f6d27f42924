#include "comm/links.h"

#include <map>
#include <string>
#include <utility>

namespace oxrse::comm {
namespace {

std::map<std::string, Link, std::less<>>& links() {
  static std::map<std::string, Link, std::less<>> all;
  return all;
}

}  // namespace

void add_link(std::string_view device, Link link) { links()[std::string(device)] = std::move(link); }

Link find_link(std::string_view device) {
  const auto found = links().find(device);
  return found == links().end() ? nullptr : found->second;
}

}  // namespace oxrse::comm
