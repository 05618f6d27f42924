#include "engine/ops/optimizer.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/ops/harness.h"

namespace oxrse::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Values sum_squares(const std::vector<ConstTensor>& tensors, int threads = 2) {
  Guarded sums(DType::F64, {static_cast<std::int64_t>(tensors.size())});
  Context context = context_for(DType::F32, threads);
  ops::run(context, ops::SumSquares{.sums = sums.view(), .tensors = tensors});
  CHECK(sums.intact());
  CHECK(sums.written());
  return sums.values();
}

Guarded filled(DType type, const Values& values) {
  Guarded tensor(type, {static_cast<std::int64_t>(values.size())});
  tensor.set(values);
  return tensor;
}

/// A control tensor and its update by ClipFactor.
struct Control {
  Guarded values = filled(DType::F64, {0, 0, 0, 0});

  void clip(const Values& sums, double unscale, double clip) {
    Guarded input = filled(DType::F64, sums);
    Context context = context_for(DType::F32);
    ops::run(context, ops::ClipFactor{.control = values.view(), .sums = input.view(), .unscale = unscale, .clip = clip});
    CHECK(values.intact());
  }
  [[nodiscard]] double operator[](ops::ControlColumn column) const { return values.values()[column]; }
};

/// Parameters of odd sizes, one of them empty, one longer than several tiles, every second one decayed.
struct Parameters {
  explicit Parameters(DType type, DType compute = DType::None) {
    std::uint64_t seed = 10;
    for (const std::int64_t count : {5, 0, 1, 48, 40001}) {
      weights.push_back(filled(type, normal({count}, ++seed).values));
      gradients.push_back(filled(type, normal({count}, ++seed).values));
      firsts.push_back(filled(type, Values(static_cast<std::size_t>(count), 0.0)));
      seconds.push_back(filled(type, Values(static_cast<std::size_t>(count), 0.0)));
      if (compute != DType::None) computes.emplace_back(compute, Sizes{count});
    }
  }
  [[nodiscard]] std::vector<ops::ParameterSlice> slices(bool moments = true) const {
    std::vector<ops::ParameterSlice> result;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      result.push_back({.weight = weights[i].view(),
                        .compute = computes.empty() ? Tensor{} : computes[i].view(),
                        .gradient = gradients[i].view(),
                        .first = moments ? firsts[i].view() : Tensor{},
                        .second = moments ? seconds[i].view() : Tensor{},
                        .decay = i % 2 == 0});
    }
    return result;
  }
  /// All bits of all tensors.
  [[nodiscard]] std::vector<std::vector<std::byte>> bits() const {
    std::vector<std::vector<std::byte>> result;
    for (const auto* list : {&weights, &gradients, &firsts, &seconds, &computes}) {
      for (const Guarded& t : *list) result.push_back(t.bits());
    }
    return result;
  }
  [[nodiscard]] bool intact() const {
    bool all = true;
    for (const auto* list : {&weights, &gradients, &firsts, &seconds, &computes}) {
      for (const Guarded& t : *list) all = all && t.intact();
    }
    return all;
  }

  std::vector<Guarded> weights, gradients, firsts, seconds, computes;
};

constexpr double kLr = 0.01, kBeta1 = 0.9, kBeta2 = 0.95, kEps = 1e-8, kDecay = 0.1;

void adamw(const Parameters& p, const Control& control, int threads = 2) {
  const auto slices = p.slices();
  Context context = context_for(DType::F32, threads);
  ops::run(context, ops::AdamW{.parameters = slices,
                               .control = control.values.view(),
                               .lr = kLr,
                               .beta1 = kBeta1,
                               .beta2 = kBeta2,
                               .eps = kEps,
                               .weight_decay = kDecay});
  CHECK(p.intact());
}

void sgd(const Parameters& p, const Control& control, double momentum, int threads = 2) {
  const auto slices = p.slices(momentum != 0);
  Context context = context_for(DType::F32, threads);
  ops::run(context,
           ops::Sgd{.parameters = slices, .control = control.values.view(), .lr = kLr, .momentum = momentum, .weight_decay = kDecay});
  CHECK(p.intact());
}

/// The gradient of step `t`, element i of parameter k.
double gradient_at(int t, std::size_t k, std::size_t i) {
  return std::sin(1.0 + 0.7 * t + 3.0 * static_cast<double>(k) + static_cast<double>(i));
}

