#include "engine/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/catch.h"
#include "tests/ops/attention_case.h"
#include "tests/ops/sparse_memory.h"

using namespace oxrse;
using namespace oxrse::test;
using ops::Attention;

TEST_CASE("attention: gradients, types, threads and strides") {
  for (const AttentionShape& s : kAttentionShapes) check_case(attention_case(s));
}

TEST_CASE("attention: against the formula") {
  for (const AttentionShape& s : kAttentionShapes) {
    const OpCase c = attention_case(s);
    check_formula(c, NaiveAttention{s}(inputs_as<double>(c)));
    check_ratio(c, NaiveAttention{s});
  }
}

TEST_CASE("attention: a single key passes its value on") {
  const OpCase c = attention_case({.b = 2, .t = 1, .s = 1, .h = 2, .k = 2, .d = 24});
  for (const DType type : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
    const OpCase same = rounded_to(type, c);
    const Arrays results = execute(same, {.type = type});
    for (std::size_t i = 0; i < 96; ++i) {
      CHECK(results.at("o").values[i] == Approx(same.inputs.at("v").values[i]).epsilon(1e-6));
      CHECK(results.at("dv").values[i] == Approx(same.inputs.at("do").values[i]).epsilon(1e-6));
    }
    for (const char* name : {"dq", "dk"}) {
      for (const double x : results.at(name).values) CHECK(std::abs(x) <= 1e-5);
    }
  }
}

TEST_CASE("attention: queries that see nothing give zeros and no gradient") {
  // More queries than keys: the first ones stand before every key.
  const AttentionShape shape{.b = 1, .t = 100, .s = 30, .h = 2, .k = 1, .d = 16};
  const OpCase c = attention_case(shape);
  for (const DType type : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
    const Arrays results = execute(c, {.type = type});
    for (std::int64_t t = 0; t < 70; ++t) {
      for (std::size_t h = 0; h < 2; ++h)
        CHECK(results.at("lse").values[h * 100 + static_cast<std::size_t>(t)] == std::numeric_limits<double>::infinity());
    }
    for (const char* name : {"o", "dq"}) {
      const Values& v = results.at(name).values;
      CHECK(std::all_of(v.begin(), v.begin() + 70 * 2 * 16, [](double x) { return x == 0; }));
      CHECK(std::any_of(v.begin() + 70 * 2 * 16, v.end(), [](double x) { return x != 0; }));
    }
    for (const char* name : {"o", "dq", "dk", "dv", "delta"}) {
      for (const double x : results.at(name).values) CHECK(std::isfinite(x));
    }
  }
  // Documents that start after their own rows, and keys that no query sees.
  OpCase blind = attention_case({.b = 1, .t = 70, .s = 70, .h = 1, .k = 1, .d = 8});
  blind.inputs["document_start"] = numbers({1, 70}, Values(70, 1000));
  for (const auto& [name, array] : execute(blind, {.type = DType::F32})) {
    for (const double x : array.values) CHECK(x == (name == "lse" ? std::numeric_limits<double>::infinity() : 0.0));
  }
}

TEST_CASE("attention: a document does not see another one") {
  const AttentionShape shape{.b = 1, .t = 150, .s = 150, .h = 2, .k = 1, .d = 24, .window = 0, .documents = true};
  for (const DType type : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
    OpCase c = attention_case(shape);
    const Arrays before = execute(c, {.type = type});
    const std::size_t last = 100;  // the third document
    for (const char* name : {"q", "k", "v", "do"}) {
      Array& x = c.inputs.at(name);
      const std::size_t row = x.values.size() / 150;
      for (std::size_t i = 0; i < last * row; ++i) x.values[i] = 3 - x.values[i];
    }
    const Arrays after = execute(c, {.type = type});
    for (const char* name : {"o", "dq", "dk", "dv"}) {
      const Values &a = before.at(name).values, &b = after.at(name).values;
      const auto border = static_cast<std::ptrdiff_t>(a.size() / 150 * last);
      CHECK(std::equal(a.begin() + border, a.end(), b.begin() + border));
      CHECK_FALSE(std::equal(a.begin(), a.begin() + border, b.begin()));
    }
  }
}

