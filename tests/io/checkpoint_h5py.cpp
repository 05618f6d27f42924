// Checkpoints as h5py reads them, without anything of ours.

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "io/checkpoint/share.h"
#include "io/files.h"
#include "tests/catch.h"
#include "tests/io/checkpoint_ranks.h"

namespace oxrse::io {
namespace {

/// A Python that has h5py; "" when there is none. Debian's package belongs to Debian's Python, which need not be the first one.
std::string python_with_h5py() {
  for (const std::string python : {"python3", "/usr/bin/python3"}) {
    if (std::system((python + " -c 'import h5py' >/dev/null 2>&1").c_str()) == 0) return python;
  }
  return "";
}

/// The elements that the script has found of an entry.
std::vector<double> found(const std::filesystem::path& directory, const CheckpointEntry& entry) {
  const std::string bytes = read_file(directory / (entry.name + "." + entry.part));
  std::vector<double> values(bytes.size() / sizeof(double));
  std::copy_n(bytes.data(), values.size() * sizeof(double), reinterpret_cast<char*>(values.data()));
  return values;
}

/// Saves by `ranks` writers, what did not change as links to the step before when `incremental`.
void save(const std::filesystem::path& checkpoints, const SmallState& state, std::int64_t ranks, const SaveOptions& options) {
  const auto base = options.incremental ? base_for_links(checkpoints) : std::nullopt;
  const auto directory = begin_save(checkpoints, state.state.step);
  std::vector<ShardSummary> shards;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    shards.push_back(write_shard(directory, {rank, ranks}, state.state, share_of(state.entries, {rank, ranks}),
                                 {.compress = options.compress, .base = base ? &*base : nullptr}));
  }
  commit_save(checkpoints, state.state, shards, 0, [](const std::string& text) { fail("unexpected warning: {}", text); });
}

TEST_CASE("h5py puts every tensor together: of 1, 2 and 3 ranks, compressed and linked") {
  const std::string python = python_with_h5py();
  if (python.empty()) {
    WARN("h5py is not installed (Debian: python3-h5py): not compared with it");
    return;
  }
  const std::int64_t ranks = GENERATE(1, 2, 3);
  const bool compress = GENERATE(false, true);
  CAPTURE(ranks, compress);
  const TemporaryDirectory dir, out;
  SmallState state(1, 3001);
  save(dir.path(), state, ranks, {.compress = compress});
  state.state.step = 2;
  state.memory[0][5] ^= std::byte{1};
  save(dir.path(), state, ranks, {.compress = compress, .incremental = true});
  REQUIRE(std::ssize(read_manifest(dir / step_name(2)).files) > ranks);  // has links
  output_of(python + " " OXRSE_SOURCE_DIR "/tests/peers/read_checkpoint.py " + (dir / step_name(2)).string() + " " + out.path().string());
  for (const CheckpointEntry& entry : state.entries) {
    CAPTURE(entry.label());
    const std::vector<double> values = found(out.path(), entry);
    REQUIRE(std::ssize(values) == entry.tensor.count());
    visit_floating(entry.tensor.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* truth = entry.tensor.template data<T>();
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        double expected = 0;
        if constexpr (std::is_same_v<T, double>) {
          expected = truth[i];
        } else {
          expected = static_cast<double>(static_cast<float>(truth[i]));
        }
        wrong += values[i] == expected || (std::isnan(values[i]) && std::isnan(expected)) ? 0 : 1;
      }
      CHECK(wrong == 0);
    });
  }
}

}  // namespace
}  // namespace oxrse::io