void set_gradients(Parameters& p, int t) {
  for (std::size_t k = 0; k < p.gradients.size(); ++k) {
    Values g(static_cast<std::size_t>(p.gradients[k].view().count()));
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = gradient_at(t, k, i);
    p.gradients[k].set(g);
  }
}

double normalised_error(const Values& got, const Values& expected) {
  double error = 0, square = 1e-300;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    square += expected[i] * expected[i];
  }
  return error / square;
}

}  // namespace

TEST_CASE("sum_squares: one number a tensor, empty ones give 0") {
  const Guarded five(DType::F32, {5, 0});
  const Guarded a = filled(DType::F32, {3, 4});
  const Guarded b = filled(DType::BF16, {2});
  const Guarded c = filled(DType::F64, {0.5, 0.5, 0.5, 0.5});
  const Guarded d = filled(DType::F16, {-8});
  CHECK(sum_squares({five.view(), a.view(), b.view(), five.view(), c.view(), d.view()}) == Values{0, 25, 4, 0, 1, 64});
  const std::vector<ConstTensor> empty(1000, five.view());
  CHECK(sum_squares(empty) == Values(1000, 0.0));
  CHECK(sum_squares({}).empty());
}

TEST_CASE("sum_squares: long tensors, any number of threads, no overflow in f32") {
  const Values values = normal({100001}, 3).values;
  double expected = 0;
  for (const double v : values) expected += rounded(DType::F32, v) * rounded(DType::F32, v);
  const Guarded x = filled(DType::F32, values);
  const Values one = sum_squares({x.view(), x.view()}, 1);
  CHECK(one[0] == Approx(expected).epsilon(1e-12));
  CHECK(one[1] == one[0]);
  CHECK(sum_squares({x.view(), x.view()}, 2) == one);
  CHECK(sum_squares({x.view(), x.view()}, 3) == one);
  CHECK(sum_squares({filled(DType::F32, {1e30}).view()})[0] == Approx(1e60));
}

TEST_CASE("sum_squares: a NaN or an infinity anywhere shows, and only in its tensor") {
  for (const double bad : {static_cast<double>(std::nan("")), kInfinity, -kInfinity}) {
    for (const std::size_t at : {0, 20000, 40000}) {
      Values values(40001, 1.0);
      const Guarded good = filled(DType::F32, values);
      values[at] = bad;
      const Guarded x = filled(DType::F32, values);
      const Values sums = sum_squares({good.view(), x.view()});
      CHECK(sums[0] == 40001);
      CHECK_FALSE(std::isfinite(sums[1]));
    }
  }
}

TEST_CASE("clip_factor: norm, factor, count") {
  Control control;
  control.clip({9, 0, 16}, 0.5, 0);
  CHECK(control[ops::kNorm] == 2.5);
  CHECK(control[ops::kFactor] == 0.5);
  CHECK(control[ops::kApply] == 1);
  CHECK(control[ops::kUpdates] == 1);
  control.clip({9, 16}, 0.5, 1);
  CHECK(control[ops::kFactor] == Approx(0.5 / 2.500001).epsilon(1e-14));
  control.clip({9, 16}, 0.5, 10);
  CHECK(control[ops::kFactor] == 0.5);
  CHECK(control[ops::kUpdates] == 3);
  control.clip({}, 0.5, 1);
  CHECK(control[ops::kNorm] == 0);
  CHECK(control[ops::kFactor] == 0.5);
  CHECK(control[ops::kUpdates] == 4);
}

TEST_CASE("clip_factor: what is not finite is not applied and not counted") {
  Control control;
  control.clip({1}, 1, 1);
  for (const double bad : {static_cast<double>(std::nan("")), kInfinity}) {
    control.clip({1, bad}, 1, 1);
    CHECK(control[ops::kApply] == 0);
    CHECK(control[ops::kUpdates] == 1);
    CHECK_FALSE(std::isfinite(control[ops::kNorm]));
  }
  control.clip({1}, kInfinity, 1);  // no valid token
  CHECK(control[ops::kApply] == 0);
}

TEST_CASE("optimizers: a step that is not applied changes no bit") {
  Parameters p(DType::F32, DType::BF16);
  Control control;
  p.gradients[0].set(Values{kInfinity, 1, 2, 3, std::nan("")});
  control.clip({std::nan("")}, 1, 1);
  const auto before = p.bits();
  adamw(p, control);
  sgd(p, control, 0.9);
  CHECK(p.bits() == before);
}

