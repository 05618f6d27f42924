#include "benchmarks/checkpoint_training.h"

#include "tests/catch.h"
#include "tests/io/temporary.h"

using namespace oxrse;
using namespace oxrse::bench;

TEST_CASE("training with and without saves is timed on the same steps and leaves nothing behind") {
  const io::TemporaryDirectory directory;
  const train::Config config = train::load_config(parse_json(R"({
    "model": {"layers": 2, "width": 32, "heads": 2, "context": 16, "vocab": 97},
    "train": {"micro_batch": 2, "global_batch": 2, "context": 16, "eval_every": 0},
    "checkpoint": {"every": 3, "keep": 1}})",
                                                             "test"));
  const SavingResult result = run_saving(config, directory.path(), 1, {.threads = 2});
  CHECK(std::filesystem::is_empty(directory.path()));
  CHECK(result.every == 3);
  CHECK(result.rounds == 1);
  CHECK(result.stall > 0);
  CHECK(result.save >= result.stall);
  CHECK(result.step_saving * 3 >= result.save);  // a round lasts until its save is on the disk
  CHECK(result.speed > 0);
  const Json json = to_json(result);
  for (const char* key : {"step_s", "step_with_saves_s", "throughput", "stall_s", "save_s"}) CHECK(json.at(key).get<double>() > 0);
}
