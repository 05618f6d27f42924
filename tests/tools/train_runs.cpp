// Whole runs of `oxrse train` as a user starts them: stopping, resuming, refusing, planning.

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/core/build_info.h"
#include "engine/core/json.h"
#include "io/files.h"
#include "tests/catch.h"
#include "tests/io/temporary.h"
#include "tests/tools/command.h"

using namespace oxrse;
using Catch::Matchers::Contains;
using test::CommandResult;
using test::run_command;

namespace {

namespace fs = std::filesystem;

/// A small model on a text made here; runs take well under a second.
class Run {
 public:
  Run() {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "In line " + std::to_string(i * 7919 % 1000) + " nothing happens twice.\n";
    io::put(directory_ / "text.txt", text);
    const Json config = {
        {"run", {{"name", "t"}, {"dir", path("run")}}},
        {"model", {{"layers", 2}, {"width", 24}, {"heads", 3}, {"context", 16}, {"vocab", 0}}},
        {"data", {{"train", path("text.txt")}, {"tokenizer", "bytes"}, {"validation_fraction", 0.05}, {"cache", path("cache")}}},
        {"train", {{"steps", 9}, {"global_batch", 4}, {"micro_batch", 2}, {"context", 16}, {"eval_every", 0}}},
        {"optimizer", {{"warmup_steps", 2}}},
        {"checkpoint", {{"every", 3}}},
        {"log", {{"every", 1}}}};
    io::put(directory_ / "config.json", config.dump());
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (directory_ / name).string(); }
  [[nodiscard]] CommandResult train(const std::string& options = "") const {
    return run_command("train " + path("config.json") + " " + options);
  }
  /// `--set` for a run directory of another name.
  [[nodiscard]] std::string in(const std::string& name) const { return "--set 'run.dir=\"" + path(name) + "\"' "; }

  [[nodiscard]] std::vector<Json> metrics(const std::string& run = "run") const {
    std::ifstream file(directory_ / run / "metrics.jsonl");
    std::vector<Json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
    return lines;
  }
  /// The losses of steps 1, 2, ...; checks that every step is there once, in order.
  [[nodiscard]] std::vector<double> losses(const std::string& run = "run") const {
    std::vector<double> result;
    for (const Json& line : metrics(run)) {
      if (!line.contains("loss")) continue;
      CHECK(line.at("step") == result.size() + 1);
      result.push_back(line.at("loss"));
    }
    return result;
  }

 private:
  io::TemporaryDirectory directory_;
};

/// Sends a signal after some seconds.
CommandResult run_for(double seconds, const std::string& signal, const std::string& arguments) {
  // --foreground: the signal once, not again to the process group. The shell of a background job may have SIGINT ignored.
  return run_command(arguments, fmt::format("env --default-signal=INT timeout --foreground --preserve-status -s {} {}", signal, seconds));
}

void check_done(const CommandResult& result) {
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
}

}  // namespace

TEST_CASE("a resumed run is the uninterrupted one, bit for bit", "[train]") {
  const Run run;
  const std::string options = GENERATE("", "--set 'precision.compute=\"f64\"' --set model.dropout=0.2 --set 'data.order=\"sequential\"' ",
                                       "--set 'optimizer.kind=\"sgd\"' --set train.micro_batch=1 ",
                                       "--set 'data.packing=\"documents\"' --set train.global_batch=200 --set train.micro_batch=100 ");
  check_done(run.train(options));
  CHECK(run.losses().size() == 9);
  // What a kill after step 7 leaves: checkpoints up to step 6, metrics up to step 7.
  fs::copy(run.path("run"), run.path("killed"), fs::copy_options::recursive);
  fs::remove_all(run.path("killed/checkpoints/step_0000000009"));
  const CommandResult resumed = run.train(options + run.in("killed"));
  check_done(resumed);
  CHECK_THAT(resumed.out, Contains("step_0000000006 at step 6"));
  CHECK(run.losses("killed") == run.losses());
  const CommandResult diff = run_command("checkpoint diff " + run.path("run") + " " + run.path("killed"));
  check_done(diff);
}

