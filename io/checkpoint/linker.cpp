#include "io/checkpoint/linker.h"

#include <algorithm>
#include <utility>

#include "io/checkpoint/directory.h"
#include "io/checksum.h"

namespace oxrse::io {
namespace {

/// A linked file keeps the name that says where it was written.
std::string linked_name(const BaseCheckpoint& base, const std::string& name) {
  return name.starts_with("step_") ? name : step_name(base.manifest.step) + "_" + name;
}

const StoredTensor* find(const Manifest& manifest, const CheckpointEntry& entry) {
  const auto found = std::find_if(manifest.tensors.begin(), manifest.tensors.end(),
                                  [&](const StoredTensor& t) { return t.name == entry.name && t.part == entry.part; });
  return found == manifest.tensors.end() ? nullptr : &*found;
}

}  // namespace

std::optional<StoredTensor> Linker::link(const CheckpointEntry& entry, const ConstTensor& elements) {
  const StoredTensor* before = base_ != nullptr ? find(base_->manifest, entry) : nullptr;
  const Placement place = entry.place();
  if (before == nullptr || before->dtype != elements.dtype() || before->shape != place.shape || elements.count() == 0) return std::nullopt;
  const auto piece = std::find_if(before->pieces.begin(), before->pieces.end(), [&](const Piece& p) { return p.region == place.region; });
  if (piece == before->pieces.end()) return std::nullopt;
  if (hex(xxh3(std::span(elements.address(), static_cast<std::size_t>(elements.bytes())))) != piece->xxh3) return std::nullopt;
  const auto index = link_file(static_cast<std::size_t>(piece->file));
  if (!index) return std::nullopt;
  StoredTensor linked{entry.name, entry.part, before->dtype, before->shape, {*piece}};
  linked.pieces.front().file = static_cast<std::int64_t>(*index) + 1;
  return linked;
}

/// The index in files_ of a file of the base, which is verified and linked to the first time.
std::optional<std::size_t> Linker::link_file(std::size_t base_file) {
  const auto [known, is_new] = index_.emplace(base_file, std::nullopt);
  if (!is_new) return known->second;
  StoredFile file = base_->manifest.files[base_file];
  const std::filesystem::path from = base_->directory / file.name;
  file.name = linked_name(*base_, file.name);
  const std::filesystem::path to = directory_ / file.name;
  if (hex(xxh3_of_file(from)) != file.xxh3) return std::nullopt;
  std::error_code error, ignored;
  std::filesystem::create_hard_link(from, to, error);
  if (error && !std::filesystem::equivalent(from, to, ignored)) return std::nullopt;  // another rank may have made it
  files_.push_back(file);
  return known->second = files_.size() - 1;
}

}  // namespace oxrse::io
