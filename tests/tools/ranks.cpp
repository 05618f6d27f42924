// Whole runs on ranks that are processes.

#include <filesystem>
#include <set>
#include <string>

#include "tests/catch.h"
#include "tests/tools/small_run.h"

using namespace oxrse;
using Catch::Matchers::Contains;
using namespace test;

namespace {

int times(const std::string& text, const std::string& what) {
  int n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

/// Refused, and not by every rank once more.
void check_refused_once(const CommandResult& result, const std::string& why) {
  INFO(result.err);
  CHECK(result.exit_code != 0);
  CHECK_THAT(result.err, Contains(why));
  CHECK(times(result.err, "error: ") == 1);
}

}  // namespace

TEST_CASE("runs on 1, 2 and 4 ranks record the same numbers, and one rank prints") {
  if (!has_mpi()) return;
  const SmallRun run;
  REQUIRE(run.train(1, "one").exit_code == 0);
  for (const int ranks : {2, 4}) {
    const std::string name = fmt::format("of{}", ranks);
    const CommandResult result = run.train(ranks, name);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(run.numbers(name) == run.numbers("one"));
    CHECK(run.numbers(name).size() == 8);
    const std::size_t first = result.out.find("done: 6 steps");
    CHECK(first != std::string::npos);
    CHECK(result.out.find("done: 6 steps", first + 1) == std::string::npos);
  }
}

TEST_CASE("eval gives the same numbers on any number of ranks, once") {
  if (!has_mpi()) return;
  const SmallRun run;
  REQUIRE(run.train(1, "one").exit_code == 0);
  const std::string eval = "eval " + run.path("one") + " --json --data " + run.path("text.txt");
  const CommandResult alone = run_command(eval, "OMP_NUM_THREADS=1");
  REQUIRE(alone.exit_code == 0);
  CHECK(Json::parse(alone.out).at("tokens").get<int>() > 10000);
  for (const int ranks : {2, 3}) {
    // What libraries of MPI log must not get between the results.
    const CommandResult together = run_command(eval, fmt::format("OMP_NUM_THREADS=1 UCX_LOG_LEVEL=info mpirun -n {}", ranks));
    INFO(together.err);
    CHECK(together.exit_code == 0);
    CHECK(together.out == alone.out);
  }
  check_refused_once(run_command("eval " + run.path("one") + " --data missing.txt", "OMP_NUM_THREADS=1 mpirun -n 2"), "missing.txt");
}

TEST_CASE("a run goes on with another number of ranks") {
  if (!has_mpi()) return;
  const SmallRun run;
  REQUIRE(run.train(1, "one").exit_code == 0);
  REQUIRE(run.train(2, "moved", "--set train.steps=4 --set optimizer.schedule='\"constant\"'").exit_code == 0);
  REQUIRE(run.train(1, "stayed", "--set optimizer.schedule='\"constant\"'").exit_code == 0);
  const CommandResult result = run.train(3, "moved", "--set optimizer.schedule='\"constant\"'");
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  const auto moved = run.numbers("moved"), stayed = run.numbers("stayed");
  CHECK(moved.back() == stayed.back());
}

TEST_CASE("ranks share the optimizer and the files, and a run goes on with any number of them") {
  if (!has_mpi()) return;
  const SmallRun run;
  const std::string constant = "--set optimizer.schedule='\"constant\"' --set precision.compute='\"bf16\"'";
  REQUIRE(run.train(1, "stayed", constant).exit_code == 0);
  const auto go_on = [&](int ranks, int steps, int zero) {
    const CommandResult result =
        run.train(ranks, "moved", fmt::format("{} --set train.steps={} --set parallel.zero={}", constant, steps, zero));
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
  };
  go_on(3, 2, 1);
  const std::filesystem::path saved = run.path("moved/checkpoints/step_0000000002");
  for (int rank = 0; rank < 3; ++rank) CHECK(std::filesystem::exists(saved / fmt::format("shard_r0000{}.h5", rank)));
  go_on(2, 3, 1);
  go_on(4, 4, 0);
  CHECK(std::filesystem::exists(run.path("moved/checkpoints/step_0000000004/shard_r00003.h5")));
  go_on(2, 5, 1);
  go_on(1, 6, 0);
  CHECK(run.numbers("moved").back() == run.numbers("stayed").back());
  const CommandResult diff = run_command(fmt::format("checkpoint diff {} {}", run.path("moved"), run.path("stayed")));
  INFO(diff.out << diff.err);
  CHECK(diff.exit_code == 0);
  CHECK_THAT(diff.out, Contains("\n0 of ") || Catch::Matchers::StartsWith("0 of "));
}

TEST_CASE("a rank that would own nothing is refused") {
  if (!has_mpi()) return;
  const SmallRun run;
  std::string tiny = "--set train.global_batch=4 --set parallel.zero=1";
  for (const char* key : {"width", "heads", "layers", "mlp_width"}) tiny += fmt::format(" --set model.{}=1", key);
  const CommandResult result = run.train(4, "tiny", tiny + " --set model.head_width=2");
  check_refused_once(result, "without a single one of");
  CHECK_THAT(result.err, Contains("parallel.zero to 0"));
}

TEST_CASE("what ranks cannot share or do not agree about is refused before anything is written") {
  if (!has_mpi()) return;
  const SmallRun run;
  check_refused_once(run.train(5, "refused"),
                     "train.global_batch 12 is not a multiple of train.micro_batch 1 times 5 ranks: the nearest values are 10 and 15");
  check_refused_once(run.train(3, "refused", "--set train.stepz=1"), "train.stepz");
  check_refused_once(run_command("train missing.json", "OMP_NUM_THREADS=1 mpirun -n 3"), "missing.json: cannot be read");
  check_refused_once(run_command("train --nonsense", "mpirun -n 3"), "--nonsense");
  io::put(run.path("start.sh"), "[ \"$PMI_RANK\" = 2 ] && export DNNL_MAX_CPU_ISA=SSE41\nexec \"$@\"\n");
  const CommandResult environment =
      run_command(fmt::format("train {} --set 'run.dir=\"{}\"'", run.path("config.json"), run.path("refused")),
                  "OMP_NUM_THREADS=1 mpirun -n 3 sh " + run.path("start.sh"));
  check_refused_once(environment, "rank 2 was started with other settings than rank 0");
  CHECK_THAT(environment.err, Contains("DNNL_MAX_CPU_ISA"));
  CHECK_FALSE(std::filesystem::exists(run.path("refused")));
}

TEST_CASE("tasks that Slurm starts without MPI are refused with the right command") {
  const SmallRun run;
  const CommandResult result =
      run_command(fmt::format("train {} --set 'run.dir=\"{}\"'", run.path("config.json"), run.path("refused")), "SLURM_NTASKS=4");
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, Contains("Slurm started 4 tasks") && (Contains("srun --mpi=pmi2") || Contains("no MPI")));
  CHECK_FALSE(std::filesystem::exists(run.path("refused")));
}

