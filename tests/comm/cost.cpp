#include "comm/cost.h"

#include <cmath>

#include "tests/catch.h"

using namespace oxrse;
using namespace oxrse::comm;
using Catch::Matchers::Contains;

namespace {

CostModel simple() { return {.message = CostModel::straight(3e-6, 2e-10), .operation = 4e-7, .gamma = 5e-10, .copy = 1e-10}; }

Request all_reduce(int ranks, std::int64_t count) {
  Request r = request(Collective::AllReduce, ranks, count);
  r.in_place = true;
  return r;
}

}  // namespace

TEST_CASE("a message takes what the table says, between its sizes and beyond", "[cost]") {
  const CostModel model = simple();
  for (const double bytes : {4.0, 5.0, 4096.0, 100000.0, 1048576.0, 3e9}) {
    CHECK(model.message_seconds(bytes) == Approx(3e-6 + 2e-10 * bytes).epsilon(1e-12));
  }
  CHECK(model.message_seconds(1) == model.message_seconds(4));  // nothing is sent faster than the least
  CHECK(model.bandwidth() == Approx(5e9).epsilon(1e-12));
}

TEST_CASE("predicted times are those of the formulas", "[cost]") {
  CostModel model = simple();
  model.copy = 0;  // inside a rank
  const double a = 3e-6, b = 2e-10, g = 5e-10, operation = 4e-7;
  for (const int n : {2, 4, 8}) {
    const std::int64_t count = 8 * 1024;
    const double S = 4.0 * static_cast<double>(count), share = (n - 1.0) / n, levels = std::log2(n);
    const Request r = all_reduce(n, count);
    const auto predicted = [&](Algorithm algorithm) { return model.predict(algorithm, r, DType::F32); };
    CHECK(predicted(Algorithm::Ring) == Approx(operation + 2 * (n - 1) * a + 2 * S * share * b + S * share * g).epsilon(1e-9));
    CHECK(predicted(Algorithm::Halving) == Approx(operation + 2 * levels * a + 2 * S * share * b + S * share * g).epsilon(1e-9));
    CHECK(predicted(Algorithm::Doubling) == Approx(operation + levels * (a + S * b + S * g)).epsilon(1e-9));
    CHECK(predicted(Algorithm::Direct) == Approx(operation + 2 * (n - 1) * a + 2 * S * share * b + S * share * g).epsilon(1e-9));
  }
}

TEST_CASE("the least predicted time decides", "[cost]") {
  CostModel model = simple();
  CHECK(choose(model, all_reduce(4, 2), DType::F32, {}) == Algorithm::Doubling);
  const Algorithm large = choose(model, all_reduce(4, 1 << 20), DType::F32, {});
  CHECK(large != Algorithm::Doubling);
  CHECK(choose(model, all_reduce(4, 1 << 20), DType::F32, {.allowed = {Algorithm::Tree}}) == Algorithm::Tree);

  // A protocol that messages from 16 KiB on pay for: two halves of 8 KiB are better than one message.
  const Request r = all_reduce(2, 4096);
  model.gamma = 0;
  model.message = CostModel::straight(3e-6, 2e-10);
  CHECK(choose(model, r, DType::F32, {}) == Algorithm::Doubling);
  for (int k = 0; k < CostModel::kSizes; ++k) {
    if (CostModel::size(k) >= 16 << 10) model.message[static_cast<std::size_t>(k)] += 20e-6;
  }
  CHECK(choose(model, r, DType::F32, {}) != Algorithm::Doubling);
}

TEST_CASE("costs are read as they were written, and only whole", "[cost]") {
  CostModel model = simple();
  model.message[7] = model.message[6];  // as on a machine that was busy
  const std::string text = to_json(model).dump();
  const CostModel read = read_costs(parse_json(text, "costs.json"));
  CHECK(read.message == model.message);
  CHECK(read.operation == model.operation);
  CHECK(read.gamma == model.gamma);
  CHECK(read.copy == model.copy);

  const auto refused = [&](const char* key, const Json& value, const char* message) {
    Json changed = to_json(model);
    changed[key] = value;
    CHECK_THROWS_WITH(read_costs(parse_json(changed.dump(), "costs.json")), Contains(message));
  };
  refused("sum_s_per_byte", 0, "sum_s_per_byte: expected seconds above 0, not 0");
  refused("copy_s_per_byte", "fast", "copy_s_per_byte: expected seconds above 0, not \"fast\"");
  refused("message_bytes", {4, 8}, "--save-costs");
  Json falling = to_json(model)["message_s"];
  falling[3] = 1e-9;
  refused("message_s", falling, "message_s[3]: expected no less than for fewer bytes");
  refused("message_s", {1e-6}, "message_s");
}
