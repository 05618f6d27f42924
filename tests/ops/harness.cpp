#include "tests/ops/harness.h"

#include <algorithm>
#include <cmath>

#include "tests/catch.h"

namespace oxrse::test {
namespace {

double largest(const Values& values) {
  double result = 0;
  for (const double v : values) result = std::max(result, std::abs(v));
  return result;
}

/// Compares without letting a NaN pass; one CHECK a tensor, which names the worst element.
void check_close(const std::string& label, const Values& got, const Values& expected, double tolerance) {
  INFO(label << ": tolerance " << tolerance);
  REQUIRE(got.size() == expected.size());
  std::size_t worst = 0;
  double error = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double e = std::abs(got[i] - expected[i]);
    if (!(e <= error)) {
      error = e;
      worst = i;
      if (std::isnan(e)) break;
    }
  }
  if (!(error <= tolerance)) UNSCOPED_INFO("element " << worst << ": got " << got[worst] << ", expected " << expected[worst]);
  CHECK(error <= tolerance);
}

/// sum(dy * y) over the results that have a gradient among the inputs.
double scalar(const OpCase& c) {
  Run run(c.inputs, {});
  c.forward(run);
  double sum = 0;
  for (const auto& [name, y] : run.results()) {
    const auto dy = c.inputs.find("d" + name);
    if (dy == c.inputs.end()) continue;
    for (std::size_t i = 0; i < y.values.size(); ++i) sum += dy->second.values[i] * y.values[i];
  }
  return sum;
}

using Bits = std::map<std::string, std::vector<std::byte>>;
Bits bits(const OpCase& c, const Setting& setting) {
  Run run(c.inputs, setting);
  c.forward(run);
  if (c.backward) c.backward(run);
  run.results();
  return run.bits();
}

/// Elements that bring the longest rows of the inputs to a multiple of 64.
std::int64_t gap_to_align(const OpCase& c) {
  std::int64_t columns = 0;
  for (const auto& [name, array] : c.inputs) columns = std::max(columns, array.sizes.back());
  return 64 - columns % 64;
}

constexpr DType kTypes[] = {DType::F64, DType::F32, DType::BF16, DType::F16};

}  // namespace

Arrays execute(const OpCase& c, const Setting& setting) {
  INFO(c.name << " in " << name_of(setting.type));
  Run run(c.inputs, setting);
  c.forward(run);
  if (c.backward) c.backward(run);
  return run.results();
}

OpCase rounded_to(DType type, OpCase c) {
  for (auto& [name, array] : c.inputs) {
    const bool whole = std::ranges::all_of(array.values, [](double v) { return v == std::floor(v); });
    if (whole) continue;
    for (double& v : array.values) v = rounded(type, v);
  }
  return c;
}

void check_gradients(const OpCase& c) {
  if (device_under_test().device != nullptr) return;  // f64 stays on the CPU, whose own tests look at it
  constexpr double kStep = 1e-5;
  const Arrays results = execute(c, {});
  int checked = 0;
  for (const auto& [name, x] : c.inputs) {
    const auto found = results.find("d" + name);
    if (found == results.end() || c.inputs.contains("d" + name)) continue;
    const Values& gradient = found->second.values;
    REQUIRE(gradient.size() == x.values.size());
    const double scale = largest(gradient);
    OpCase moved = c;
    const std::size_t stride = gradient.size() / 60 + 1;
    for (std::size_t i = 0; i < gradient.size(); i += stride) {
      double& value = moved.inputs.at(name).values[i];
      const double h = kStep * std::max(1.0, std::abs(x.values[i]));
      value = x.values[i] + h;
      const double above = scalar(moved);
      value = x.values[i] - h;
      const double below = scalar(moved);
      value = x.values[i];
      const double difference = (above - below) / (2 * h);
      // The differences themselves are known to the rounding of the sum over their step.
      const double tolerance = 1e-6 * scale + 1e-14 * std::abs(above) / h;
      if (!(std::abs(gradient[i] - difference) <= tolerance)) {
        INFO(c.name << ": d" << name << "[" << i << "] is " << gradient[i] << ", central difference " << difference);
        CHECK(std::abs(gradient[i] - difference) <= tolerance);
      }
    }
    ++checked;
  }
  INFO(c.name);
  CHECK(checked > 0);
}

void check_threads(const OpCase& c) {
  for (const DType type : kTypes) {
    if (type == DType::F64 && device_under_test().device != nullptr) continue;
    INFO(c.name << " in " << name_of(type));
    const Bits one = bits(c, {.type = type});
    CHECK(one == bits(c, {.type = type, .threads = 2}));
    CHECK(one == bits(c, {.type = type, .threads = 3}));
  }
}