TEST_CASE("attention: large scores are finite") {
  const AttentionShape shape{.b = 1, .t = 70, .s = 70, .h = 1, .k = 1, .d = 16};
  const OpCase c = attention_case(shape, 1e4);
  for (const DType type : {DType::F64, DType::F32, DType::BF16}) {
    for (const auto& [name, array] : execute(c, {.type = type})) {
      INFO(name);
      CHECK(std::ranges::all_of(array.values, [](double x) { return std::isfinite(x); }));
    }
  }
  OpCase equal = attention_case(shape);
  for (const char* name : {"q", "k"}) std::ranges::fill(equal.inputs.at(name).values, 1.0);
  const Arrays results = execute(equal, {.type = DType::F32});
  for (std::size_t t = 0; t < 70; ++t) CHECK(results.at("lse").values[t] == Approx(4 + std::log(static_cast<double>(t + 1))));
}

TEST_CASE("attention: a NaN shows in the rows that see it and in no other") {
  OpCase c = attention_case({.b = 1, .t = 100, .s = 100, .h = 1, .k = 1, .d = 8});
  c.inputs.at("q").values[80 * 8] = std::numeric_limits<double>::quiet_NaN();
  c.backward = {};
  const Values o = execute(c, {.type = DType::F32}).at("o").values;
  for (std::size_t i = 0; i < o.size(); ++i) CHECK(std::isnan(o[i]) == (i / 8 == 80));
}

TEST_CASE("attention: q, k and v as views of one buffer, with gradients into another") {
  const std::int64_t b = 2, t = 70, h = 4, k = 2, d = 24, width = (h + 2 * k) * d;
  const AttentionShape shape{.b = b, .t = t, .s = t, .h = h, .k = k, .d = d};
  OpCase apart = attention_case(shape);
  OpCase together = apart;
  Values rows;
  for (std::int64_t n = 0; n < b * t; ++n) {
    for (const char* name : {"q", "k", "v"}) {
      const Values& x = apart.inputs.at(name).values;
      const std::int64_t count = name[0] == 'q' ? h * d : k * d;
      rows.insert(rows.end(), x.begin() + n * count, x.begin() + (n + 1) * count);
    }
  }
  together.inputs["qkv"] = numbers({b, t, width}, rows);
  const auto part = [=](const Tensor& x, std::int64_t first, std::int64_t heads) {
    return x.slice(2, first * d, (first + heads) * d).split(2, d);
  };
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  together.forward = [=](Run& run) {
    const Tensor qkv = run.in("qkv");
    run.run(Attention{.o = run.out("o", {b, t, h, d}),
                      .lse = run.out("lse", run.accumulator(), {b, h, t}),
                      .q = part(qkv, 0, h),
                      .k = part(qkv, h, k),
                      .v = part(qkv, h + k, k),
                      .document_start = {},
                      .scale = scale});
  };
  together.backward = [=](Run& run) {
    const Tensor qkv = run.in("qkv"), gradient = run.out("dqkv", {b, t, width});
    run.run(Attention::Backward{.dq = part(gradient, 0, h),
                                .dk = part(gradient, h, k),
                                .dv = part(gradient, h + k, k),
                                .delta = run.out("delta", run.accumulator(), {b, h, t}),
                                .d_o = run.in("do"),
                                .o = run.made("o"),
                                .lse = run.made("lse"),
                                .q = part(qkv, 0, h),
                                .k = part(qkv, h, k),
                                .v = part(qkv, h + k, k),
                                .document_start = {},
                                .scale = scale});
  };
  for (const DType type : {DType::F64, DType::F32, DType::BF16}) {
    const Arrays expected = execute(apart, {.type = type, .threads = 2}), got = execute(together, {.type = type, .threads = 2});
    CHECK(got.at("o").values == expected.at("o").values);
    Values gradient;
    for (std::int64_t n = 0; n < b * t; ++n) {
      for (const char* name : {"dq", "dk", "dv"}) {
        const Values& x = expected.at(name).values;
        const std::int64_t count = name[1] == 'q' ? h * d : k * d;
        gradient.insert(gradient.end(), x.begin() + n * count, x.begin() + (n + 1) * count);
      }
    }
    CHECK(got.at("dqkv").values == gradient);
  }
}

TEST_CASE("attention: empty batches and absent keys") {
  for (const DType type : {DType::F64, DType::F32, DType::BF16}) {
    for (const auto& [name, array] : execute(attention_case({.b = 0, .t = 5, .s = 5, .h = 2, .k = 1, .d = 8}), {.type = type}))
      CHECK(array.values.empty());
  }
  const Arrays results = execute(attention_case({.b = 1, .t = 5, .s = 0, .h = 2, .k = 1, .d = 8}), {.type = DType::F32});
  CHECK(results.at("o").values == Values(80, 0.0));
  CHECK(results.at("dq").values == Values(80, 0.0));
}

