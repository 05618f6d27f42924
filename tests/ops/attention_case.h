#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/ops/attention.h"
#include "tests/ops/harness.h"

// Cases of attention: for the op's tests, and for those of other kernels of the op.
namespace oxrse::test {

/// Sizes of a case; H query heads over K heads of keys.
struct AttentionShape {
  std::int64_t b = 1, t = 1, s = 1, h = 1, k = 1, d = 1, window = 0;
  bool documents = false;
};

inline std::string text_of(const AttentionShape& s) {
  return fmt::format("attention B={} T={} S={} H={} K={} D={} window={}{}", s.b, s.t, s.s, s.h, s.k, s.d, s.window,
                     s.documents ? " documents" : "");
}

/// Documents of uneven lengths, among them one of a single token.
inline Array document_starts(const AttentionShape& s) {
  Values starts;
  for (std::int64_t b = 0; b < s.b; ++b) {
    for (std::int64_t t = 0; t < s.t; ++t) {
      const std::int64_t position = t + s.s - s.t;
      double start = 0;
      for (const std::int64_t border : {s.s / 3 + b, s.s / 3 + b + 1, 2 * s.s / 3}) {
        if (border <= position) start = static_cast<double>(border);
      }
      starts.push_back(start);
    }
  }
  return numbers({s.b, s.t}, starts);
}

inline OpCase attention_case(const AttentionShape& s, double size = 1) {
  OpCase c{text_of(s), {}, {}, {}};
  c.inputs["q"] = normal({s.b, s.t, s.h, s.d}, 1, size);
  c.inputs["k"] = normal({s.b, s.s, s.k, s.d}, 2);
  c.inputs["v"] = normal({s.b, s.s, s.k, s.d}, 3);
  c.inputs["do"] = normal({s.b, s.t, s.h, s.d}, 4);
  if (s.documents) c.inputs["document_start"] = document_starts(s);
  const double scale = 1 / std::sqrt(static_cast<double>(s.d));
  c.forward = [s, scale](Run& run) {
    run.run(ops::Attention{.o = run.rows_out("o", {s.b, s.t, s.h, s.d}),
                           .lse = run.out("lse", run.accumulator(), {s.b, s.h, s.t}),
                           .q = run.rows_in("q"),
                           .k = run.rows_in("k"),
                           .v = run.rows_in("v"),
                           .document_start = run.in("document_start", DType::I32),
                           .scale = scale,
                           .window = s.window});
  };
  c.backward = [s, scale](Run& run) {
    run.run(ops::Attention::Backward{.dq = run.rows_out("dq", {s.b, s.t, s.h, s.d}),
                                     .dk = run.rows_out("dk", {s.b, s.s, s.k, s.d}),
                                     .dv = run.rows_out("dv", {s.b, s.s, s.k, s.d}),
                                     .delta = run.out("delta", run.accumulator(), {s.b, s.h, s.t}),
                                     .d_o = run.rows_in("do"),
                                     .o = run.made("o"),
                                     .lse = run.made("lse"),
                                     .q = run.rows_in("q"),
                                     .k = run.rows_in("k"),
                                     .v = run.rows_in("v"),
                                     .document_start = run.in("document_start", DType::I32),
                                     .scale = scale,
                                     .window = s.window});
  };
  return c;
}

/// The formulas with whole rows of scores.
struct NaiveAttention {
  AttentionShape s;

  template <class S>
  std::map<std::string, std::vector<S>> operator()(const std::map<std::string, std::vector<S>>& in) const {
    std::map<std::string, std::vector<S>> out;
    for (const auto& [gradient, input] : {std::pair{"o", "q"}, {"dq", "q"}, {"dk", "k"}, {"dv", "v"}}) {
      out[gradient] = std::vector<S>(in.at(input).size(), S(0));
    }
    for (std::int64_t b = 0; b < s.b; ++b) {
      for (std::int64_t h = 0; h < s.h; ++h) {
        for (std::int64_t t = 0; t < s.t; ++t) row(in, out, b, h, t);
      }
    }
    return out;
  }