TEST_CASE("a run can be resumed at any step, in any epoch, and again: the same bits", "[train][D5]") {
  const Run run;
  // 200 samples a step: the text has fewer than three steps of them.
  const std::string options = GENERATE("", "--set 'precision.compute=\"bf16\"' --set precision.stochastic_rounding=true ") +
                              std::string(
                                  "--set train.global_batch=200 --set train.micro_batch=100 --set checkpoint.every=1 --set "
                                  "checkpoint.keep=0 --set train.steps=7 ");
  check_done(run.train(options));
  const auto truth = run.losses();
  for (int stop = 1; stop < 7; stop += 2) {
    const std::string name = "stopped" + std::to_string(stop);
    fs::copy(run.path("run"), run.path(name), fs::copy_options::recursive);
    for (const int again : {stop, stop + 1}) {  // killed there, and once more after another step
      for (int step = again + 1; step <= 7; ++step) fs::remove_all(run.path(fmt::format("{}/checkpoints/step_{:010}", name, step)));
      const CommandResult resumed = run.train(options + run.in(name));
      check_done(resumed);
      CHECK_THAT(resumed.out, Contains(fmt::format("at step {}", again)));
      CHECK(run.losses(name) == truth);
      CHECK_THAT(run_command("checkpoint diff " + run.path("run") + " " + run.path(name)).out, Contains("0 of "));
    }
  }
}

TEST_CASE("saving in the background changes nothing, and shows what it costs", "[train]") {
  const Run run;
  check_done(run.train("--set checkpoint.async=false"));
  const CommandResult async = run.train(run.in("async") + "--set checkpoint.every=1 --set checkpoint.mtbf_h=24");
  check_done(async);
  CHECK_THAT(async.out, Contains("saved step 3") && Contains("training stood still for") && Contains("iB/s to the disk") &&
                            Contains("advice   with a failure every 24 h") && Contains("every 1 steps, as now"));
  CHECK(run.losses("async") == run.losses());
  const auto lines = run.metrics("async");
  CHECK(std::count_if(lines.begin(), lines.end(), [](const Json& line) { return line.at("checkpoint_ms") > 0; }) == 8);
  CHECK_THAT(run_command("checkpoint diff " + run.path("run") + " " + run.path("async")).out, Contains("0 of "));
}

TEST_CASE("a checkpoint that cannot be written ends the run with an error and the old one in place", "[train][C5]") {
  const Run run;
  check_done(run.train("--set train.steps=3"));
  const std::string async = GENERATE("true", "false");
  // Files may get no larger than the metrics, so that no shard can be written.
  const CommandResult failed =
      run_command(fmt::format("train {} --set checkpoint.async={} --set log.tensorboard=false", run.path("config.json"), async),
                  "bash -c 'trap \"\" XFSZ; ulimit -f 8; exec \"$0\" \"$@\"'");
  INFO(failed.out << failed.err);
  CHECK(failed.exit_code == 1);
  CHECK_THAT(failed.err, Contains("not saved") && Contains("File too large"));
  CHECK_THAT(failed.out, !Contains("saved step"));
  const CommandResult resumed = run.train();
  check_done(resumed);
  CHECK_THAT(resumed.out, Contains("at step 3"));
}

TEST_CASE("weights can be saved more often than everything", "[train]") {
  const Run run;
  check_done(run.train("--set checkpoint.every=4 --set checkpoint.weights_every=1 --set checkpoint.keep=2 --set train.steps=7"));
  fs::remove_all(run.path("run/checkpoints/step_0000000007"));  // as after a kill
  check_done(run_command("generate " + run.path("run") + " --prompt abc --tokens 3"));
  const CommandResult resumed = run.train("--set train.steps=7");
  check_done(resumed);
  CHECK_THAT(resumed.out, Contains("step_0000000004 at step 4"));
}

TEST_CASE("evaluating after every step and never train alike", "[train]") {
  const Run run;
  check_done(run.train());
  check_done(run.train(run.in("evaluated") + "--set train.eval_every=1 --set train.sample_every=2 --set train.sample_tokens=20"));
  CHECK(run.losses() == run.losses("evaluated"));
  const auto lines = run.metrics("evaluated");
  CHECK(std::count_if(lines.begin(), lines.end(), [](const Json& line) { return line.contains("val_loss"); }) == 9);
}

