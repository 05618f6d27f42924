#include "tools/option_checks.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <regex>

namespace oxrse::tools {
namespace {

std::string why_not_writable(const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (file.empty()) return "expected a file, found \"\"";
  if (fs::is_directory(file, ignored)) return fmt::format("{} is a directory; name a file", file);
  const fs::path parent = fs::path(file).has_parent_path() ? fs::path(file).parent_path() : fs::path(".");
  if (!fs::is_directory(parent, ignored)) return fmt::format("{} cannot be written: {} is no directory", file, parent.string());
  const bool there = fs::exists(file, ignored);
  if (access(there ? file.c_str() : parent.c_str(), W_OK) == 0) return "";
  return fmt::format("{} cannot be written: {}", file, std::strerror(errno));
}

}  // namespace

CLI::Validator not_empty(const std::string& expected) {
  const auto check = [expected](const std::string& text) { return text.empty() ? fmt::format("expected {}, found \"\"", expected) : ""; };
  return {check, ""};
}

CLI::Validator regular_expression() {
  return {[](const std::string& text) -> std::string {
            try {
              const std::regex expression(text);
            } catch (const std::regex_error& error) {
              return fmt::format("\"{}\" is no regular expression: {}", text, error.what());
            }
            return "";
          },
          ""};
}

CLI::Validator writable_file() {
  return {[](const std::string& file) { return why_not_writable(file); }, ""};
}

}  // namespace oxrse::tools
