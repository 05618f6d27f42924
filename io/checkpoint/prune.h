#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace oxrse::io {

/// What `prune` found and did with a step directory.
struct Pruned {
  std::filesystem::path directory;
  bool kept = true;
  std::vector<std::string> damage;  // empty: whole
};

/// Keeps the `keep` (at least 1) whole checkpoints that were saved last and removes all others, damaged ones and those set aside too; every
/// byte of what is kept is verified first. With `dry_run` nothing is removed. An Error, and nothing is removed, when none is whole. In the
/// order of saving, last first; then those with unreadable manifests, then those set aside.
std::vector<Pruned> prune(const std::filesystem::path& path, std::int64_t keep, bool dry_run);

}  // namespace oxrse::io
