#include "engine/train/peer_copies.h"

#include <algorithm>
#include <set>

#include "engine/train/failure.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checksum.h"
#include "io/file_stream.h"
#include "io/files.h"

namespace oxrse::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPart = std::int64_t{1} << 25U;  // of a file that is sent, bytes

std::string name_of_run(const std::string& run) { return io::hex(io::xxh3(run)); }

Json identity_of(const io::Manifest& manifest) {
  Json files = Json::array();
  for (const io::StoredFile& file : manifest.files) files.push_back({file.name, file.bytes, file.xxh3});
  return files;
}

}  // namespace

PeerCopies::PeerCopies(const io::CheckpointConfig& config, const std::string& run, std::int64_t bytes, comm::Communicator* ranks,
                       int first_of_node)
    : ranks_(ranks), nodes_(ranks, first_of_node) {
  std::vector<double> saved(static_cast<std::size_t>(nodes_.ranks()));  // by all ranks
  saved[static_cast<std::size_t>(nodes_.rank())] = static_cast<double>(bytes);
  if (ranks_ != nullptr) ranks_->all_reduce(saved, "sizes of copies in memory");
  double kept = 0;
  for (int r = 0; r < nodes_.ranks(); ++r) kept += nodes_.keeps(r) ? saved[static_cast<std::size_t>(r)] : 0;
  try {
    const std::string name = name_of_run(run);
    path_ = io::MemoryDirectory::place(config.peer_dir, name);
    if (!nodes_.leads()) return;
    memory_.emplace(config.peer_dir, name, config.peer_hours);
    memory_->require_room(2 * static_cast<std::int64_t>(kept));  // the last one stays until the next is whole
  } catch (const Error& error) {
    fail("checkpoint.peer: {}; make room there, set checkpoint.peer_dir to another file system in memory, or checkpoint.peer to false",
         error.what());
  }
}

void PeerCopies::forget(const io::CheckpointConfig& config, const std::string& run) {
  std::error_code ignored;
  if (!fs::exists(config.peer_dir, ignored)) return;
  fs::remove_all(io::MemoryDirectory::place(config.peer_dir, name_of_run(run)), ignored);
}

void PeerCopies::start_holder(const fs::path& program) const {
  if (memory_) memory_->start_holder(program);
}

std::optional<fs::path> PeerCopies::choose(std::int64_t newest_file, const io::Warn& warn) {
  const auto tell = [&](const std::string& text) {
    if (speaks()) warn(text);
  };
  for (const Copy& copy : found_on_all(warn)) {
    const auto missing = std::find(copy.holders.begin(), copy.holders.end(), -1);
    if (missing != copy.holders.end()) {
      tell(fmt::format("no node has {} of the copy of step {} in memory: this copy is not used",
                       copy.files.at(static_cast<std::size_t>(missing - copy.holders.begin())).at(0).get<std::string>(), copy.step));
    } else if (!chosen_ || chosen_->step < copy.step) {
      chosen_ = copy;
    }
  }
  if (!chosen_ && newest_file >= 0) tell(fmt::format("{} holds no whole copy of this run: it goes on from files", path_.string()));
  if (chosen_ && chosen_->step < newest_file) {
    tell(fmt::format("the copy in memory is of step {}, before that of the files: it is not used", chosen_->step));
    chosen_.reset();
  }
  if (!chosen_ || !place_manifest(warn)) {
    discard();
    return std::nullopt;
  }
  return path_ / io::step_name(chosen_->step);
}

/// What this node has: step, files and which of these are whole.
Json PeerCopies::found_here(const io::Warn& warn) const {
  Json found = Json::array();
  if (!memory_) return found;
  for (const io::FoundCheckpoint& copy : io::find_checkpoints(path_)) {
    if (copy.manifest) {
      found.push_back({copy.directory.step, identity_of(*copy.manifest), io::whole_files(copy.directory.path, *copy.manifest, warn)});
    } else {
      warn(copy.damage + "; this copy is not used");
    }
  }
  return found;
}

