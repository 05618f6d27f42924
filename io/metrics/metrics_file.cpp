#include "io/metrics/metrics_file.h"

#include <string>

#include "io/files.h"

namespace oxrse::io {
namespace {

bool belongs(std::string_view line, std::int64_t last_step) {
  const Json values = Json::parse(line, nullptr, false);
  if (!values.is_object() || !values.contains("step") || !values.at("step").is_number_integer()) return false;
  return values.at("step").get<std::int64_t>() <= last_step;
}

/// `path`, after moving away what does not belong to the series up to `last_step`.
std::filesystem::path prepared(const std::filesystem::path& path, std::int64_t last_step) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  if (!std::filesystem::exists(path)) return path;
  const std::string before = read_file(path);
  std::string kept, dropped;
  for (std::size_t begin = 0; begin < before.size();) {
    const std::size_t newline = before.find('\n', begin);
    const std::string line = before.substr(begin, newline - begin);
    (newline != std::string::npos && belongs(line, last_step) ? kept : dropped) += line + "\n";
    begin = newline == std::string::npos ? before.size() : newline + 1;
  }
  if (dropped.empty()) return path;
  std::filesystem::path away = path;
  AppendFile(away.replace_extension(".dropped" + path.extension().string())).append(dropped);
  write_file_atomically(path, kept);
  return path;
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path, std::int64_t step) : file_(prepared(path, step)) {}

void MetricsFile::write(const Json& values) { file_.append(values.dump() + "\n"); }

}  // namespace oxrse::io
