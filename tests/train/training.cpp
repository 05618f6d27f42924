// What a step means: accumulation, masks, skipped steps, threads, schedules, long runs.

#include "engine/train/training.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/train/fixture.h"

using namespace oxrse;
using namespace oxrse::train;
using namespace oxrse::train::testing;

TEST_CASE("the sum of micro-batches is the batch", "[train]") {
  Config whole = tiny_config();
  whole.precision.compute = "f64";
  whole.train.micro_batch = 6;
  Config parts = whole;
  parts.train.micro_batch = GENERATE(1, 2, 3);
  parts.comm.deterministic = GENERATE(true, false);
  Fixture a(whole), b(parts);
  for (std::int64_t i = 0; i < 4; ++i) {
    const StepReport x = a.step(i), y = b.step(i);
    CHECK(std::abs(x.loss - y.loss) <= 1e-12 * x.loss);
    CHECK(std::abs(x.grad_norm - y.grad_norm) <= 1e-11 * x.grad_norm);
    CHECK(x.valid_tokens == 72);
  }
}

TEST_CASE("unevenly ignored targets count by tokens, not by micro-batches", "[train]") {
  // Documents of different lengths: the last token of each has no target, so micro-batches have unequal numbers of them.
  io::TemporaryDirectory directory;
  std::string lines;
  for (int i = 0; i < 40; ++i)
    lines += R"({"text": ")" + std::string(static_cast<std::size_t>(1 + i * i % 23), static_cast<char>('a' + i % 26)) + "\"}\n";
  io::put(directory / "documents.jsonl", lines);
  Config config = documents_config(directory / "documents.jsonl");
  config.precision.compute = "f64";
  Config whole = config;
  whole.train.micro_batch = 6;
  config.train.micro_batch = 1;
  Fixture a(whole), b(config);
  for (std::int64_t i = 0; i < 3; ++i) {
    const StepReport x = a.step(i), y = b.step(i);
    CHECK(x.valid_tokens == y.valid_tokens);
    CHECK(std::abs(x.loss - y.loss) <= 1e-12 * x.loss);
    CHECK(std::abs(x.grad_norm - y.grad_norm) <= 1e-11 * x.grad_norm);
  }
}

TEST_CASE("the same bits on any number of threads and with any recomputation", "[train]") {
  Config config = tiny_config();
  config.precision.compute = GENERATE("f32", "f64");
  Fixture reference(config);
  for (std::int64_t i = 0; i < 3; ++i) reference.step(i);
  for (const int threads : {2, 3}) {
    Config other = config;
    other.train.recompute = threads == 2 ? "block" : "attention";
    Fixture fixture(other, threads);
    for (std::int64_t i = 0; i < 3; ++i) fixture.step(i);
    CHECK(fixture.bits() == reference.bits());
  }
}

TEST_CASE("a step without a finite gradient is skipped and named, and nothing else changes", "[train]") {
  Config config = tiny_config();
  config.optimizer.kind = GENERATE("adamw", "sgd");
  Fixture hit(config), clean(config);
  for (std::int64_t i = 0; i < 4; ++i) {
    hit.step(i);
    clean.step(i);
  }
  const std::string before = hit.bits();
  StepReport report;
  hit.training().accumulate(&hit.data(), 4, report);
  const ConstTensor gradient = hit.training().gradients().sums()[3];
  const_cast<float*>(gradient.data<float>())[1] = GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
  hit.training().update(report);
  CHECK_FALSE(report.applied);
  CHECK_FALSE(std::isfinite(report.grad_norm));
  CHECK(hit.bits() == before);
  const auto names = hit.training().optimizer().not_finite();
  REQUIRE(names.size() == 1);
  CHECK(names[0] == hit.training().parameters().parameters()[3].name);
  // A run that never took step 4 is where this one goes on: same schedule, same count of updates.
  for (std::int64_t i = 5; i < 8; ++i) {
    const StepReport x = hit.step(i), y = clean.step(i);
    CHECK(x.applied);
    CHECK(x.loss == y.loss);
    CHECK(x.lr == y.lr);
  }
  CHECK(hit.bits() == clean.bits());
}

TEST_CASE("evaluation changes nothing", "[train]") {
  Fixture evaluated(tiny_config()), plain(tiny_config());
  for (std::int64_t i = 0; i < 4; ++i) {
    const double loss = evaluated.step(i).loss;
    CHECK(evaluated.training().evaluate(&evaluated.data(), 5).valid_tokens == 5 * 12);
    CHECK(loss == plain.step(i).loss);
  }
  CHECK(evaluated.bits() == plain.bits());
}

TEST_CASE("evaluation counts every sample once, whatever the batch", "[train]") {
  Config config = tiny_config();
  config.precision.compute = "f64";
  Fixture two(config);
  config.train.micro_batch = 6;
  Fixture six(config);
  for (const std::int64_t samples : {1, 5, 7, 13}) {
    const Evaluation a = two.training().evaluate(&two.data(), samples), b = six.training().evaluate(&six.data(), samples);
    CHECK(a.valid_tokens == samples * 12);
    CHECK(b.valid_tokens == samples * 12);
    CHECK(std::abs(a.loss - b.loss) <= 1e-12 * a.loss);
  }
}

TEST_CASE("an epoch takes the same samples with and without accumulation", "[train]") {
  Config config = tiny_config();
  config.precision.compute = "f64";
  config.data.order = "shuffled";
  config.train.micro_batch = 6;
  Fixture whole(config);
  config.train.micro_batch = 3;
  Fixture halves(config);
  for (std::int64_t i = 0; i < 14; ++i) {  // 72 samples: two epochs and a bit
    const double a = whole.step(i).loss, b = halves.step(i).loss;
    CHECK(std::abs(a - b) <= 1e-9 * a);
  }
}

TEST_CASE("long runs: the loss goes down and stays down", "[train]") {
  Config config = tiny_config();
  config.train.steps = 500;
  config.optimizer.kind = GENERATE("adamw", "sgd");
  if (config.optimizer.kind == "sgd") config.optimizer.lr = 0.2;
  config.optimizer.schedule = GENERATE("cosine", "wsd");
  Fixture fixture(config, 2);
  const double first = fixture.step(0).loss;
  double worst_late = 0;
  for (std::int64_t i = 1; i < 500; ++i) {
    const StepReport report = fixture.step(i);
    REQUIRE(report.applied);
    if (i >= 300) worst_late = std::max(worst_late, report.loss);
  }
  CHECK(first > 3.2);
  CAPTURE(config.optimizer.kind, config.optimizer.schedule);
  CHECK(worst_late < (config.optimizer.kind == "sgd" ? 0.8 : 0.6) * first);
}

TEST_CASE("all targets ignored: loss and gradient are zero", "[train]") {
  io::TemporaryDirectory directory;
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += "{\"text\": \"x\"}\n";  // documents of one token: nothing to predict
  io::put(directory / "documents.jsonl", lines);
  Fixture fixture(documents_config(directory / "documents.jsonl"));
  const StepReport report = fixture.step(0);
  CHECK(report.valid_tokens == 0);
  CHECK(report.loss == 0);
  CHECK(report.grad_norm == 0);
  CHECK(report.applied);
}

TEST_CASE("pairwise sums follow the tree of the gradients", "[train]") {
  const std::vector<double> values = {1e16, 1, -1e16, 1, 3};
  CHECK(pairwise_sum(values) == ((1e16 + 1) + (-1e16 + 1)) + 3);
  CHECK(pairwise_sum({}) == 0);
}
