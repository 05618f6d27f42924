#include <filesystem>
#include <string>
#include <utility>

#include "io/files.h"
#include "tests/catch.h"
#include "tests/io/temporary.h"
#include "tests/tools/command.h"

using namespace oxrse::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("no command prints the help on stderr and exits with 2") {
  const CommandResult result = run_command("");
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, StartsWith("error: no command given") && Contains("doctor"));
}

TEST_CASE("help and version exit with 0") {
  CHECK(run_command("--help").exit_code == 0);
  const CommandResult version = run_command("--version");
  CHECK(version.exit_code == 0);
  CHECK_THAT(version.out, StartsWith("oxrse 0.1.0 ("));
  for (const std::string command : {"train", "generate", "eval", "plan", "data", "checkpoint", "doctor"}) {
    const CommandResult help = run_command(command + " --help");
    INFO(command << ": " << help.err);
    CHECK(help.exit_code == 0);
    CHECK_THAT(help.out, Contains("--help"));
  }
}

TEST_CASE("a wrong command line exits with 2 and says what is near") {
  const CommandResult typo = run_command("trian x.json");
  CHECK(typo.exit_code == 2);
  CHECK_THAT(typo.err, StartsWith("error: ") && Contains("did you mean \"train\"?"));
  const CommandResult nested = run_command("data inspct x.txt");
  CHECK(nested.exit_code == 2);
  CHECK_THAT(nested.err, StartsWith("error: oxrse data has no command inspct; did you mean \"inspect\"?") && Contains("oxrse data --help"));
  const CommandResult missing = run_command("checkpoint");
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.err, StartsWith("error: oxrse checkpoint needs a command: inspect, verify, diff") && Contains("checkpoint --help"));
  const CommandResult option = run_command("doctor --quick");
  CHECK(option.exit_code == 2);
  CHECK_THAT(option.err, StartsWith("error: ") && Contains("--quick") && Contains("oxrse doctor --help"));
}

TEST_CASE("work that fails exits with 1 and one line that says why") {
  const CommandResult result = run_command("train missing.json");
  CHECK(result.exit_code == 1);
  CHECK(result.err == "error: missing.json: cannot be read: No such file or directory\n");
}

TEST_CASE("--set may stand before and after the config, and more than once") {
  for (const std::string arguments : {"--set train.steps=1 missing.json", "missing.json --set train.steps=1 --set run.seed=2"}) {
    const CommandResult result = run_command("train " + arguments);
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err, StartsWith("error: missing.json: cannot be read"));
  }
}

TEST_CASE("output that cannot be written is a failure") {
  const CommandResult result = run_command("train --help-config", R"(sh -c '"$@" >/dev/full' sh)");
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, StartsWith("error: "));
}

TEST_CASE("every config key is in the generated help") {
  const CommandResult help = run_command("train --help-config");
  CHECK(help.exit_code == 0);
  for (const std::string key : {"train.steps", "optimizer.lr", "data.train", "checkpoint.keep", "precision.loss_scale.window", "model"}) {
    CHECK_THAT(help.out, Contains("\n" + key + " ") || StartsWith(key + " "));
  }
}

TEST_CASE("doctor refuses tasks that do not know of each other") {
  const CommandResult result = run_command("doctor", "SLURM_NTASKS=4");
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.out, Contains("PROBLEM") && Contains("Slurm started 4 tasks"));
  CHECK_THAT(result.err, StartsWith("error: "));
}

TEST_CASE("doctor lists what is built in, what was left out and why") {
  const CommandResult result = run_command("doctor", "SLURM_NTASKS= PMI_SIZE= OMPI_COMM_WORLD_SIZE=");
  INFO(result.out);
  CHECK(result.exit_code == 0);
  for (const std::string subject :
       {"version", "compiler", "processor", "threads", "memory", "OpenBLAS", "oneDNN", "HDF5", "PCRE2", "CUDA", "MPI", "model zoo"}) {
    CHECK_THAT(result.out, Contains(" " + subject + " "));
  }
}

TEST_CASE("bench says what it can measure and refuses what it cannot before measuring") {
  CHECK_THAT(run_command("bench --help").out, Contains("gemm") && Contains("kernels") && Contains("train"));
  for (const std::string what : {"gemm", "kernels", "train"}) {
    const CommandResult help = run_command("bench " + what + " --help");
    INFO(what);
    CHECK(help.exit_code == 0);
    CHECK_THAT(help.out, Contains("--json") && Contains("--csv") && Contains("--compare"));
  }
  CHECK(run_command("bench").exit_code == 2);
  CHECK(run_command("bench gemm --device gpu").exit_code == 2);
  CHECK_THAT(run_command("bench gemm --dtype f31").err, Contains("expected bf16, f16, f32 or f64"));
  CHECK_THAT(run_command("bench gemm --compare missing.json").err, Contains("missing.json: cannot be read"));
}

