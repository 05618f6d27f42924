// Checkpoints that all ranks (threads here) write together.

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>

#include "engine/train/checkpointer.h"
#include "io/checkpoint/compare.h"
#include "io/files.h"
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

/// Goes on from what `directory` holds, if anything, to `steps` steps, saving when the config says. Returns what ranks ended with.
std::vector<std::string> run(int ranks, const Config& config, const std::filesystem::path& directory, std::int64_t steps) {
  return comm::testing::run_ranks(
      ranks,
      [&](Communicator& communicator) {
        Fixture fixture(config, 1, &communicator);
        Progress progress;
        if (io::holds_checkpoint(directory, io::Need::Everything)) {
          progress = restore(fixture.training(), io::Checkpoint::open(directory, fail_on_warning, io::Need::Everything), &fixture.data());
          fixture.training().share_weights();
        }
        communicator.barrier("all have looked");
        Checkpointer checkpointer(fixture.training(), config, {.files = directory}, "", &fixture.data(), [](const std::string&) {});
        checkpointer.resumed_at(progress.step);
        while (progress.step < steps) {
          fixture.step(progress.step++);
          checkpointer.collect();
          const io::CheckpointConfig& when = config.checkpoint;
          if (progress.step % when.every == 0) {
            checkpointer.save(progress);
          } else if (when.weights_every > 0 && progress.step % when.weights_every == 0) {
            checkpointer.save(progress, true);
          }
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

TEST_CASE("every kind of checkpoint, of 1, 2 and 3 ranks: whole, and a run goes on from it", "[parallel][checkpoint]") {
  const int ranks = GENERATE(1, 2, 3);
  const std::string kind = GENERATE("compressed", "incremental", "incremental and compressed", "selective", "bf16 moments");
  CAPTURE(ranks, kind);
  io::TemporaryDirectory directory;
  Config config = shared_config(true, ranks == 1 ? 0 : 1);
  config.optimizer.lr = config.optimizer.min_lr = 0;  // moments change, weights can be linked to
  for (const std::string& error : run(1, config, directory / "plain", 7)) CHECK(error.empty());
  config.checkpoint.compress = kind.find("compressed") != std::string::npos;
  config.checkpoint.incremental = kind.find("incremental") != std::string::npos;
  config.checkpoint.moments = kind == "bf16 moments" ? "bf16" : "f32";
  if (kind == "selective") config.checkpoint = {.every = 3, .keep = 0, .weights_every = 1};
  for (const std::string& error : run(ranks, config, directory / "kind", 5)) CHECK(error.empty());
  std::filesystem::remove_all(directory / "kind" / io::step_name(5));  // of the end: as after a kill
  io::put(directory / "kind" / "LATEST", io::step_name(4) + "\n");
  const auto saved = io::step_directories(directory / "kind");
  CHECK(saved.size() == 4);
  for (const io::StepDirectory& step : saved) {
    const io::Manifest manifest = io::read_manifest(step.path);
    CHECK(manifest.world == ranks);
    CHECK(io::damage_of(step.path).empty());
    CHECK(manifest.weights_only == (kind == "selective" && step.step != 3));
    CHECK((std::ssize(manifest.files) > ranks) == (config.checkpoint.incremental && step.step > 1));  // has links
    const bool compressed = std::any_of(manifest.tensors.begin(), manifest.tensors.end(), [](const io::StoredTensor& t) {
      return std::any_of(t.pieces.begin(), t.pieces.end(), [](const io::Piece& piece) { return piece.compressed; });
    });
    CHECK(compressed == config.checkpoint.compress);
    const auto halved =
        std::count_if(manifest.tensors.begin(), manifest.tensors.end(), [](const io::StoredTensor& t) { return t.dtype == DType::BF16; });
    CHECK(halved == (kind == "bf16 moments" ? std::ssize(manifest.tensors) / 3 * 2 : 0));
    for (const io::StoredFile& file : manifest.files) {  // what is verified is all of it
      const auto path = step.path / file.name;
      std::string bytes = io::read_file(path);
      bytes[bytes.size() / 3] ^= 1;
      io::put(path, bytes);
      CHECK_THAT(io::damage_of(step.path).at(0), Contains(path.string()));
      bytes[bytes.size() / 3] ^= 1;
      io::put(path, bytes);
    }
  }
  const int others = ranks % 3 + 1;
  for (const std::string& error : run(others, config, directory / "kind", 7)) CHECK(error.empty());
  if (kind != "bf16 moments") check_equal(directory / "plain", directory / "kind");
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