TEST_CASE("adamw: twenty steps against the textbook in f64") {
  for (const DType type : {DType::F64, DType::F32}) {
    Parameters p(type);
    Control control;
    std::vector<Values> weights, m, v;
    for (const Guarded& w : p.weights) {
      weights.push_back(w.values());
      m.emplace_back(weights.back().size(), 0.0);
      v.emplace_back(weights.back().size(), 0.0);
    }
    for (int t = 1; t <= 20; ++t) {
      set_gradients(p, t);
      control.clip({4}, 0.25, 0.1);
      const double factor = control[ops::kFactor];
      adamw(p, control);
      for (std::size_t k = 0; k < weights.size(); ++k) {
        for (std::size_t i = 0; i < weights[k].size(); ++i) {
          const double g = factor * rounded(type, gradient_at(t, k, i));
          m[k][i] = kBeta1 * m[k][i] + (1 - kBeta1) * g;
          v[k][i] = kBeta2 * v[k][i] + (1 - kBeta2) * g * g;
          const double m_hat = m[k][i] / (1 - std::pow(kBeta1, t));
          const double v_hat = v[k][i] / (1 - std::pow(kBeta2, t));
          if (k % 2 == 0) weights[k][i] *= 1 - kLr * kDecay;
          weights[k][i] -= kLr * m_hat / (std::sqrt(v_hat) + kEps);
        }
      }
    }
    const double bound = type == DType::F64 ? 1e-26 : 1e-10;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      INFO(name_of(type) << " parameter " << k);
      CHECK(normalised_error(p.weights[k].values(), weights[k]) <= bound);
      CHECK(normalised_error(p.firsts[k].values(), m[k]) <= bound);
      CHECK(normalised_error(p.seconds[k].values(), v[k]) <= bound);
    }
  }
}

TEST_CASE("adamw: the first step moves by lr against the sign of the gradient") {
  Parameters p(DType::F64);
  Control control;
  control.clip({1}, 1, 0);
  const Values before = p.weights[3].values();  // not decayed
  const Values gradient = p.gradients[3].values();
  adamw(p, control);
  const Values after = p.weights[3].values();
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK(after[i] - before[i] == Approx(-kLr * gradient[i] / (std::abs(gradient[i]) + kEps)).epsilon(1e-12));
  }
}

TEST_CASE("adamw: without a gradient, decay alone shrinks the weights and nothing becomes NaN") {
  Parameters p(DType::F32);
  Control control;
  for (Guarded& g : p.gradients) g.set(Values(static_cast<std::size_t>(g.view().count()), 0.0));
  control.clip({0}, 1, 1);
  const Values decayed = p.weights[0].values(), kept = p.weights[3].values();
  adamw(p, control);
  CHECK(p.weights[3].values() == kept);
  for (std::size_t i = 0; i < decayed.size(); ++i) CHECK(p.weights[0].values()[i] == Approx(decayed[i] * (1 - kLr * kDecay)).epsilon(1e-6));
}

TEST_CASE("adamw with beta1 = beta2 = 0: the first moment is the scaled gradient") {
  Parameters p(DType::F64);
  Control control;
  control.clip({1}, 0.125, 0);
  const auto slices = p.slices();
  Context context = context_for(DType::F32);
  ops::run(context, ops::AdamW{.parameters = slices, .control = control.values.view(), .lr = 0, .beta1 = 0, .beta2 = 0});
  Values expected = p.gradients[4].values();
  for (double& g : expected) g *= 0.125;
  CHECK(p.firsts[4].values() == expected);
}

TEST_CASE("sgd: ten steps against the textbook in f64, with and without momentum") {
  for (const double momentum : {0.0, 0.9}) {
    for (const DType type : {DType::F64, DType::F32}) {
      Parameters p(type);
      Control control;
      std::vector<Values> weights, buffers;
      for (const Guarded& w : p.weights) {
        weights.push_back(w.values());
        buffers.emplace_back(weights.back().size(), 0.0);
      }
      for (int t = 1; t <= 10; ++t) {
        set_gradients(p, t);
        control.clip({4}, 0.25, 0.1);
        sgd(p, control, momentum);
        for (std::size_t k = 0; k < weights.size(); ++k) {
          for (std::size_t i = 0; i < weights[k].size(); ++i) {
            double g = control[ops::kFactor] * rounded(type, gradient_at(t, k, i));
            if (k % 2 == 0) g += kDecay * weights[k][i];
            buffers[k][i] = momentum * buffers[k][i] + g;
            weights[k][i] -= kLr * buffers[k][i];
          }
        }
      }
      for (std::size_t k = 0; k < weights.size(); ++k) {
        CHECK(normalised_error(p.weights[k].values(), weights[k]) <= (type == DType::F64 ? 1e-26 : 1e-10));
      }
    }
  }
}

