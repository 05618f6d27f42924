// Data-parallel ranks (threads here): the same numbers as one rank, bit for bit where the config promises it.

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "engine/train/plan.h"
#include "engine/train/saving.h"
#include "tests/catch.h"
#include "tests/comm/ranks.h"
#include "tests/train/fixture.h"

using namespace oxrse;
using namespace oxrse::train;
using namespace oxrse::train::testing;
using comm::Communicator;

namespace {

/// The tensors of a training, whole, by label. Ranks that own pieces put them together here.
using State = std::map<std::string, std::string>;

void add_to(State& state, Training& training) {
  for (const io::CheckpointEntry& entry : checkpoint_entries(training, {})) {
    const io::Placement place = entry.place();
    std::string& whole = state[entry.label()];
    const std::int64_t size = size_of(entry.tensor.dtype());
    whole.resize(static_cast<std::size_t>(io::Region::whole(place.shape).count() * size), '?');
    const std::int64_t begin = place.region.flat ? place.region.offset[0] : 0;
    std::memcpy(whole.data() + begin * size, entry.tensor.address(), static_cast<std::size_t>(entry.tensor.bytes()));
  }
}

/// What ranks of a run did.
struct Outcome {
  std::vector<std::string> weights;           // what every rank computes with
  std::vector<std::int64_t> optimizer_bytes;  // of every rank
  State state;
  std::vector<StepReport> reports;  // of rank 0
  Evaluation evaluation;
};

Outcome train_on(int ranks, const Config& config, std::int64_t steps, bool in_background = false) {
  Outcome outcome;
  outcome.weights.resize(static_cast<std::size_t>(ranks));
  outcome.optimizer_bytes.resize(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  const auto body = [&](Communicator& communicator) {
    if (in_background) communicator.advance_in_background();
    Fixture fixture(config, 1, &communicator);
    std::vector<StepReport> reports;
    for (std::int64_t i = 0; i < steps; ++i) reports.push_back(fixture.step(i));
    const Evaluation evaluation = fixture.training().evaluate(&fixture.data(), 5);
    const std::lock_guard lock(mutex);
    const auto rank = static_cast<std::size_t>(communicator.rank());
    outcome.weights[rank] = weights_of(fixture.training());
    outcome.optimizer_bytes[rank] = fixture.training().context().arena->use()[Memory::Optimizer];
    add_to(outcome.state, fixture.training());
    if (rank == 0) {
      outcome.reports = reports;
      outcome.evaluation = evaluation;
    }
  };
  const auto errors = comm::testing::run_ranks(ranks, body, {.choice = {.allowed = {}, .keep_tree = config.comm.deterministic}});
  for (const std::string& error : errors) CHECK(error.empty());
  return outcome;
}

/// The same weights, optimizer states and reports, bit for bit.
void check_same(const Outcome& some, const Outcome& one) {
  for (const std::string& weights : some.weights) CHECK(weights == one.weights[0]);
  CHECK(some.state.size() == one.state.size());
  for (const auto& [label, bytes] : one.state) {
    INFO(label);
    CHECK((some.state.count(label) == 1 && some.state.at(label) == bytes));
  }
  for (std::size_t i = 0; i < one.reports.size(); ++i) {
    CHECK(some.reports[i].loss == one.reports[i].loss);
    CHECK(some.reports[i].grad_norm == one.reports[i].grad_norm);
    CHECK(some.reports[i].valid_tokens == one.reports[i].valid_tokens);
  }
  CHECK(some.evaluation.loss == one.evaluation.loss);
}

/// 24 micro-batches of one sample: every number of ranks below has another part of the tree.
Config shared_config() {
  Config config = tiny_config();
  config.train.global_batch = 24;
  config.train.micro_batch = 1;
  config.comm.bucket_mib = 0.004;  // several buckets
  return config;
}

}  // namespace

TEST_CASE("1, 2, 3, 4, 6 and 8 ranks have the same bits", "[parallel]") {
  Config config = shared_config();
  config.precision.compute = GENERATE("f32", "bf16");
  const Outcome one = train_on(1, config, 3);
  for (const int ranks : {2, 3, 4, 6, 8}) {
    for (const int zero : {0, 1}) {
      config.parallel.zero = zero;
      const Outcome some = train_on(ranks, config, 3);
      INFO(ranks << " ranks, zero " << zero);
      check_same(some, one);
      CHECK(some.evaluation.valid_tokens == 5 * 12);
    }
  }
}

TEST_CASE("ZeRO shares large parameters by pieces, with the same bits", "[parallel]") {
  Config config = shared_config();
  config.model["width"] = 64;
  config.model["mlp_width"] = 300;  // 19200 elements: two segments
  config.model["vocab"] = 1031;     // five segments
  config.comm.bucket_mib = GENERATE(0.3, 25.0);
  SECTION("AdamW, f32, clipped") { config.train.clip = 0.05; }
  SECTION("AdamW, bf16") { config.precision.compute = "bf16"; }
  SECTION("AdamW, bf16 rounded at random") {
    config.precision.compute = "bf16";
    config.precision.stochastic_rounding = true;
  }
  SECTION("AdamW, fp16 with a loss scale") { config.precision.compute = "fp16"; }
  SECTION("SGD") {
    config.optimizer.kind = "sgd";
    config.optimizer.momentum = 0.9;
  }
  const Outcome one = train_on(1, config, 2);
  config.parallel.zero = 1;
  for (const int ranks : {2, 3, 8}) {
    const Outcome some = train_on(ranks, config, 2, ranks < 4);
    INFO(ranks << " ranks");
    check_same(some, one);
    const std::int64_t most = *std::max_element(some.optimizer_bytes.begin(), some.optimizer_bytes.end());
    if (config.comm.bucket_mib > 1) CHECK(static_cast<double>(most) < 1.5 * static_cast<double>(one.optimizer_bytes[0]) / ranks + 4096);
  }
}

TEST_CASE("summing while backward goes on has the bits of summing afterwards", "[parallel]") {
  Config config = shared_config();
  config.parallel.zero = GENERATE(0, 1);
  config.comm.deterministic = GENERATE(true, false);
  config.train.global_batch = GENERATE(24, 3, 21);  // on three ranks 8, 1 and 7 micro-batches
  config.comm.overlap = false;
  const Outcome after = train_on(3, config, 2);
  config.comm.overlap = true;
  check_same(train_on(3, config, 2, true), after);
}

TEST_CASE("a plan for ranks has the memory that every rank takes at the most", "[parallel]") {
  Config config = shared_config();
  config.model["width"] = 64;
  config.model["vocab"] = 1031;
  config.comm.bucket_mib = 25;
  config.precision.compute = GENERATE("f32", "bf16");
  config.parallel.zero = GENERATE(0, 1);
  const Plan plan = make_plan(config, resolve_model(config, 0), parallel::Group::planned(3, false));
  const Plan alone = make_plan(config, resolve_model(config, 0));
  if (config.parallel.zero == 1) {
    CHECK(static_cast<double>(plan.memory[Memory::Optimizer]) < 0.5 * static_cast<double>(alone.memory[Memory::Optimizer]));
  }
  std::array<MemoryUse, 3> peaks;
  const auto errors = comm::testing::run_ranks(3, [&](Communicator& communicator) {
    Fixture fixture(config, 1, &communicator);
    fixture.step(0);
    peaks[static_cast<std::size_t>(communicator.rank())] = fixture.training().context().arena->peak();
  });
  for (const std::string& error : errors) CHECK(error.empty());
  CHECK(peaks[0].bytes == plan.memory.bytes);
  for (const MemoryUse& peak : peaks) CHECK(peak.total() <= plan.memory.total());
}

TEST_CASE("sums over ranks take the memory that the plan says, by any algorithm", "[parallel]") {
  Config config = shared_config();
  config.model["width"] = 64;
  config.model["vocab"] = 1031;
  config.comm.bucket_mib = GENERATE(0.1, 25.0);
  config.comm.deterministic = GENERATE(true, false);
  config.parallel.zero = GENERATE(0, 1);
  const int ranks = GENERATE(2, 3, 4);
  for (const char* algorithm : {"auto", "ring", "tree", "halving", "direct"}) {
    config.comm.algorithm = algorithm;
    const Plan plan = make_plan(config, resolve_model(config, 0), parallel::Group::planned(ranks, false));
    std::vector<std::int64_t> taken(static_cast<std::size_t>(ranks));
    const auto errors = comm::testing::run_ranks(ranks,
                                                 [&](Communicator& communicator) {
                                                   Fixture fixture(config, 1, &communicator);
                                                   fixture.step(0);
                                                   fixture.step(1);
                                                   taken[static_cast<std::size_t>(communicator.rank())] = communicator.scratch_peak();
                                                 },
                                                 {.choice = choice_of(config.comm)});
    for (const std::string& error : errors) CHECK(error.empty());
    INFO(algorithm);
    const std::int64_t most = *std::max_element(taken.begin(), taken.end());
    CHECK(most <= plan.communication_bytes);
    // The plan counts two sums of the largest bucket, for the rank that takes most. The chunks of trees depend on how fast messages are, so
    // there it takes the largest.
    if (config.comm.algorithm != "auto" && config.comm.algorithm != "tree") CHECK(8 * most >= plan.communication_bytes);
  }
}

TEST_CASE("any order of sums is right, and every rank has the same", "[parallel]") {
  Config config = shared_config();
  config.precision.compute = "f64";
  config.comm.deterministic = false;
  const Outcome one = train_on(1, config, 3);
  for (const int ranks : {2, 3, 8}) {
    const Outcome some = train_on(ranks, config, 3);
    for (const std::string& weights : some.weights) CHECK(weights == some.weights[0]);
    for (std::size_t i = 0; i < one.reports.size(); ++i) {
      CHECK(std::abs(some.reports[i].loss - one.reports[i].loss) <= 1e-12 * one.reports[i].loss);
      CHECK(std::abs(some.reports[i].grad_norm - one.reports[i].grad_norm) <= 1e-10 * one.reports[i].grad_norm);
    }
  }
}

TEST_CASE("targets that are ignored unevenly over ranks count by tokens", "[parallel]") {
  io::TemporaryDirectory directory;
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    // Some documents have one token, and so nothing to predict.
    lines +=
        R"({"text": ")" + std::string(static_cast<std::size_t>(i % 4 == 0 ? 1 : 1 + i * i % 23), static_cast<char>('a' + i % 26)) + "\"}\n";
  }
  io::put(directory / "documents.jsonl", lines);
  Config config = documents_config(directory / "documents.jsonl");
  config.train.global_batch = 6;
  config.train.micro_batch = 1;
  const Outcome one = train_on(1, config, 3);
  config.parallel.zero = GENERATE(0, 1);
  check_same(train_on(3, config, 3), one);
}

TEST_CASE("a batch that ranks cannot share is refused with the nearest that they can", "[parallel]") {
  Config config = tiny_config();  // 6 samples, 2 at a time
  CHECK_NOTHROW(check_ranks(config, 1));
  CHECK_NOTHROW(check_ranks(config, 3));
  CHECK_THROWS_WITH(check_ranks(config, 2),
                    Catch::Matchers::Contains("train.global_batch 6 is not a multiple") && Catch::Matchers::Contains("4 and 8"));
  CHECK_THROWS_WITH(check_ranks(config, 4), Catch::Matchers::EndsWith("the nearest value is 8"));
  config.parallel.data = 2;
  CHECK_THROWS_WITH(check_ranks(config, 3), Catch::Matchers::Contains("parallel.data is 2, but 3 ranks were started"));
}
