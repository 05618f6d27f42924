#include "benchmarks/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "benchmarks/samples.h"
#include "engine/nn/model.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/snapshot.h"
#include "io/checksum.h"
#include "io/file_stream.h"
#include "io/files.h"

namespace oxrse::bench {
namespace {

constexpr int kCopies = 6;  // of each kind in a round

/// A state of random bits in memory of its own, in the parts of `rank` of `ranks` as ZeRO cuts them.
class State {
 public:
  State(const nn::ParameterStore& store, std::int64_t rank, std::int64_t ranks) : arena_(Arena::planned()) {
    const auto make = [&] {
      entries_.clear();
      for (const nn::Parameter& p : store.parameters()) {
        const std::int64_t count = p.count(), share = (count + ranks - 1) / ranks;
        const io::Region range = io::Region::range(std::min(rank * share, count), std::min((rank + 1) * share, count));
        for (const char* part : {"master", "exp_avg", "exp_avg_sq"}) {
          entries_.push_back({p.name, part, arena_.make(DType::F32, range.shape, Memory::Optimizer), {}, io::Placement{p.sizes, range}});
        }
      }
    };
    make();
    arena_ = Arena::allocated(arena_.peak().total());
    make();
    std::memset(memory().data(), 0, memory().size());
  }

  void randomize() {
    std::mt19937_64 random(1);
    for (const io::CheckpointEntry& entry : entries_) {
      auto* values = const_cast<float*>(entry.tensor.data<float>());
      for (std::int64_t i = 0; i < entry.tensor.count(); ++i) values[i] = static_cast<float>(random() >> 40U) * 0x1p-24F;
    }
  }
  void load(const std::filesystem::path& checkpoints) {
    io::Checkpoint::load(
        checkpoints, [](const std::string& text) { fail("{}", text); }, io::Need::Everything,
        [&](const io::Checkpoint& checkpoint) {
          for (const io::CheckpointEntry& e : entries_) {
            const Tensor out(const_cast<std::byte*>(e.tensor.address()), e.tensor.dtype(), e.tensor.sizes());
            checkpoint.read(e.name, e.part, *e.placement, out);
          }
        });
  }
  [[nodiscard]] const std::vector<io::CheckpointEntry>& entries() const { return entries_; }
  /// All tensors, one behind the other.
  [[nodiscard]] std::span<std::byte> memory() const {
    auto* begin = const_cast<std::byte*>(entries_.front().tensor.address());
    const ConstTensor& last = entries_.back().tensor;
    return {begin, static_cast<std::size_t>(last.address() + last.bytes() - begin)};
  }
  [[nodiscard]] std::int64_t bytes() const {
    std::int64_t bytes = 0;
    for (const io::CheckpointEntry& entry : entries_) bytes += entry.tensor.bytes();
    return bytes;
  }

 private:
  Arena arena_;
  std::vector<io::CheckpointEntry> entries_;
};

double seconds(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Takes the files in a directory out of the system's cache.
void evict(const std::filesystem::path& directory) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
}

void write_plainly(const std::filesystem::path& path, const State& state) {
  io::OutputFile file(path);
  for (const io::CheckpointEntry& e : state.entries()) file.write({e.tensor.address(), static_cast<std::size_t>(e.tensor.bytes())});
  file.close();
}

void read_plainly(const std::filesystem::path& path, const State& into) {
  const io::InputFile file(path);
  std::int64_t position = 0;
  for (const io::CheckpointEntry& e : into.entries()) {
    file.read({const_cast<std::byte*>(e.tensor.address()), static_cast<std::size_t>(e.tensor.bytes())}, position);
    position += e.tensor.bytes();
  }
}

/// By one memcpy for each thread, so large that it goes past the caches.
void copy(const State& from, const State& to, int threads) {
  const auto source = from.memory(), target = to.memory();
  const std::size_t share = (source.size() + static_cast<std::size_t>(threads) - 1) / static_cast<std::size_t>(threads);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::size_t begin = 0; begin < source.size(); begin += share) {
    std::memcpy(target.data() + begin, source.data() + begin, std::min(share, source.size() - begin));
  }
}

std::uint64_t checksum(const State& state) {
  std::uint64_t all = 0;
  for (const io::CheckpointEntry& e : state.entries()) {
    all ^= io::xxh3(std::span(e.tensor.address(), static_cast<std::size_t>(e.tensor.bytes())));
  }
  return all;
}

/// By one writer, or by two with what each has.
void save(const std::filesystem::path& checkpoints, const std::vector<const State*>& ranks) {
  io::CheckpointState state;
  const auto directory = io::begin_save(checkpoints, 0);
  std::vector<io::ShardSummary> shards;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    shards.push_back(io::write_shard(directory, {static_cast<std::int64_t>(rank), std::ssize(ranks)}, state, ranks[rank]->entries()));
  }
  io::commit_save(checkpoints, state, shards, 1, [](const std::string& text) { fail("{}", text); });
}

