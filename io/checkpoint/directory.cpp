#include "io/checkpoint/directory.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "io/file_stream.h"
#include "io/files.h"

namespace oxrse::io {
namespace {

constexpr std::string_view kPrefix = "step_";
constexpr std::size_t kStepDigits = 10;
constexpr std::string_view kSetAside = ".older";

/// The step a directory of this name holds.
std::optional<std::int64_t> step_in(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || digits.size() < kStepDigits || step_name(step) != name) return std::nullopt;
  return step;
}

/// The step in the name of a directory that was set aside.
std::optional<std::int64_t> step_set_aside(std::string_view name) {
  const std::size_t mark = name.find(kSetAside);
  if (mark == std::string_view::npos) return std::nullopt;
  const std::string_view number = name.substr(mark + kSetAside.size());
  const bool counted = std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  return counted ? step_in(name.substr(0, mark)) : std::nullopt;
}

/// The directories whose names hold a step, smallest step first.
std::vector<StepDirectory> list(const std::filesystem::path& checkpoints, std::optional<std::int64_t> (*step_of)(std::string_view)) {
  std::vector<StepDirectory> found;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(checkpoints, error); !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    const auto step = step_of(entry->path().filename().string());
    if (step && entry->is_directory(error)) found.push_back({*step, entry->path()});
  }
  require(!error, "cannot list {}: {}", checkpoints.string(), error.message());
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return found;
}

FoundCheckpoint look_at(const StepDirectory& directory) {
  FoundCheckpoint found{directory, std::nullopt, ""};
  try {
    found.manifest = read_named_manifest(directory.path);
  } catch (const Error& error) {
    found.damage = error.what();
  }
  return found;
}

}  // namespace

std::string step_name(std::int64_t step) { return fmt::format("{}{:0{}}", kPrefix, step, kStepDigits); }

std::vector<StepDirectory> step_directories(const std::filesystem::path& checkpoints) { return list(checkpoints, step_in); }

std::vector<StepDirectory> directories_set_aside(const std::filesystem::path& checkpoints) { return list(checkpoints, step_set_aside); }

std::filesystem::path name_to_set_aside(const std::filesystem::path& step_directory) {
  const std::string name = step_directory.string() + std::string(kSetAside);
  std::filesystem::path free = name;
  for (int i = 2; std::filesystem::exists(free); ++i) free = fmt::format("{}{}", name, i);
  return free;
}

Manifest read_named_manifest(const std::filesystem::path& step_directory) {
  Manifest manifest = read_manifest(step_directory);
  const auto path = step_directory.has_filename() ? step_directory : step_directory.parent_path();  // "step_0000000200/"
  const std::string name = path.filename().string();
  const auto step = step_in(name) ? step_in(name) : step_set_aside(name);
  require(!step || *step == manifest.step, "{} holds the checkpoint of step {}, not of step {}: it was renamed, give it the name {} back",
          path.string(), manifest.step, *step, step_name(manifest.step));
  return manifest;
}

std::vector<FoundCheckpoint> find_checkpoints(const std::filesystem::path& checkpoints) {
  std::vector<FoundCheckpoint> found;
  for (const StepDirectory& directory : step_directories(checkpoints)) found.push_back(look_at(directory));
  const auto rank = [](const FoundCheckpoint& f) { return std::pair(f.manifest ? f.manifest->sequence : -1, f.directory.step); };
  std::sort(found.begin(), found.end(), [&](const auto& a, const auto& b) { return rank(a) > rank(b); });
  return found;
}

bool has_its_files(const FoundCheckpoint& found) {
  std::error_code error;
  return found.manifest && std::all_of(found.manifest->files.begin(), found.manifest->files.end(), [&](const StoredFile& file) {
           const auto bytes = std::filesystem::file_size(found.directory.path / file.name, error);
           return !error && static_cast<std::int64_t>(bytes) == file.bytes;
         });
}

std::optional<std::filesystem::path> read_latest(const std::filesystem::path& checkpoints) {
  const std::filesystem::path file = checkpoints / "LATEST";
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return std::nullopt;
  std::string name = read_file(file);
  if (!name.empty() && name.back() == '\n') name.pop_back();
  if (!step_in(name) || !std::filesystem::is_directory(checkpoints / name, error)) return std::nullopt;
  return checkpoints / name;
}

void write_latest(const std::filesystem::path& checkpoints, std::int64_t step) {
  write_file_atomically(checkpoints / "LATEST", step_name(step) + "\n");
}

namespace {

/// Removes what was set aside when `keep` whole and complete checkpoints up to `step` were saved after it.
void remove_set_aside(const std::filesystem::path& checkpoints, const std::vector<FoundCheckpoint>& all, std::int64_t step,
                      std::int64_t keep) {
  for (const StepDirectory& directory : directories_set_aside(checkpoints)) {
    if (directory.step > step) continue;
    const FoundCheckpoint aside = look_at(directory);
    const std::int64_t newer = std::count_if(all.begin(), all.end(), [&](const FoundCheckpoint& found) {
      return found.directory.step <= step && found.manifest && !found.manifest->weights_only && has_its_files(found) &&
             (!aside.manifest || found.manifest->sequence > aside.manifest->sequence);
    });
    if (newer >= keep) remove_checkpoint(directory.path);
  }
}

}  // namespace

void apply_retention(const std::filesystem::path& checkpoints, std::int64_t step, std::int64_t keep) {
  if (keep == 0) return;
  const std::vector<FoundCheckpoint> all = find_checkpoints(checkpoints);
  std::array<std::int64_t, 2> kept{};  // complete, weights only
  const auto count = [&](const FoundCheckpoint& found) -> std::int64_t& { return kept[found.manifest && found.manifest->weights_only]; };
  for (const FoundCheckpoint& found : all) {
    if (found.directory.step == step) ++count(found);
  }
  for (const FoundCheckpoint& found : all) {
    if (found.directory.step >= step) continue;
    if (count(found) >= keep) {
      remove_checkpoint(found.directory.path);
    } else if (has_its_files(found)) {
      ++count(found);
    }
  }
  remove_set_aside(checkpoints, all, step, keep);
}

void remove_checkpoint(const std::filesystem::path& step_directory) {
  const std::filesystem::path doomed = step_directory.string() + ".tmp";
  std::filesystem::remove_all(doomed);
  rename_durably(step_directory, doomed);
  std::filesystem::remove_all(doomed);
}

}  // namespace oxrse::io
