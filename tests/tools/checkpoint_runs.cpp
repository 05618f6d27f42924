// Checkpoints of whole runs on several ranks: damage, disks that fail, models that do not fit.

#include <filesystem>

#include "io/checkpoint/checkpoint.h"
#include "io/files.h"
#include "tests/catch.h"
#include "tests/tools/small_run.h"

using namespace oxrse;
using namespace oxrse::test;
using Catch::Matchers::Contains;

namespace {

namespace fs = std::filesystem;

/// Flips a bit in the middle of a tensor that lies in a file of a checkpoint.
void damage_tensor(const fs::path& step, std::int64_t file) {
  const io::Manifest manifest = io::read_manifest(step);
  for (const io::StoredTensor& tensor : manifest.tensors) {
    for (const io::Piece& piece : tensor.pieces) {
      if (piece.file != file || piece.region.count() < 100) continue;
      const fs::path path = step / manifest.files.at(static_cast<std::size_t>(file)).name;
      std::string bytes = io::read_file(path);
      bytes.at(static_cast<std::size_t>(piece.position) + 200) ^= 1;
      return io::put(path, bytes);
    }
  }
  FAIL("no tensor in file " << file);
}

}  // namespace

TEST_CASE("damage that one rank reads: all ranks go on from the checkpoint before", "[C3]") {
  if (!has_mpi()) return;
  const SmallRun run;
  const std::string zero = "--set parallel.zero=1 --set optimizer.schedule='\"constant\"' ";
  REQUIRE(run.train(2, "run", zero + "--set train.steps=4").exit_code == 0);
  damage_tensor(run.path("run/checkpoints/step_0000000004"), 1);
  const CommandResult resumed = run.train(2, "run", zero);
  INFO(resumed.out << resumed.err);
  CHECK(resumed.exit_code == 0);
  CHECK_THAT(resumed.err, Contains("shard_r00001.h5 is damaged") && Contains("is damaged where another rank reads it"));
  CHECK_THAT(resumed.out, Contains("step_0000000002 at step 2"));
  REQUIRE(run.train(1, "truth", "--set optimizer.schedule='\"constant\"'").exit_code == 0);
  CHECK(run.numbers("run") == run.numbers("truth"));
}

TEST_CASE("a disk that is full for one rank: the run says which and ends, and goes on from what was saved", "[C5]") {
  if (!has_mpi()) return;
  const SmallRun run;
  REQUIRE(run.train(2, "run", "--set train.steps=2").exit_code == 0);
  const bool async = GENERATE(true, false);
  // Files of rank 1 may get no larger than 8 KiB, so that it cannot write its shard.
  const std::string limit = "bash -c 'if [ \"$PMI_RANK\" = 1 ]; then trap \"\" XFSZ; ulimit -f 8; fi; exec \"$0\" \"$@\"'";
  const CommandResult failed =
      run_command(fmt::format("train {} --set 'run.dir=\"{}\"' --set checkpoint.async={}", run.path("config.json"), run.path("run"), async),
                  "OMP_NUM_THREADS=1 mpirun -n 2 " + limit);
  INFO(failed.out << failed.err);
  CHECK(failed.exit_code != 0);
  CHECK_THAT(failed.err, Contains("checkpoint of step") && Contains("not saved: rank 1: ") && Contains("File too large"));
  CHECK(io::step_directories(run.path("run/checkpoints")).size() == 1);
  const CommandResult resumed = run.train(2, "run");
  CHECK(resumed.exit_code == 0);
  CHECK_THAT(resumed.out, Contains("at step 2"));
}

TEST_CASE("weights of another size: the tensor and both shapes are named", "[C9]") {
  const SmallRun run;
  REQUIRE(run.train(1, "small", "--set train.steps=1").exit_code == 0);
  const CommandResult refused = run.train(1, "large", fmt::format("--set 'run.init=\"{}\"' --set model.width=36", run.path("small")));
  INFO(refused.err);
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, Contains("embedding.weight") && Contains("(256, 24)") && Contains("(256, 36)"));
  CHECK(!fs::exists(run.path("large/checkpoints")));
}

TEST_CASE("inspect lists every tensor of ranks' shards, as a table and as JSON") {
  if (!has_mpi()) return;
  const SmallRun run;
  REQUIRE(run.train(3, "run", "--set train.steps=1 --set parallel.zero=1").exit_code == 0);
  const CommandResult table = run_command("checkpoint inspect " + run.path("run")),
                      json = run_command("checkpoint inspect --json " + run.path("run"));
  CHECK(table.exit_code == 0);
  CHECK(json.exit_code == 0);
  const Json found = Json::parse(json.out);
  CHECK(found.at("step") == 1);
  CHECK(found.at("world") == 3);
  CHECK(found.at("files").size() == 3);
  CHECK(found.at("config").at("train").at("context") == 16);
  std::int64_t bytes = 0, listed = 0;
  for (const Json& tensor : found.at("tensors")) {
    bytes += tensor.at("bytes").get<std::int64_t>();
    CHECK_THAT(table.out, Contains(tensor.at("name").get<std::string>()));
    listed += tensor.at("part") == "exp_avg_sq" ? 1 : 0;
  }
  CHECK(listed * 3 == std::ssize(found.at("tensors")));
  std::int64_t elements = 0;
  for (const Json& tensor : found.at("tensors")) {
    std::int64_t count = 1;
    for (const Json& size : tensor.at("shape")) count *= size.get<std::int64_t>();
    elements += count;
  }
  CHECK(bytes == 4 * elements);
}

TEST_CASE("a renamed checkpoint is named by verify and by the run, which goes on from the one before") {
  const SmallRun run;
  const std::string constant = "--set optimizer.schedule='\"constant\"' ";
  REQUIRE(run.train(1, "run", constant + "--set train.steps=4").exit_code == 0);
  fs::rename(run.path("run/checkpoints/step_0000000004"), run.path("run/checkpoints/step_0000000009"));
  const std::string complaint = "step_0000000009 holds the checkpoint of step 4, not of step 9: it was renamed";
  const CommandResult verified = run_command("checkpoint verify " + run.path("run"));
  CHECK(verified.exit_code != 0);
  CHECK_THAT(verified.out, Contains(complaint) && Contains("step_0000000002 is whole"));
  const CommandResult resumed = run.train(1, "run", constant);
  INFO(resumed.out << resumed.err);
  CHECK(resumed.exit_code == 0);
  CHECK_THAT(resumed.err, Contains(complaint));
  CHECK_THAT(resumed.out, Contains("step_0000000002 at step 2"));
}
