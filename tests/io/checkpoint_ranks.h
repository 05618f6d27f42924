#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "io/checkpoint/save.h"
#include "tests/io/checkpoint_fixture.h"

namespace oxrse::io {

/// The part of a tensor that rank `rank` of `ranks` has.
using Layout = std::function<Region(const std::vector<std::int64_t>& shape, std::int64_t rank, std::int64_t ranks)>;

/// ZeRO: equal ranges, the last of which may be short or empty.
inline Region zero_layout(const std::vector<std::int64_t>& shape, std::int64_t rank, std::int64_t ranks) {
  const std::int64_t count = Region::whole(shape).count(), share = (count + ranks - 1) / ranks;
  return Region::range(std::min(rank * share, count), std::min((rank + 1) * share, count));
}

/// Tensor parallelism along one dimension; a rank may get nothing.
inline Region box_layout(const std::vector<std::int64_t>& shape, std::size_t dim, std::int64_t rank, std::int64_t ranks) {
  Region region = Region::whole(shape);
  if (shape.empty()) return rank == 0 ? region : Region::range(1, 1);
  const std::int64_t size = shape[dim];
  region.offset[dim] = size * rank / ranks;
  region.shape[dim] = size * (rank + 1) / ranks - region.offset[dim];
  return region;
}
inline Region row_layout(const std::vector<std::int64_t>& shape, std::int64_t rank, std::int64_t ranks) {
  return box_layout(shape, 0, rank, ranks);
}
inline Region column_layout(const std::vector<std::int64_t>& shape, std::int64_t rank, std::int64_t ranks) {
  return box_layout(shape, shape.empty() ? 0 : shape.size() - 1, rank, ranks);
}

/// What one rank holds of a state, in memory of its own.
struct RankState {
  std::vector<std::vector<std::byte>> memory;
  std::vector<CheckpointEntry> entries;

  /// Room for its part of every tensor of `whole`.
  RankState(const std::vector<CheckpointEntry>& whole, const Layout& layout, std::int64_t rank, std::int64_t ranks) {
    for (const CheckpointEntry& entry : whole) {
      const std::vector<std::int64_t> shape = entry.place().shape;
      const Region region = layout(shape, rank, ranks);
      memory.emplace_back(static_cast<std::size_t>(region.count() * size_of(entry.tensor.dtype())), std::byte{0xEE});
      entries.push_back(
          {entry.name, entry.part, ConstTensor(memory.back().data(), entry.tensor.dtype(), region.shape), {}, Placement{shape, region}});
    }
  }
  /// Copies its part out of the whole tensors, element by element.
  void copy_from(const std::vector<CheckpointEntry>& whole) {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const auto size = static_cast<std::size_t>(size_of(whole[i].tensor.dtype()));
      const Placement place = *entries[i].placement;
      for_each_common_run(Runs(place.region, place.shape), Runs(Region::whole(place.shape), place.shape),
                          [&](std::int64_t here, std::int64_t there, std::int64_t n) {
                            std::memcpy(memory[i].data() + static_cast<std::size_t>(here) * size,
                                        whole[i].tensor.address() + static_cast<std::size_t>(there) * size,
                                        static_cast<std::size_t>(n) * size);
                          });
    }
  }
  void load(const Checkpoint& checkpoint) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      checkpoint.read(entries[i].name, entries[i].part, *entries[i].placement,
                      Tensor(memory[i].data(), entries[i].tensor.dtype(), entries[i].tensor.sizes()));
    }
  }
};

/// What one rank writes.
using EntriesOf = std::function<std::vector<CheckpointEntry>(std::int64_t rank, std::int64_t ranks)>;

/// Writes the text that `f` makes to a pipe; false when either fails.
inline bool send(int pipe, const std::function<std::string()>& f) {
  try {
    const std::string text = f();
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t n = ::write(pipe, text.data() + done, text.size() - done);
      if (n <= 0) return false;
      done += static_cast<std::size_t>(n);
    }
    return true;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return false;
  }
}

/// Writes the shards in processes of their own, which send their summaries through pipes.
inline std::vector<ShardSummary> write_shards(const std::filesystem::path& directory, const CheckpointState& state, std::int64_t ranks,
                                              const EntriesOf& entries_of) {
  std::vector<int> results;
  std::vector<pid_t> children;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    int ends[2];
    require(::pipe2(ends, O_CLOEXEC) == 0, "no pipe");
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(send(ends[1], [&] { return to_json(write_shard(directory, {rank, ranks}, state, entries_of(rank, ranks))).dump(); }) ? 0 : 1);
    }
    ::close(ends[1]);
    results.push_back(ends[0]);
    children.push_back(child);
  }
  std::vector<ShardSummary> summaries;
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    std::string text(1 << 16, '\0');
    std::size_t size = 0;
    while (const ssize_t n = ::read(results[rank], text.data() + size, text.size() - size)) {
      require(n > 0, "no result of rank {}", rank);
      size += static_cast<std::size_t>(n);
      if (size == text.size()) text.resize(2 * size);
    }
    ::close(results[rank]);
    int status = 0;
    ::waitpid(children[rank], &status, 0);
    require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rank {} failed", rank);
    summaries.push_back(shard_summary(Json::parse(text.substr(0, size))));
  }
  return summaries;
}

/// A whole save by `ranks` processes.
inline void save_by(const std::filesystem::path& checkpoints, const CheckpointState& state, std::int64_t ranks, const EntriesOf& entries_of,
                    std::int64_t keep = 0) {
  const auto directory = begin_save(checkpoints, state.step);
  commit_save(checkpoints, state, write_shards(directory, state, ranks, entries_of), keep,
              [](const std::string& text) { fail("unexpected warning: {}", text); });
}

/// For `save_by`: every rank has its part of `whole`. The parts stay in `keep_alive`.
inline EntriesOf parts_of(const SmallState& whole, const Layout& layout, std::vector<RankState>& keep_alive) {
  return [&whole, layout, &keep_alive](std::int64_t rank, std::int64_t ranks) {
    keep_alive.emplace_back(whole.entries, layout, rank, ranks);
    keep_alive.back().copy_from(whole.entries);
    return keep_alive.back().entries;
  };
}

}  // namespace oxrse::io