TEST_CASE("bench checkpoint measures a model that leaves its vocabulary open") {
  const oxrse::io::TemporaryDirectory directory;
  const CommandResult result =
      run_command("bench checkpoint --model small/3m --vocab 300 --rounds 1 --every 2 --dir " + directory.path().string());
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("state") && Contains("save") && Contains("async stall") && Contains("with a checkpoint every 2 steps"));
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("bench refuses every wrong argument before it measures anything") {
  const oxrse::io::TemporaryDirectory directory;
  oxrse::io::put(directory / "other.json", "{\"rows\": 3}");
  oxrse::io::put(directory / "text.txt", "a text");
  oxrse::io::put(directory / "tokens.bin", std::string(2048, '\0'));
  const std::string place = directory.path().string();
  struct Case {
    std::string arguments;
    int exit_code;
    std::string message;
  };
  const Case cases[] = {{"gemm --filter '['", 2, "--filter: \"[\" is no regular expression"},
                        {"gemm --filter nosuchkernel", 1, "--filter nosuchkernel: no kernel matches"},
                        {"gemm --json " + place, 2, "--json: " + place + " is a directory"},
                        {"kernels --csv " + place + "/missing/x.csv", 2, "--csv: " + place + "/missing/x.csv cannot be written"},
                        {"kernels --compare " + place + "/other.json", 1, "that oxrse bench wrote with --json"},
                        {"train --compare " + place, 1, place},
                        {"gemm --seconds 0", 2, "--seconds: expected a number from 0.001 to 3600, found \"0\""},
                        {"gemm --seconds nan", 2, "--seconds: expected a number from 0.001 to 3600"},
                        {"gemm --seconds 1e999", 2, "--seconds: expected a number from 0.001 to 3600"},
                        {"train --model llama/405b --context 8", 1, "the plan needs"},
                        {"train --batch 0", 2, "--batch: expected an integer from 1 to 1048576"},
                        {"train --context 4096", 1, "train.context 4096 is above model.context 1024"},
                        {"train --model nosuchmodel", 1, "model: \"nosuchmodel\" is not in the model zoo"},
                        {"train --steps 99999999999999999999", 2, "--steps: expected an integer from 1 to 1000000"},
                        {"data", 2, "TEXT is required"},
                        {"data nosuchfile", 1, "nosuchfile"},
                        {"data " + place + "/text.txt --vocab 256", 2, "--vocab: expected an integer from 257 to 1048576"},
                        {"data " + place + "/text.txt --turns 0", 2, "--turns: expected an integer from 1 to 1000"},
                        {"data " + place + "/tokens.bin", 1, "tokens.bin holds tokens already"},
                        {"checkpoint --rounds 0", 2, "--rounds: expected an integer from 1 to 1000"},
                        {"checkpoint --every -1", 2, "--every: expected an integer from 0 to 1000000"},
                        {"checkpoint --json " + place, 2, "--json: " + place + " is a directory"},
                        {"checkpoint --vocab 0", 2, "--vocab: expected an integer from 1 to 16777216"},
                        {"train --threads -1", 2, "--threads: expected an integer from 0 to 4096"}};
  for (const Case& c : cases) {
    const CommandResult result = run_command("bench " + c.arguments);
    INFO(c.arguments << ": " << result.err);
    CHECK(result.exit_code == c.exit_code);
    CHECK(result.out.empty());  // the first measurements are printed with the machine
    CHECK_THAT(result.err, StartsWith("error: ") && Contains(c.message));
  }
  CHECK(!std::filesystem::exists(directory / "missing"));
}

TEST_CASE("numbers out of range are refused with the option and the range, never saturated") {
  const std::pair<const char*, const char*> cases[] = {
      {"generate x --prompt a --tokens 0", "--tokens: expected an integer from 1 to 1000000000, found \"0\""},
      {"generate x --prompt a --tokens 99999999999999999999", "--tokens: expected an integer from 1 to 1000000000"},
      {"generate x --prompt a --tokens 1.5", "--tokens: expected an integer"},
      {"generate x --prompt a --seed -1", "--seed: expected an integer from 0 to 18446744073709551615, found \"-1\""},
      {"generate x --prompt a --seed 18446744073709551616", "--seed: expected an integer from 0 to 18446744073709551615"},
      {"generate x --prompt a --top-k 99999999999999999999", "--top-k: expected an integer from 0 to 2147483647"},
      {"eval x --data y --batches -1", "--batches: expected an integer from 0 to 1000000000, found \"-1\""}};
  for (const auto& [arguments, message] : cases) {
    const CommandResult result = run_command(arguments);
    INFO(arguments << ": " << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, StartsWith("error: ") && Contains(message));
  }
  CHECK(run_command("generate x --prompt a --seed 18446744073709551615 --tokens 010").exit_code == 1);  // only x is wrong
  for (const std::string command : {"generate", "eval", "bench gemm", "bench train"}) {
    const CommandResult help = run_command(command + " --help");
    INFO(help.out);
    CHECK(help.exit_code == 0);
    CHECK(help.out.find("00000000000000000000") == std::string::npos);
  }
}

TEST_CASE("an empty path is refused with the option") {
  const std::pair<const char*, const char*> cases[] = {{"train x.json --resume", "--resume: expected auto, never or a checkpoint"},
                                                       {"checkpoint export x --out", "--out: expected a directory to make"},
                                                       {"checkpoint import x --out", "--out: expected a directory to make"},
                                                       {"checkpoint inspect", "checkpoint: expected a checkpoint"},
                                                       {"eval x --data", "--data: expected text or token shards"},
                                                       {"bench gemm --json", "--json: expected a file"}};
  for (const auto& [arguments, message] : cases) {
    const CommandResult result = run_command(arguments + std::string(" ''"));
    INFO(arguments << ": " << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, StartsWith(std::string("error: ") + message + ", found \"\"\n"));
  }
}