TEST_CASE("tasks of Slurm that are more than the ranks of one run are refused with the right commands") {
  if (!has_mpi()) return;
  const SmallRun run;
  const CommandResult result = run_command(fmt::format("train {} --set 'run.dir=\"{}\"'", run.path("config.json"), run.path("refused")),
                                           "mpirun -n 2 env SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 OMP_NUM_THREADS=1");
  check_refused_once(result, "srun started 4 tasks, but this one is of 2 ranks");
  CHECK_THAT(result.err, Contains("srun --mpi=pmi2 alone, or with mpirun alone"));
  CHECK_FALSE(std::filesystem::exists(run.path("refused")));
}

TEST_CASE("bench collectives shows and measures") {
  const CommandResult shown = run_command("bench collectives --show ring --ranks 5");
  CHECK(shown.exit_code == 0);
  CHECK_THAT(shown.out, Contains("rank 4") && Contains("checked: 40 messages"));
  const SmallRun files;
  const CommandResult threads =
      run_command("bench collectives --transport threads --ranks 3 --max-bytes 4K --seconds 0.01 --json " + files.path("rows.json"));
  INFO(threads.err);
  CHECK(threads.exit_code == 0);
  CHECK_THAT(threads.out, Contains("busbw") && Contains("halving") && Contains("direct"));
  std::set<std::int64_t> sizes;
  const Json written = read_json(files.path("rows.json")).value;
  for (const Json& row : written.at("rows")) sizes.insert(row.at("bytes").get<std::int64_t>());
  CHECK(*sizes.begin() == 4);
  CHECK(*sizes.rbegin() == 4096);
  CHECK(run_command("bench collectives --show spiral").exit_code == 1);
  CHECK_THAT(run_command("bench collectives --max-bytes 0").err, Contains("--max-bytes") && Contains("from 1 to 1099511627776"));
  if (!has_mpi()) return;
  const CommandResult mpi = run_command("bench collectives --max-bytes 4096 --seconds 0.01", "mpirun -n 2");
  INFO(mpi.err);
  CHECK(mpi.exit_code == 0);
  CHECK_THAT(mpi.out, Contains("mpi") && Contains("doubling"));
  CHECK(run_command("bench collectives --max-bytes 64 --save-costs " + files.path("costs.json"), "mpirun -n 2").exit_code == 0);
  CHECK(files.train(2, "measured_before", fmt::format("--set comm.costs='\"{}\"'", files.path("costs.json"))).exit_code == 0);
  io::put(files.path("costs.json"), "{\"operation_s\": -1}");
  check_refused_once(files.train(2, "refused", fmt::format("--set comm.costs='\"{}\"'", files.path("costs.json"))),
                     "operation_s: expected seconds above 0, not -1");
  const CommandResult nccl = run_command("bench collectives --transport nccl --max-bytes 1024", "CUDA_VISIBLE_DEVICES= mpirun -n 2");
  check_refused_once(nccl, "");
  CHECK_THAT(nccl.err, Contains("NCCL is left out") || Contains("has no GPU"));
}

TEST_CASE("bench train measures ranks together, and one prints") {
  if (!has_mpi()) return;
  const SmallRun files;
  const CommandResult result = run_command(
      "bench train --model small/tiny --batch 1 --context 16 --steps 2 --json " + files.path("of2.json"), "OMP_NUM_THREADS=1 mpirun -n 2");
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(times(result.out, "tokens/s") == 1);
  const Json summary = read_json(files.path("of2.json")).value.at("summary");
  CHECK(summary.at("ranks") == 2);
  CHECK(summary.at("tokens") == 32);
  CHECK(summary.at("comm_ms").get<double>() > 0);
}
