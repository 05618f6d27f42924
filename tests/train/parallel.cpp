// Data-parallel ranks (threads here): the same numbers as one rank, bit for bit where the config promises it.

#include <mutex>

#include "tests/catch.h"
#include "tests/comm/ranks.h"
#include "tests/train/fixture.h"

using namespace oxrse;
using namespace oxrse::train;
using namespace oxrse::train::testing;
using comm::Communicator;

namespace {

/// What ranks of a run did.
struct Outcome {
  std::vector<std::string> bits;    // of every rank
  std::vector<StepReport> reports;  // of rank 0
  Evaluation evaluation;
};

Outcome train_on(int ranks, const Config& config, std::int64_t steps) {
  Outcome outcome;
  outcome.bits.resize(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  const auto errors = comm::testing::run_ranks(ranks,
                                               [&](Communicator& communicator) {
                                                 Fixture fixture(config, 1, &communicator);
                                                 std::vector<StepReport> reports;
                                                 for (std::int64_t i = 0; i < steps; ++i) reports.push_back(fixture.step(i));
                                                 const Evaluation evaluation = fixture.training().evaluate(&fixture.data(), 5);
                                                 const std::lock_guard lock(mutex);
                                                 outcome.bits[static_cast<std::size_t>(communicator.rank())] = fixture.bits();
                                                 if (communicator.rank() == 0) {
                                                   outcome.reports = reports;
                                                   outcome.evaluation = evaluation;
                                                 }
                                               },
                                               {.choice = {.allowed = {}, .keep_tree = config.comm.deterministic}});
  for (const std::string& error : errors) CHECK(error.empty());
  return outcome;
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
    const Outcome some = train_on(ranks, config, 3);
    INFO(ranks << " ranks");
    for (const std::string& bits : some.bits) CHECK(bits == one.bits[0]);
    for (std::size_t i = 0; i < one.reports.size(); ++i) {
      CHECK(some.reports[i].loss == one.reports[i].loss);
      CHECK(some.reports[i].grad_norm == one.reports[i].grad_norm);
      CHECK(some.reports[i].valid_tokens == one.reports[i].valid_tokens);
    }
    CHECK(some.evaluation.loss == one.evaluation.loss);
    CHECK(some.evaluation.valid_tokens == 5 * 12);
  }
}

TEST_CASE("any order of sums is right, and every rank has the same", "[parallel]") {
  Config config = shared_config();
  config.precision.compute = "f64";
  config.comm.deterministic = false;
  const Outcome one = train_on(1, config, 3);
  for (const int ranks : {2, 3, 8}) {
    const Outcome some = train_on(ranks, config, 3);
    for (const std::string& bits : some.bits) CHECK(bits == some.bits[0]);
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
  const Outcome one = train_on(1, config, 3), three = train_on(3, config, 3);
  for (const std::string& bits : three.bits) CHECK(bits == one.bits[0]);
  CHECK(three.reports[2].valid_tokens == one.reports[2].valid_tokens);
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
