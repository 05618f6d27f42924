#include "engine/train/peer_copies.h"

#include <algorithm>
#include <vector>

#include "engine/core/json.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checksum.h"
#include "io/file_stream.h"

namespace oxrse::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPart = std::int64_t{1} << 25U;  // of a file that is sent, bytes

/// The names and sizes of the files of a directory, in order.
Json listing(const fs::path& directory) {
  Json files = Json::array();
  for (const auto& entry : fs::directory_iterator(directory)) files.push_back({entry.path().filename().string(), entry.file_size()});
  std::sort(files.begin(), files.end());
  return files;
}

std::string name_of_run(const std::string& run) { return io::hex(io::xxh3(run)); }

}  // namespace

PeerCopies::PeerCopies(const io::CheckpointConfig& config, const std::string& run, std::int64_t bytes, comm::Communicator* ranks,
                       bool first_of_node)
    : ranks_(ranks) {
  try {
    const std::string name = name_of_run(run);
    path_ = io::MemoryDirectory::place(config.peer_dir, name);
    if (!first_of_node) return;
    memory_.emplace(config.peer_dir, name, config.peer_hours);
    memory_->require_room(2 * bytes);  // the last one stays until the next is whole
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

std::optional<fs::path> PeerCopies::directory() const {
  if (!memory_) return std::nullopt;
  return path_;
}

void PeerCopies::start_holder(const fs::path& program) const {
  if (memory_) memory_->start_holder(program);
}

std::optional<fs::path> PeerCopies::choose(std::int64_t newest_file, const io::Warn& warn) {
  const std::int64_t mine = memory_ ? newest_whole(warn) : -1;
  const std::vector<double> steps = of_all_ranks(static_cast<double>(mine), "copies in memory");
  const auto newest = std::max_element(steps.begin(), steps.end());
  const auto step = static_cast<std::int64_t>(*newest);
  const bool warns = ranks_ == nullptr || ranks_->rank() == 0;
  if (step < 0 || step < newest_file) {
    if (warns && step >= 0) warn(fmt::format("the copy in memory is of step {}, before that of the files: it is not used", step));
    if (warns && step < 0 && newest_file >= 0)
      warn(fmt::format("{} holds no whole copy of this run: it goes on from files", path_.string()));
    discard();
    return std::nullopt;
  }
  const fs::path chosen = path_ / io::step_name(step);
  if (ranks_ != nullptr) send(chosen, static_cast<int>(newest - steps.begin()), memory_ && mine != step);
  return chosen;
}

void PeerCopies::discard() const {
  if (memory_) memory_->clear();
}

void PeerCopies::end() {
  if (memory_) memory_->remove();
  memory_.reset();
}

std::int64_t PeerCopies::newest_whole(const io::Warn& warn) const {
  if (!io::holds_checkpoint(path_)) return -1;
  try {
    return io::Checkpoint::open(path_, warn, io::Need::Everything).step();
  } catch (const Error&) {  // warn was told what is damaged
    return -1;
  }
}

/// Sends the files of a step directory of rank `root` to the ranks of nodes that lack it. Every rank takes part.
void PeerCopies::send(const fs::path& step_directory, int root, bool lacking) const {
  const std::vector<double> lack = of_all_ranks(lacking ? 1 : 0, "copies in memory");
  if (std::count(lack.begin(), lack.end(), 1.0) == 0) return;
  const bool sends = ranks_->rank() == root;
  const Json files = Json::parse(ranks_->broadcast(sends ? listing(step_directory).dump() : "", root, "files of a copy in memory"));
  const fs::path unfinished = step_directory.string() + ".tmp";
  if (lacking) {
    discard();
    fs::create_directory(unfinished);
  }
  for (const Json& file : files) {
    const std::string name = file.at(0);
    const std::int64_t bytes = file.at(1);
    std::optional<io::InputFile> in;
    std::optional<io::OutputFile> out;
    if (sends) in.emplace(step_directory / name);
    if (lacking) out.emplace(unfinished / name);
    for (std::int64_t begin = 0; begin < bytes; begin += kPart) {
      std::string part;
      if (sends) {
        part.resize(static_cast<std::size_t>(std::min(kPart, bytes - begin)));
        in->read(std::as_writable_bytes(std::span(part)), begin);
      }
      part = ranks_->broadcast(part, root, "a copy in memory");
      if (lacking) out->write(part);
    }
    if (lacking) out->close();
  }
  if (lacking) io::rename_durably(unfinished, step_directory);
  ranks_->barrier("a copy in memory");  // other ranks of the node read it
}

std::vector<double> PeerCopies::of_all_ranks(double mine, const char* what) const {
  if (ranks_ == nullptr) return {mine};
  std::vector<double> all(static_cast<std::size_t>(ranks_->size()));
  all[static_cast<std::size_t>(ranks_->rank())] = mine;
  ranks_->all_reduce(all, what);
  return all;
}

}  // namespace oxrse::train