TEST_CASE("optimizers: the copy in the compute type is the weight rounded once") {
  for (const DType compute : {DType::BF16, DType::F16, DType::F32}) {
    for (const DType type : {DType::F32, DType::F64}) {
      Parameters p(type, compute);
      Control control;
      control.clip({1}, 1, 0);
      for (int step = 0; step < 2; ++step) {
        if (step == 0) adamw(p, control);
        if (step == 1) sgd(p, control, 0.9);
        for (std::size_t k = 0; k < p.weights.size(); ++k) {
          Values expected = p.weights[k].values();
          for (double& v : expected) v = rounded(compute, v);
          CHECK(p.computes[k].values() == expected);
        }
      }
    }
  }
}

TEST_CASE("optimizers: same bits on any number of threads") {
  std::vector<std::vector<std::vector<std::byte>>> results;
  for (const int threads : {1, 2, 3}) {
    Parameters p(DType::F32, DType::BF16);
    Control control;
    control.clip({1}, 1, 0);
    adamw(p, control, threads);
    sgd(p, control, 0.9, threads);
    results.push_back(p.bits());
  }
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}

TEST_CASE("optimizers: no parameters, a thousand empty ones") {
  Control control;
  control.clip({}, 1, 1);
  const Guarded empty(DType::F32, {5, 0});
  const ops::ParameterSlice slice{.weight = empty.view(), .gradient = empty.view(), .first = empty.view(), .second = empty.view()};
  Context context = context_for(DType::F32);
  for (const std::size_t count : {0, 1000}) {
    const std::vector<ops::ParameterSlice> slices(count, slice);
    ops::run(context, ops::AdamW{.parameters = slices, .control = control.values.view()});
    ops::run(context, ops::Sgd{.parameters = slices, .control = control.values.view()});
  }
}

TEST_CASE("optimizers: bad arguments are named") {
  Context context = context_for(DType::F32);
  const Control control;
  const Guarded four(DType::F32, {4}), five(DType::F32, {5}), whole(DType::I32, {4}), shorter(DType::BF16, {4});
  const auto step = [&](const ops::ParameterSlice& bad) {
    const ops::ParameterSlice good{.weight = four.view(), .gradient = four.view(), .first = four.view(), .second = four.view()};
    const std::vector<ops::ParameterSlice> slices{good, bad};
    ops::run(context, ops::AdamW{.parameters = slices, .control = control.values.view()});
  };
  check_error([&] { step({.weight = shorter.view(), .gradient = four.view()}); },
              {"adamw: parameter 1 weight must be contiguous f32 or f64, got bf16(4)"});
  check_error([&] { step({.weight = four.view(), .gradient = five.view()}); },
              {"adamw: parameter 1 gradient must be contiguous and like weight f32(4), got f32(5)"});
  check_error([&] { step({.weight = four.view(), .gradient = four.view(), .first = four.view()}); },
              {"adamw: parameter 1 second", "absent"});
  check_error([&] { step({.weight = four.view(), .compute = whole.view(), .gradient = four.view()}); }, {"parameter 1 compute", "i32(4)"});
  const std::vector<ConstTensor> tensors{four.view(), whole.view()};
  check_error([&] { ops::run(context, ops::SumSquares{.sums = four.view(), .tensors = tensors}); },
              {"sum_squares: sums must be f64(2), got f32(4)"});
  const Guarded two(DType::F64, {2});
  check_error([&] { ops::run(context, ops::SumSquares{.sums = two.view(), .tensors = tensors}); },
              {"sum_squares: tensor 1 must be contiguous and floating, got i32(4)"});
  check_error([&] { ops::run(context, ops::ClipFactor{.control = two.view(), .sums = two.view()}); },
              {"clip_factor: control must be f64(4), got f64(2)"});
  const std::vector<ops::ParameterSlice> one{{.weight = four.view(), .gradient = four.view()}};
  check_error([&] { ops::run(context, ops::Sgd{.parameters = one, .control = control.values.view(), .momentum = 0.9}); },
              {"sgd: parameter 0 first", "absent"});
}

}  // namespace oxrse::test