void check_strides(const OpCase& c, DType type) {
  INFO(c.name << " in " << name_of(type));
  CHECK(bits(c, {.type = type}) == bits(c, {.type = type, .gap = 5}));
}

void check_alignment(const OpCase& c) {
  for (const DType type : {DType::F32, DType::BF16, DType::F16}) {
    INFO(c.name << " in " << name_of(type));
    const Bits apart = bits(c, {.type = type});
    CHECK(apart == bits(c, {.type = type, .aligned = true}));
    CHECK(apart == bits(c, {.type = type, .gap = gap_to_align(c), .aligned = true}));
  }
}

void check_in_place(OpCase c, const std::map<std::string, std::string>& in_place, Passes passes) {
  if (passes == Passes::Forward) c.backward = {};
  for (const DType type : kTypes) {
    INFO(c.name << " in " << name_of(type));
    const Bits apart = bits(c, {.type = type, .threads = 3});
    const Bits same = bits(c, {.type = type, .threads = 3, .in_place = in_place});
    for (const auto& [result, numbers] : apart) {
      INFO(result);
      CHECK(same.at(result) == numbers);
    }
  }
}

void check_add(const OpCase& c, const std::vector<std::string>& results) {
  for (const auto& [type, tolerance] : {std::pair{DType::F64, 1e-12}, {DType::F32, 1e-5}, {DType::BF16, 0x1p-7}, {DType::F16, 0x1p-10}}) {
    const Arrays assigned = execute(c, {.type = type});
    const Arrays added = execute(c, {.type = type, .write = Write::Add});
    for (const auto& [name, array] : assigned) {
      Values expected = array.values;
      if (std::ranges::count(results, name) != 0) {
        const Values before = Run::before(expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
      }
      check_close(c.name + ": " + name + " with Write::Add", added.at(name).values, expected, tolerance * std::max(1.0, largest(expected)));
    }
  }
}

void check_f32(const OpCase& c) {
  const OpCase same = rounded_to(DType::F32, c);
  const Arrays exact = execute(same, {});
  for (const auto& [name, array] : execute(same, {.type = DType::F32})) {
    double error = 0;
    double square = 0;
    for (std::size_t i = 0; i < array.values.size(); ++i) {
      const double e = exact.at(name).values[i];
      error += (array.values[i] - e) * (array.values[i] - e);
      square += e * e;
    }
    INFO(c.name << ": " << name << " in f32, squared error " << error << " of " << square);
    CHECK(error <= 1e-10 * square);
  }
}

/// What check_threads, check_strides and check_alignment look at, in fewer runs: an emulated device is slow.
void check_layouts_on_device(const OpCase& c) {
  for (const DType type : {DType::F32, DType::BF16, DType::F16}) {
    INFO(c.name << " in " << name_of(type) << " on the device");
    const Bits plain = bits(c, {.type = type});
    CHECK(plain == bits(c, {.type = type, .threads = 2, .gap = gap_to_align(c), .aligned = true}));
    if (type == DType::F16) continue;  // the code of bf16
    CHECK(plain == bits(c, {.type = type, .threads = 3, .gap = 5}));
    CHECK(plain == bits(c, {.type = type, .aligned = true}));
  }
}

void check_case(const OpCase& c) {
  check_f32(c);
  if (device_under_test().device != nullptr) return check_layouts_on_device(c);
  check_threads(c);
  check_strides(c, DType::F32);
  check_strides(c, DType::BF16);
  check_alignment(c);
  if (c.backward) check_gradients(c);
}

void check_against_naive(const std::string& label, const Arrays& results, const Named<double>& naive, const Named<double>& exact) {
  for (const auto& [name, expected] : exact) {
    const Values& simple = naive.at(name);
    double allowed = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) allowed = std::max(allowed, std::abs(simple[i] - expected[i]));
    const double bound = name.starts_with("d") ? 3 : 2;
    check_close(label + ": " + name, results.at(name).values, expected, bound * allowed + 1e-5);
  }
}

void check_formula(const OpCase& c, const Named<double>& expected) {
  const Arrays results = execute(c, {});
  for (const auto& [name, values] : expected) {
    check_close(c.name + ": " + name, results.at(name).values, values, 1e-12 * std::max(1e-30, largest(values)));
  }
}

void check_error(const std::function<void()>& f, const std::vector<std::string>& parts) {
  std::string message;
  try {
    f();
  } catch (const Error& error) {
    message = error.what();
  }
  INFO("message: " << message);
  CHECK(!message.empty());
  for (const std::string& part : parts) {
    INFO("expected part: " << part);
    CHECK(message.find(part) != std::string::npos);
  }
}

}  // namespace oxrse::test