std::vector<PeerCopies::Copy> PeerCopies::found_on_all(const io::Warn& warn) const {
  std::vector<Copy> copies;
  const std::string here = found_here(warn).dump();
  for (const int node : nodes_.all()) {
    for (const Json& found : Json::parse(from(node, here))) {
      const auto same = [&](const Copy& copy) { return copy.step == found.at(0) && copy.files == found.at(1); };
      auto copy = std::find_if(copies.begin(), copies.end(), same);
      if (copy == copies.end()) {
        copy = copies.insert(copy, {.step = found.at(0), .files = found.at(1), .manifest_at = node, .holders = {}, .here = {}});
        copy->holders.assign(copy->files.size(), -1);
        copy->here.assign(copy->files.size(), false);
      }
      copy->manifest_here |= node == nodes_.mine();
      for (std::size_t i = 0; i < copy->files.size(); ++i) {
        if (!found.at(2).at(i).get<bool>()) continue;
        if (copy->holders[i] < 0) copy->holders[i] = node;
        if (node == nodes_.mine()) copy->here[i] = true;
      }
    }
  }
  return copies;
}

/// Leaves on each node what is whole of the chosen copy and its manifest, nothing else.
bool PeerCopies::place_manifest(const io::Warn& warn) {
  const fs::path place = path_ / io::step_name(chosen_->step), manifest = place / io::kManifestName;
  const std::string text = from(chosen_->manifest_at, nodes_.rank() == chosen_->manifest_at ? io::read_file(manifest) : "");
  const auto tidy = [&] {
    for (const io::StepDirectory& other : io::step_directories(path_)) {
      if (other.path != place || !chosen_->manifest_here) fs::remove_all(other.path);
    }
    fs::create_directory(place);
    if (!chosen_->manifest_here) io::write_file_atomically(manifest, text);
    for (std::size_t i = 0; i < chosen_->files.size(); ++i) {
      if (!chosen_->here[i]) fs::remove(place / chosen_->files[i].at(0).get<std::string>());
    }
  };
  return agree(memory_ ? failure_of(tidy) : "", warn);
}

bool PeerCopies::fetch(const std::vector<bool>& needed, const io::Warn& warn) {
  Json lacking = Json::array();
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (needed[i] && !chosen_->here[i]) lacking.push_back(i);
  }
  std::vector<std::set<int>> wanted(needed.size());  // the nodes that want each file
  for (int rank = 0; rank < nodes_.ranks(); ++rank) {
    for (const Json& i : Json::parse(from(rank, lacking.dump()))) wanted.at(i.get<std::size_t>()).insert(nodes_.node_of(rank));
  }
  std::string failure;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].empty()) continue;
    send(i, chosen_->files[i].at(0), chosen_->files[i].at(1), memory_ && wanted[i].contains(nodes_.mine()), failure);
  }
  if (agree(failure, warn)) return true;
  discard();
  return false;
}

/// Sends a file from a node that has it. Every rank takes part; what fails is added to `failure`.
void PeerCopies::send(std::size_t file, const std::string& name, std::int64_t bytes, bool wanted_here, std::string& failure) const {
  const fs::path path = path_ / io::step_name(chosen_->step) / name;
  const int root = chosen_->holders[file];
  std::optional<io::InputFile> in;
  std::optional<io::OutputFile> out;
  const auto attempt = [&](const auto& work) {
    if (failure.empty()) failure = failure_of(work);
  };
  if (nodes_.rank() == root) attempt([&] { in.emplace(path); });
  if (wanted_here) attempt([&] { out.emplace(path); });
  for (std::int64_t begin = 0; begin < bytes; begin += kPart) {
    std::string part(nodes_.rank() == root ? static_cast<std::size_t>(std::min(kPart, bytes - begin)) : 0, '\0');
    if (in) attempt([&] { in->read(std::as_writable_bytes(std::span(part)), begin); });
    part = from(root, part);
    if (out) attempt([&] { out->write(part); });
  }
  if (out) attempt([&] { out->close(); });
}

/// Whether all ranks were without failure; `warn` is told what this one's was.
bool PeerCopies::agree(const std::string& failure, const io::Warn& warn) {
  double failed[] = {failure.empty() ? 0.0 : 1.0};
  if (ranks_ != nullptr) ranks_->all_reduce(failed, "copies in memory");
  if (!failure.empty()) warn(fmt::format("copies in memory are not used: {}", failure));
  return failed[0] == 0;
}

void PeerCopies::discard() {
  chosen_.reset();
  if (memory_) memory_->clear();
}

void PeerCopies::end() {
  if (memory_) memory_->remove();
  memory_.reset();
}

std::string PeerCopies::from(int rank, const std::string& text) const {
  return ranks_ == nullptr ? text : ranks_->broadcast(text, rank, "copies in memory");
}

}  // namespace oxrse::train