TEST_CASE("a signal saves, says how to go on and exits cleanly", "[train]") {
  const Run run;
  const char* signal = GENERATE("TERM", "INT", "USR1");
  const std::string command =
      fmt::format("train {} --set train.steps=1000000 --set checkpoint.every=0 --set log.every=1000", run.path("config.json"));
  const CommandResult stopped = run_for(2, signal, command);
  INFO(stopped.out << stopped.err);
  CHECK(stopped.exit_code == 0);
  CHECK_THAT(stopped.out, Contains("stopped and saved at step") && Contains("run the same command again"));
  const auto before = run.losses();
  const CommandResult resumed = run_for(2, signal, command);
  CHECK(resumed.exit_code == 0);
  CHECK_THAT(resumed.out, Contains(fmt::format("at step {}", before.size())));
  CHECK(run.losses().size() >= before.size());  // a very busy machine may not get to a step in the time
}

TEST_CASE("a state that is not finite never takes the place of a good one", "[train]") {
  const Run run;
  check_done(run.train());
  const std::string options =
      "--set train.steps=40 --set optimizer.lr=1e38 --set 'optimizer.schedule=\"constant\"' --set checkpoint.every=1 ";
  const CommandResult diverged =
      run.train(options + "--set 'run.init=\"" + run.path("run") + "\"' --set optimizer.warmup_steps=0 " + run.in("diverged"));
  INFO(diverged.out << diverged.err);
  CHECK(diverged.exit_code == 1);
  CHECK_THAT(diverged.err, Contains("holds NaN or infinity") && Contains("lower optimizer.lr"));
  const fs::path kept = run.path("diverged/checkpoints");
  if (fs::exists(kept) && !fs::is_empty(kept)) check_done(run_command("checkpoint verify " + run.path("diverged")));
}

TEST_CASE("a run outlives its terminal and its reader", "[train]") {
  const Run run;
  const CommandResult closed = run_command("train " + run.path("config.json") + " <&- >&- 2>&-");
  CHECK(closed.exit_code == 0);
  CHECK(run.losses().size() == 9);         // nothing but metrics in the file of metrics
  for (const char* buffer : {"L", "0"}) {  // by line, none: every line meets the closed pipe (stdbuf preloads a library)
    const std::string piped = fmt::format("piped-{}", buffer);
    run_command(fmt::format("train {} {} | true", run.path("config.json"), run.in(piped)),
                fmt::format("ASAN_OPTIONS=verify_asan_link_order=0 stdbuf -o{}", buffer));
    CHECK(run.losses(piped) == run.losses());
  }
}

TEST_CASE("what a killed process did not finish writing is removed", "[train]") {
  const Run run;
  check_done(run.train());
  io::put(run.path("run/config.json.host.1.0.tmp"), "{");
  check_done(run.train("--set train.steps=10"));
  CHECK(!fs::exists(run.path("run/config.json.host.1.0.tmp")));
}

TEST_CASE("sizes beyond all memory are refused with the key or the tensor", "[train]") {
  const Run run;
  const std::pair<const char*, const char*> cases[] = {
      {"model.mlp_width=4611686018427387904", "model.mlp_width"},   {"model.width=2147483648", "model.width"},
      {"model.head_width=4611686018427387904", "model.head_width"}, {"model.layers=1000000000000", "model.layers"},
      {"train.global_batch=4000000000000", "train.global_batch"},   {"optimizer.eps=1e-60", "optimizer.eps"}};
  for (const auto& [change, key] : cases) {
    const CommandResult refused = run.train(fmt::format("--set {}", change));
    CHECK(refused.exit_code == 1);
    CHECK_THAT(refused.err, Contains(key));
  }
  const CommandResult large = run.train("--set model.vocab=2147483647 --set model.width=16777200 --set model.layers=10000");
  CHECK(large.exit_code == 1);
  CHECK(large.err.size() < 4000);
  CHECK(!fs::exists(run.path("run")));
}

TEST_CASE("a run directory of another config is refused with what differs", "[train]") {
  const Run run;
  check_done(run.train());
  const auto before = run.losses();
  for (const char* change : {"optimizer.lr=0.5", "train.context=8", "train.global_batch=8", "run.seed=7", "model.width=48"}) {
    const CommandResult refused = run.train(fmt::format("--set {}", change));
    CHECK(refused.exit_code == 1);
    CHECK_THAT(refused.err, Contains(std::string(change).substr(0, std::string(change).find('='))) && Contains("another config"));
  }
  const CommandResult never = run.train("--resume never");
  CHECK(never.exit_code == 1);
  CHECK_THAT(never.err, Contains("holds checkpoints of an earlier run"));
  CHECK(run.losses() == before);
  check_done(run.train("--set train.steps=11 --set log.every=5 --set checkpoint.keep=9 --set train.eval_every=4"));
  CHECK(run.losses().size() == 11);
}

