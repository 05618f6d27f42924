// Checkpoints that all ranks (threads here) write together.

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>

#include "engine/train/checkpointer.h"
#include "io/checkpoint/compare.h"
#include "tests/catch.h"
#include "tests/comm/ranks.h"
#include "tests/train/fixture.h"

namespace oxrse::train {
namespace {

using Catch::Contains;
using comm::Communicator;
using testing::Fixture;

void fail_on_warning(const std::string& text) { fail("unexpected warning: {}", text); }

/// Parameters of several segments; as many micro-batches as any number of ranks below can share.
Config shared_config(bool async, std::int64_t zero) {
  Config config = testing::tiny_config();
  config.model["width"] = 64;
  config.model["vocab"] = 1031;
  config.train.global_batch = 6;
  config.train.micro_batch = 1;
  config.parallel.zero = zero;
  config.checkpoint = {.every = 1, .keep = 0, .async = async};
  return config;
}

/// Goes on from what `directory` holds, if anything, to `steps` steps, saving after every one. Returns what ranks ended with.
std::vector<std::string> run(int ranks, const Config& config, const std::filesystem::path& directory, std::int64_t steps) {
  return comm::testing::run_ranks(
      ranks,
      [&](Communicator& communicator) {
        Fixture fixture(config, 1, &communicator);
        Progress progress;
        if (io::holds_checkpoint(directory)) {
          progress = restore(fixture.training(), io::Checkpoint::open(directory, fail_on_warning), &fixture.data());
          fixture.training().share_weights();
        }
        communicator.barrier("all have looked");
        Checkpointer checkpointer(fixture.training(), config, {.files = directory}, "", &fixture.data(), [](const std::string&) {});
        checkpointer.resumed_at(progress.step);
        while (progress.step < steps) {
          fixture.step(progress.step++);
          checkpointer.collect();
          checkpointer.save(progress);
        }
        checkpointer.finish(progress);
      },
      {.choice = {.allowed = {}, .keep_tree = true}});
}

/// Where the tensors of the newest checkpoint differ.
void check_equal(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto one = io::Checkpoint::open(a, fail_on_warning), other = io::Checkpoint::open(b, fail_on_warning);
  CHECK(one.step() == other.step());
  CHECK(one.state() == other.state());
  for (const io::TensorDifference& d : io::compare(one, other)) FAIL_CHECK(d.label << ": " << d.structure << d.different << " differ");
}

}  // namespace

TEST_CASE("ranks save together what one rank saves, evenly by bytes", "[parallel][checkpoint]") {
  const bool async = GENERATE(false, true);
  const int ranks = GENERATE(2, 3);
  const std::int64_t zero = GENERATE(0, 1);
  io::TemporaryDirectory directory;
  for (const std::string& error : run(1, shared_config(async, 0), directory / "one", 3)) CHECK(error.empty());
  for (const std::string& error : run(ranks, shared_config(async, zero), directory / "some", 3)) CHECK(error.empty());
  check_equal(directory / "one", directory / "some");
  CHECK(io::step_directories(directory / "some").size() == 3);
  const auto saved = io::Checkpoint::open(directory / "some", fail_on_warning);
  std::map<std::int64_t, std::int64_t> bytes;
  std::int64_t total = 0;
  for (const io::StoredTensor& tensor : saved.tensors()) {
    total += tensor.bytes();
    for (const io::Piece& piece : tensor.pieces) bytes[piece.file] += piece.region.count() * size_of(tensor.dtype);
  }
  CHECK(std::ssize(bytes) == ranks);
  for (const auto& [file, some] : bytes) CHECK(static_cast<double>(some) < (zero == 0 ? 1.01 : 1.4) * static_cast<double>(total) / ranks);
}

TEST_CASE("a run goes on on other numbers of ranks and other ZeRO stages with the same bits", "[parallel][checkpoint]") {
  io::TemporaryDirectory directory;
  Config config = shared_config(true, 0);
  config.precision.compute = GENERATE("f32", "bf16");
  config.precision.stochastic_rounding = config.precision.compute == "bf16";
  for (const std::string& error : run(1, config, directory / "stayed", 6)) CHECK(error.empty());
  struct Leg {
    int ranks, zero, steps;
  };
  for (const Leg& leg : {Leg{2, 1, 1}, Leg{3, 1, 2}, Leg{1, 1, 3}, Leg{6, 0, 4}, Leg{2, 0, 5}, Leg{3, 1, 6}}) {
    config.parallel.zero = leg.zero;
    for (const std::string& error : run(leg.ranks, config, directory / "moved", leg.steps)) CHECK(error.empty());
  }
  check_equal(directory / "stayed", directory / "moved");
}

TEST_CASE("what fails on one rank fails on all, and the last checkpoint stays", "[parallel][checkpoint]") {
  io::TemporaryDirectory directory;
  const Config config = shared_config(GENERATE(false, true), 1);
  std::mutex mutex;
  int agreed = 0;
  const auto errors = comm::testing::run_ranks(3, [&](Communicator& communicator) {
    Fixture fixture(config, 1, &communicator);
    Checkpointer checkpointer(fixture.training(), config, {.files = directory.path()}, "", &fixture.data(), [](const std::string&) {});
    checkpointer.save({.step = 1});
    checkpointer.finish({.step = 1});
    for (const nn::Parameter& p : fixture.training().parameters().parameters()) {
      if (communicator.rank() == 1 && p.own.count() > 0) p.master.data<float>()[0] = std::numeric_limits<float>::infinity();
    }
    try {
      checkpointer.save({.step = 2});
      checkpointer.finish({.step = 2});
    } catch (const AgreedError& error) {
      const std::lock_guard lock(mutex);
      agreed += std::string(error.what()).find("rank 1: ") != std::string::npos ? 1 : 0;
    }
  });
  for (const std::string& error : errors) CHECK(error.empty());
  CHECK(agreed == 3);
  CHECK(io::Checkpoint::open(directory.path(), fail_on_warning).step() == 1);
  CHECK_FALSE(std::filesystem::exists(directory / (io::step_name(2) + ".tmp")));
}

}  // namespace oxrse::train