/// The slowest of three ranks that load side by side.
double load_side_by_side(const std::filesystem::path& checkpoints, std::vector<State>& ranks) {
  return seconds([&] {
    std::vector<std::thread> threads;
    for (State& rank : ranks) threads.emplace_back([&] { rank.load(checkpoints); });
    for (std::thread& thread : threads) thread.join();
  });
}

}  // namespace

CheckpointResult run_checkpoint(const nn::ModelConfig& model, const std::filesystem::path& directory, std::int64_t rounds, int threads) {
  nn::ParameterStore store;
  const nn::Model layers(model, store);
  const std::filesystem::path scratch = io::temporary_name(directory / "oxrse-bench-checkpoint");
  const std::filesystem::path one = scratch / "one", two = scratch / "two", plain = scratch / "plain";
  std::filesystem::create_directories(scratch);
  State state(store, 0, 1), other(store, 0, 1);
  state.randomize();
  io::Snapshot snapshot(state.entries(), threads);
  std::vector<double> saves, writes, loads, reads, reshards, stalls, copies, checksums;
  {
    std::vector<State> halves;
    for (const std::int64_t rank : {0, 1}) halves.emplace_back(store, rank, 2).randomize();
    save(two, {&halves[0], &halves[1]});
  }
  std::vector<State> thirds;
  for (const std::int64_t rank : {0, 1, 2}) thirds.emplace_back(store, rank, 3).randomize();
  for (std::int64_t round = 0; round < rounds; ++round) {
    std::filesystem::remove_all(one);
    std::filesystem::remove(plain);
    for (const bool saving : {round % 2 == 0, round % 2 != 0}) {
      saving ? saves.push_back(seconds([&] { save(one, {&state}); })) : writes.push_back(seconds([&] { write_plainly(plain, state); }));
    }
    const std::function<void()> readers[] = {[&] { reads.push_back(seconds([&] { read_plainly(plain, other); })); },
                                             [&] { loads.push_back(seconds([&] { other.load(one); })); },
                                             [&] { reshards.push_back(load_side_by_side(two, thirds)); }};
    for (std::size_t i = 0; i < std::size(readers);
         ++i) {  // each first in its turn, as above: the disk still has to do with what was written before
      evict(scratch);
      readers[(i + static_cast<std::size_t>(round)) % std::size(readers)]();
    }
    for (int i = 0; i < kCopies; ++i) {  // in turns: what comes first after the files were read is slower, whatever it is
      for (const bool snapshots : {i % 2 == 0, i % 2 != 0}) {
        snapshots ? stalls.push_back(seconds([&] { snapshot.take(state.entries()); }))
                  : copies.push_back(seconds([&] { copy(state, other, threads); }));
      }
    }
    checksums.push_back(seconds([&] { require(checksum(state) == checksum(other), "a copy differs"); }) / 2);
  }
  std::filesystem::remove_all(scratch);
  const auto middle = [](const std::vector<double>& times) { return summarize(times).median; };
  return {.bytes = state.bytes(),
          .save = middle(saves),
          .plain_write = middle(writes),
          .load = middle(loads),
          .plain_read = middle(reads),
          .reshard_load = middle(reshards),
          .stall = middle(stalls),
          .copy = middle(copies),
          .checksums = middle(checksums),
          .rounds = rounds};
}

std::string describe(const CheckpointResult& r) {
  const auto line = [&](const char* what, double seconds, const char* with, double least) {
    return fmt::format("{:<12}{:>8.0f} ms {:>7.2f} GB/s   {} {:.0f} ms: {:.0f}% of its speed, {:.2f} times its time\n", what, seconds * 1e3,
                       static_cast<double>(r.bytes) / seconds * 1e-9, with, least * 1e3, 100 * least / seconds, seconds / least);
  };
  return fmt::format("state       {:.2f} GB, {} rounds, medians\n", static_cast<double>(r.bytes) * 1e-9, r.rounds) +
         line("save", r.save, "write() and fsync", r.plain_write) + line("load", r.load, "read()", r.plain_read) +
         line("load 2 -> 3", r.reshard_load, "read()", r.plain_read) + line("async stall", r.stall, "memcpy", r.copy) +
         fmt::format("checksums   {:>8.0f} ms, {:.1f}% of a save\n", r.checksums * 1e3, 100 * r.checksums / r.save);
}

Json to_json(const CheckpointResult& r) {
  return {{"bytes", r.bytes},
          {"save_s", r.save},
          {"plain_write_s", r.plain_write},
          {"load_s", r.load},
          {"plain_read_s", r.plain_read},
          {"load_2_to_3_s", r.reshard_load},
          {"stall_s", r.stall},
          {"memcpy_s", r.copy},
          {"checksums_s", r.checksums},
          {"rounds", r.rounds}};
}

}  // namespace oxrse::bench