TEST_CASE("a finished run says that there is nothing to do", "[train]") {
  const Run run;
  check_done(run.train());
  const CommandResult again = run.train();
  check_done(again);
  CHECK_THAT(again.out, Contains("nothing to do"));
  CHECK(run.losses().size() == 9);
}

TEST_CASE("changed data are refused on resume", "[train]") {
  const Run run;
  check_done(run.train("--set train.steps=3"));
  std::ofstream(run.path("text.txt"), std::ios::app) << "one more line\n";
  const CommandResult refused = run.train();
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, Contains("training data"));
}

TEST_CASE("zero steps save the initial model", "[train]") {
  const Run run;
  const CommandResult zero = run.train("--set train.steps=0");
  check_done(zero);
  CHECK_THAT(zero.out, Contains("done: 0 steps in") && !Contains("loss"));
  CHECK(fs::exists(run.path("run/checkpoints/step_0000000000/manifest.json")));
  check_done(run_command("generate " + run.path("run") + " --prompt abc --tokens 3"));
}

TEST_CASE("weights that are not finite: named by import and eval, and nothing is generated", "[train]") {
  const Run run;
  check_done(run.train("--set train.steps=0"));
  check_done(run_command("checkpoint export " + run.path("run") + " --out " + run.path("hf")));
  std::string weights = io::read_file(run.path("hf/model.safetensors"));
  weights.replace(weights.size() - 4, 4, "\xff\xff\xff\xff", 4);  // NaN
  io::put(run.path("hf/model.safetensors"), weights);
  const CommandResult imported = run_command("checkpoint import " + run.path("hf") + " --out " + run.path("nan"));
  check_done(imported);
  CHECK_THAT(imported.err, Contains("warning: tensor transformer.ln_f.bias: 1 of 24 weights are NaN or infinite"));
  for (const std::string json : {"", " --json"}) {
    const CommandResult eval = run_command("eval " + run.path("nan") + " --data " + run.path("text.txt") + json);
    CHECK(eval.exit_code == 1);
    CHECK(eval.out.empty());
    CHECK_THAT(eval.err, Contains(run.path("nan")) && Contains("is nan") && Contains("in the weights norm.bias\n"));
  }
  const CommandResult generated = run_command("generate " + run.path("nan") + " --prompt abc --tokens 3");
  CHECK(generated.exit_code == 1);
  CHECK_THAT(generated.err, Contains("no token can be drawn") && Contains("is nan"));
}

TEST_CASE("weights can be taken from another run", "[train]") {
  const Run run;
  check_done(run.train());
  const CommandResult started = run.train(run.in("second") + "--set 'run.init=\"" + run.path("run") + "\"'");
  check_done(started);
  CHECK(run.losses("second").front() < run.losses().front());
  const CommandResult other = run.train(run.in("third") + "--set model.width=48 --set 'run.init=\"" + run.path("run") + "\"'");
  CHECK(other.exit_code == 1);
  CHECK_THAT(other.err, Contains("embedding.weight") && Contains("48") && Contains("24"));
}

TEST_CASE("an exported run has its tokenizer, to be used as it is", "[train]") {
  const Run run;
  check_done(run.train("--set train.steps=1 --set 'data.tokenizer=null' --set data.bpe_vocab=270"));
  check_done(run_command("checkpoint export " + run.path("run") + " --out " + run.path("hf") + " --family gpt2"));
  CHECK(io::read_file(run.path("hf/tokenizer.json")) == io::read_file(run.path("run/tokenizer.json")));
  CHECK(Json::parse(io::read_file(run.path("hf/tokenizer_config.json"))) ==
        Json({{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}, {"eos_token", "<|endoftext|>"}}));
}