  template <class S>
  void row(const std::map<std::string, std::vector<S>>& in, std::map<std::string, std::vector<S>>& out, std::int64_t b, std::int64_t h,
           std::int64_t t) const {
    using std::exp;
    using std::log;
    const std::int64_t position = t + s.s - s.t, kv = h / (s.h / s.k), end = std::min(s.s, position + 1);
    std::int64_t begin = s.window > 0 ? std::max<std::int64_t>(0, position - s.window + 1) : 0;
    if (s.documents) {
      begin =
          std::max(begin, static_cast<std::int64_t>(static_cast<double>(in.at("document_start")[static_cast<std::size_t>(b * s.t + t)])));
    }
    const auto query = [&](std::int64_t j) { return static_cast<std::size_t>(((b * s.t + t) * s.h + h) * s.d + j); };
    const auto key = [&](std::int64_t i, std::int64_t j) { return static_cast<std::size_t>(((b * s.s + i) * s.k + kv) * s.d + j); };
    const auto dot = [&](const std::vector<S>& x, const std::vector<S>& y, std::int64_t i) {
      S sum = 0;
      for (std::int64_t j = 0; j < s.d; ++j) sum += x[query(j)] * y[key(i, j)];
      return sum;
    };
    const S scale = 1 / std::sqrt(static_cast<double>(s.d));
    std::vector<S> p;
    S maximum = -1e30, total = 0, delta = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      p.push_back(scale * dot(in.at("q"), in.at("k"), i));
      if (maximum < p.back()) maximum = p.back();
    }
    for (S& x : p) total += x = exp(x - maximum);
    for (std::int64_t i = begin; i < end; ++i) {
      S& share = p[static_cast<std::size_t>(i - begin)];
      share = share / total;
      for (std::int64_t j = 0; j < s.d; ++j) out["o"][query(j)] += share * in.at("v")[key(i, j)];
    }
    if (begin < end) {
      out["lse"].push_back(maximum + log(total));
    } else {
      out["lse"].push_back(std::numeric_limits<double>::infinity());
    }
    for (std::int64_t j = 0; j < s.d; ++j) delta += in.at("do")[query(j)] * out["o"][query(j)];
    for (std::int64_t i = begin; i < end; ++i) {
      const S share = p[static_cast<std::size_t>(i - begin)];
      const S ds = share * (dot(in.at("do"), in.at("v"), i) - delta);
      for (std::int64_t j = 0; j < s.d; ++j) {
        out["dv"][key(i, j)] += share * in.at("do")[query(j)];
        out["dq"][query(j)] += scale * ds * in.at("k")[key(i, j)];
        out["dk"][key(i, j)] += scale * ds * in.at("q")[query(j)];
      }
    }
  }
};

/// Single keys, odd sizes, more keys than queries, grouped heads, windows and documents.
inline const AttentionShape kAttentionShapes[] = {{.b = 1, .t = 2, .s = 2, .h = 1, .k = 1, .d = 8},
                                                  {.b = 2, .t = 33, .s = 33, .h = 3, .k = 1, .d = 24},
                                                  {.b = 1, .t = 129, .s = 129, .h = 2, .k = 2, .d = 64},
                                                  {.b = 1, .t = 65, .s = 65, .h = 12, .k = 3, .d = 5},
                                                  {.b = 1, .t = 5, .s = 140, .h = 2, .k = 1, .d = 80},
                                                  {.b = 1, .t = 1, .s = 77, .h = 4, .k = 2, .d = 128},
                                                  {.b = 1, .t = 140, .s = 140, .h = 1, .k = 1, .d = 17, .window = 9},
                                                  {.b = 1, .t = 150, .s = 200, .h = 2, .k = 1, .d = 16, .window = 70},
                                                  {.b = 2, .t = 131, .s = 131, .h = 2, .k = 1, .d = 16, .window = 0, .documents = true},
                                                  {.b = 1, .t = 131, .s = 140, .h = 2, .k = 1, .d = 16, .window = 20, .documents = true},
                                                  {.b = 1, .t = 37, .s = 70, .h = 2, .k = 1, .d = 136},
                                                  {.b = 1, .t = 70, .s = 70, .h = 1, .k = 1, .d = 256, .window = 40}};

}  // namespace oxrse::test