TEST_CASE("attention: cost counts the pairs that see each other") {
  const auto tensor = [](DType type, std::initializer_list<std::int64_t> sizes) { return Tensor(nullptr, type, sizes); };
  const auto op = [&](std::int64_t t, std::int64_t s, std::int64_t window) {
    return Attention{.o = tensor(DType::BF16, {2, t, 4, 8}),
                     .lse = tensor(DType::F32, {2, 4, t}),
                     .q = tensor(DType::BF16, {2, t, 4, 8}),
                     .k = tensor(DType::BF16, {2, s, 2, 8}),
                     .v = tensor(DType::BF16, {2, s, 2, 8}),
                     .document_start = {},
                     .window = window};
  };
  const auto pairs = [](double count) { return 4.0 * 2 * 4 * 8 * count; };
  CHECK(check(op(10, 10, 0)).flops == pairs(55));
  CHECK(check(op(10, 12, 0)).flops == pairs(75));
  CHECK(check(op(10, 10, 3)).flops == pairs(27));
  CHECK(check(op(5, 3, 0)).flops == pairs(6));
  CHECK(shape(op(10, 12, 3)) == "B=2 T=10 S=12 H=4 K=2 D=8 window=3");
  Attention bad = op(10, 10, 0);
  bad.k = tensor(DType::BF16, {2, 10, 3, 8});
  check_error([&] { check(bad); }, {"attention", "4 query heads", "3 heads"});
  bad = op(10, 10, 0);
  bad.v = tensor(DType::BF16, {2, 9, 2, 8});
  check_error([&] { check(bad); }, {"attention", "v", "bf16(2, 10, 2, 8)", "bf16(2, 9, 2, 8)"});
  bad = op(10, 10, -1);
  check_error([&] { check(bad); }, {"attention", "window", "-1"});
}

TEST_CASE("attention: offsets past 2^31") {
  const std::int64_t stride = (std::int64_t{1} << 31) + 3;
  const AttentionShape shape{.b = 1, .t = 2, .s = 2, .h = 1, .k = 1, .d = 2};
  const OpCase c = attention_case(shape);
  // All tensors side by side in two rows.
  constexpr std::int64_t kColumns = 16;
  const SparseMemory memory((stride + kColumns) * 4);
  const Tensor all = memory.view(DType::F32, {1, 2, 1, stride}, kColumns);
  Context context = context_for(DType::F32);
  std::map<std::string, Tensor> at;
  for (const char* name : {"q", "k", "v", "do", "o", "dq", "dk", "dv"}) {
    const auto column = static_cast<std::int64_t>(at.size()) * 2;
    at[name] = all.slice(3, column, column + 2);
    const auto input = c.inputs.find(name);
    if (input == c.inputs.end()) continue;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto place = static_cast<std::int64_t>(i / 2) * stride + static_cast<std::int64_t>(i % 2);
      at[name].data<float>()[place] = static_cast<float>(input->second.values[i]);
    }
  }
  Guarded lse(DType::F32, {1, 1, 2}), delta(DType::F32, {1, 1, 2});
  const double scale = 1 / std::sqrt(2.0);
  ops::run(context,
           Attention{.o = at["o"], .lse = lse.view(), .q = at["q"], .k = at["k"], .v = at["v"], .document_start = {}, .scale = scale});
  ops::run(context, Attention::Backward{.dq = at["dq"],
                                        .dk = at["dk"],
                                        .dv = at["dv"],
                                        .delta = delta.view(),
                                        .d_o = at["do"],
                                        .o = at["o"],
                                        .lse = lse.view(),
                                        .q = at["q"],
                                        .k = at["k"],
                                        .v = at["v"],
                                        .document_start = {},
                                        .scale = scale});
  context.wait();
  const Arrays expected = execute(c, {.type = DType::F64});
  for (const char* name : {"o", "dq", "dk", "dv"}) {
    for (std::size_t i = 0; i < 4; ++i) {
      const float got = at[name].data<float>()[static_cast<std::int64_t>(i / 2) * stride + static_cast<std::int64_t>(i % 2)];
      CHECK(std::abs(static_cast<double>(got) - expected.at(name).values[i]) <= 1e-5);
    }
  }
}