TEST_CASE("weights are not taken over to other tokens", "[train]") {
  const Run run;
  check_done(run.train("--set train.steps=2"));
  const std::string init = "--set 'run.init=\"" + run.path("run") + "\"' ";
  const CommandResult larger = run.train(run.in("larger") + init + "--set model.vocab=300");
  CHECK(larger.exit_code == 1);
  CHECK_THAT(larger.err, Contains("is a model of 256 tokens, this run has a vocabulary of 300"));

  // As many tokens, but others: two of them change places.
  check_done(run_command("data tokenizer " + run.path("text.txt") + " --vocab 280 --out " + run.path("t.json")));
  Json tokenizer = Json::parse(io::read_file(run.path("t.json")));
  Json& vocab = tokenizer["model"]["vocab"];
  std::swap(vocab["a"], vocab["b"]);
  io::put(run.path("u.json"), tokenizer.dump());
  const auto with = [&](const std::string& name) { return "--set train.steps=2 --set 'data.tokenizer=\"" + run.path(name) + "\"' "; };
  check_done(run.train(run.in("t") + with("t.json")));
  const std::string init_t = "--set 'run.init=\"" + run.path("t") + "\"' ";
  const CommandResult other = run.train(run.in("u") + with("u.json") + init_t);
  CHECK(other.exit_code == 1);
  CHECK_THAT(other.err, Contains("was trained with another tokenizer") && Contains("data.tokenizer"));
  CHECK_FALSE(fs::exists(run.path("u")));
  check_done(run.train(run.in("same") + with("t.json") + init_t));
}

TEST_CASE("eval gives the loss of the run's own evaluation, documents kept apart or not", "[train]") {
  const Run run;
  std::string documents;
  for (int i = 0; i < 60; ++i) documents += R"({"text": "document )" + std::string(static_cast<std::size_t>(i % 9), 'x') + "\"}\n";
  io::put(run.path("v.jsonl"), documents);
  std::vector<double> losses;
  for (const std::string packing : {"stream", "documents"}) {
    const std::string evaluated = "--set data.validation_fraction=0 --set 'data.validation=\"" + run.path("v.jsonl") +
                                  "\"' --set train.eval_every=9 --set train.eval_batches=0 --set 'data.packing=\"" + packing + "\"'";
    check_done(run.train(run.in(packing) + evaluated));
    const auto metrics = run.metrics(packing);
    const CommandResult result = run_command("eval " + run.path(packing) + " --data " + run.path("v.jsonl") + " --json");
    check_done(result);
    losses.push_back(Json::parse(result.out).at("loss"));
    CHECK(losses.back() == Approx(metrics.back().at("val_loss").get<double>()).epsilon(1e-9));
  }
  CHECK(losses[0] != losses[1]);

  io::put(run.path("single.jsonl"), [] {
    std::string lines;
    for (int i = 0; i < 40; ++i) lines += "{\"text\": \"a\"}\n";
    return lines;
  }());
  const CommandResult none = run_command("eval " + run.path("documents") + " --data " + run.path("single.jsonl"));
  CHECK(none.exit_code == 1);
  CHECK_THAT(none.err, Contains("no token of 2 samples has a next one in its document"));
}

TEST_CASE("batches that do not divide are refused with the nearest values", "[train]") {
  const Run run;
  const CommandResult refused = run.train("--set train.global_batch=7 --set train.micro_batch=3");
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, Contains("6") && Contains("9") && Contains("train.global_batch"));
  CHECK_THAT(run.train("--set train.micro_batch=5").err, Contains("train.micro_batch 5 is above train.global_batch 4"));
  CHECK_THAT(run.train("--set train.context=17").err, Contains("train.context 17 is above model.context 16"));
  CHECK(!fs::exists(run.path("run")));
}

TEST_CASE("a step that explodes is skipped, and too many in a row end the run with the state saved", "[train]") {
  const Run run;
  const CommandResult exploded =
      run.train("--set optimizer.lr=1e30 --set optimizer.warmup_steps=0 --set train.steps=30 --set train.stop_after_skipped=3");
  INFO(exploded.out << exploded.err);
  CHECK(exploded.exit_code == 1);
  CHECK_THAT(exploded.out, Contains("skipped, nothing was changed: the gradient is not finite in"));
  CHECK_THAT(exploded.err, Contains("3 steps in a row"));
  CHECK(run_command("checkpoint verify " + run.path("run")).exit_code == 0);
}

