// Checkpoints of whole runs on several ranks: damage, disks that fail, models that do not fit.

#include <cstdlib>
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

TEST_CASE("a full disk: the run names the rank that could not write and ends, and goes on from what was saved", "[C5]") {
  if (!has_mpi()) return;
  const SmallRun run;
  const std::string disk = run.path("disk"), directory = fmt::format(" --set 'run.dir=\"{}/run\"' ", disk);
  const std::string async = GENERATE("true", "false"), train = "train " + run.path("config.json") + directory;
  fs::create_directory(disk);
  // Only what is started by this shell sees the small disk. One checkpoint fits, another one beside a file that takes the rest does not.
  io::put(run.path("full_disk.sh"), fmt::format("mount -t tmpfs -o size=4m none '{0}' || exit 77\n"
                                                "\"$1\" {1} --set train.steps=2 >&2 || exit 78\n"
                                                "dd if=/dev/zero of='{0}/filler' bs=4k 2>/dev/null\n"
                                                "truncate -s -64k '{0}/filler'\n"
                                                "mpirun -n 2 \"$1\" {1} --set checkpoint.async={2} >&2; echo $? >'{3}'\n"
                                                "ls '{0}/run/checkpoints' >'{4}'\n"
                                                "rm '{0}/filler'\n"
                                                "mpirun -n 2 \"$1\" {1}\n",
                                                disk, train, async, run.path("code"), run.path("left")));
  if (std::system("unshare -m true 2>/dev/null") != 0) {  // no right to, or / is no mount point (chroot)
    WARN("file systems cannot be mounted here: a full disk is not tried");
    return;
  }
  const CommandResult result = run_command("", "OMP_NUM_THREADS=1 unshare -m sh " + run.path("full_disk.sh"));
  INFO(result.out << result.err);
  if (result.exit_code == 77) {
    WARN("file systems cannot be mounted here: a full disk is not tried");
    return;
  }
  CHECK_THAT(result.err, Contains("checkpoint of step") && Contains("not saved: rank ") && Contains("No space left on device"));
  CHECK(io::read_file(run.path("code")) != "0\n");  // 1, or 9 where mpirun ended a rank that was about to end
  CHECK(io::read_file(run.path("left")) == "LATEST\nstep_0000000002\n");
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("step_0000000002 at step 2"));
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