TEST_CASE("a model that cannot fit is refused with its plan before anything is allocated", "[train]") {
  const Run run;
  const CommandResult refused = run.train("--set 'model=\"llama/405b\"'");
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, Contains("the plan needs") && Contains("weights") && Contains("optimizer") && Contains("smaller model"));
  CHECK(!fs::exists(run.path("run")));
}

TEST_CASE("plans need no data", "[train]") {
  const CommandResult plan = run_command(std::string("plan ") + OXRSE_SOURCE_DIR + "/model_zoo/recipes/llama-405b.json");
  INFO(plan.err);
  CHECK(plan.exit_code == 0);
  CHECK_THAT(plan.out, Contains("405") && Contains("attention.backward") && Contains("gradients"));
}

TEST_CASE("one process at a time in a run directory", "[train]") {
  const Run run;
  fs::create_directory(run.path("run"));
  const int lock = open(run.path("run/.lock").c_str(), O_RDWR | O_CREAT, 0644);
  REQUIRE(flock(lock, LOCK_EX | LOCK_NB) == 0);
  const CommandResult refused = run.train();
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, Contains("another process is training"));
  close(lock);
  check_done(run.train());
}

TEST_CASE("a run on a GPU that is not there ends in one error, before there is a run directory") {
  if (fs::exists("/proc/driver/nvidia/gpus")) return;
  const Run run;
  const CommandResult result = run.train("--set 'run.device=\"cuda\"'");
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, Contains("error: run.device \"cuda\"") && Contains("\"cpu\""));
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  CHECK_FALSE(fs::exists(run.path("run")));
}

TEST_CASE("a run on the emulated GPU has the losses of the CPU; where it was left out, the error says so") {
  const Run run;
  const std::string options = "--set train.steps=2 --set checkpoint.every=0 ";
  const CommandResult emulated = run.train(options + run.in("emulated") + "--set 'run.device=\"cuda-emulated\"'");
  if (!build_info().cuda_emulation.starts_with("built in")) {
    CHECK(emulated.exit_code != 0);
    CHECK_THAT(emulated.err, Contains("run.device \"cuda-emulated\" is not in this build") && Contains("\"cpu\""));
    return;
  }
  check_done(emulated);
  CHECK_THAT(emulated.out, Contains("device   cuda-emulated, "));
  check_done(run.train(options));
  const std::vector<double> expected = run.losses(), got = run.losses("emulated");
  REQUIRE(got.size() == 2);
  REQUIRE(expected.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(got[i] == Approx(expected[i]).epsilon(2e-5));
  const CommandResult wide = run.train(options + run.in("f64") + "--set 'run.device=\"cuda-emulated\"' --set 'precision.compute=\"f64\"'");
  CHECK(wide.exit_code != 0);
  CHECK_THAT(wide.err, Contains("precision.compute f64 is for the CPU"));
  const CommandResult heads = run.train(options + run.in("heads") + "--set 'run.device=\"cuda-emulated\"' --set model.head_width=264");
  CHECK(heads.exit_code == 1);
  CHECK_THAT(heads.err, Contains("heads are 264 wide, and run.device \"cuda-emulated\" takes up to 256"));
  CHECK_FALSE(fs::exists(run.path("heads/checkpoints")));
}

TEST_CASE("a run goes on on another device, with a warning and the same numbers up to rounding") {
  if (!build_info().cuda_emulation.starts_with("built in")) return;
  const Run run;
  check_done(run.train(run.in("stayed") + "--set train.steps=4 --set 'optimizer.schedule=\"constant\"'"));
  const std::string options = run.in("moved") + "--set 'optimizer.schedule=\"constant\"' ";
  check_done(run.train(options + "--set train.steps=2 --set 'run.device=\"cpu\"'"));
  const CommandResult named = run.train(options + "--set train.steps=3 --set 'run.device=\"auto\"'");
  check_done(named);
  CHECK_THAT(named.err, !Contains("the run goes on on"));
  const CommandResult moved = run.train(options + "--set train.steps=4 --set 'run.device=\"cuda-emulated\"'");
  check_done(moved);
  CHECK_THAT(moved.err, Contains("saved on run.device \"cpu\", the run goes on on \"cuda-emulated\""));
  const std::vector<double> expected = run.losses("stayed"), got = run.losses("moved");
  REQUIRE(got.size() == 4);
  REQUIRE(expected.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(got[i] == Approx(expected[i]).epsilon(2e-5));
}
