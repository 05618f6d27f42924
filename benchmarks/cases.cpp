#include "benchmarks/cases.h"

#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "engine/ops/activation.h"
#include "engine/ops/attention.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/dropout.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/embedding.h"
#include "engine/ops/layernorm.h"
#include "engine/ops/linear.h"
#include "engine/ops/optimizer.h"
#include "engine/ops/rmsnorm.h"
#include "engine/ops/rope.h"

namespace oxrse::bench {
namespace {

constexpr std::int64_t kRows = 1024, kWidth = 768, kMlp = 3072, kHeads = 12, kHeadWidth = 64, kVocab = 50257;

/// A case from a function that makes the op out of operands.
template <class Make>
Case op_case(Make make, std::string variant = "") {
  return {std::move(variant), [make](Operands& operands) -> std::function<void()> {
            return [op = make(operands), &context = operands.context()] { ops::run(context, op); };
          }};
}

struct ProductShape {
  std::int64_t n, i, o;
};

void add_products(std::vector<Case>& cases, const ProductShape& s) {
  const double spread = 1 / std::sqrt(static_cast<double>(s.i));
  cases.push_back(op_case([s, spread](Operands& t) {
    return ops::Linear{.y = t.result({s.n, s.o}), .x = t.normal({s.n, s.i}), .w = t.normal({s.o, s.i}, spread), .bias = t.normal({s.o})};
  }));
  cases.push_back(op_case(
      [s, spread](Operands& t) {
        return ops::Linear::Backward{.dx = t.result({s.n, s.i}), .dy = t.normal({s.n, s.o}), .x = {}, .w = t.normal({s.o, s.i}, spread)};
      },
      "dx"));
  cases.push_back(op_case(
      [s](Operands& t) {
        return ops::Linear::Backward{.dw = t.result_sums({s.o, s.i}), .dy = t.normal({s.n, s.o}), .x = t.normal({s.n, s.i}), .w = {}};
      },
      "dw"));
}

struct Heads {
  Tensor q, k, v;
};
/// (B, T, H, D) views of one (B*T, 3 H D) buffer, as a layer has them.
Heads heads_of(Tensor qkv, std::int64_t length) {
  const auto part = [&](std::int64_t i) {
    return qkv.slice(1, i * kHeads * kHeadWidth, (i + 1) * kHeads * kHeadWidth).split(1, kHeadWidth).split(0, length);
  };
  return {part(0), part(1), part(2)};
}

void add_attention(std::vector<Case>& cases, std::int64_t rows, std::int64_t length) {
  const double scale = 1 / std::sqrt(static_cast<double>(kHeadWidth));
  const auto forward = [=](Operands& t, Tensor o, const Heads& h) {
    return ops::Attention{
        .o = o, .lse = t.room(t.accumulator(), {rows, kHeads, length}), .q = h.q, .k = h.k, .v = h.v, .document_start = {}, .scale = scale};
  };
  cases.push_back(op_case([=](Operands& t) {
    return forward(t, t.result({rows, length, kHeads, kHeadWidth}), heads_of(t.normal({rows * length, 3 * kWidth}), length));
  }));
  cases.push_back(op_case([=](Operands& t) {
    const Heads h = heads_of(t.normal({rows * length, 3 * kWidth}), length);
    const Heads d = heads_of(t.result({rows * length, 3 * kWidth}), length);
    const auto saved = forward(t, t.room({rows, length, kHeads, kHeadWidth}), h);
    ops::run(t.context(), saved);
    return ops::Attention::Backward{.dq = d.q,
                                    .dk = d.k,
                                    .dv = d.v,
                                    .delta = t.room(t.accumulator(), {rows, kHeads, length}),
                                    .d_o = t.normal({rows, length, kHeads, kHeadWidth}),
                                    .o = saved.o,
                                    .lse = saved.lse,
                                    .q = h.q,
                                    .k = h.k,
                                    .v = h.v,
                                    .document_start = {},
                                    .scale = scale};
  }));
}

void add_norms(std::vector<Case>& cases) {
  const auto layernorm = [](Operands& t, Tensor y) {
    return ops::LayerNorm{.y = y,
                          .mean = t.room(t.accumulator(), {kRows}),
                          .rstd = t.room(t.accumulator(), {kRows}),
                          .x = t.normal({kRows, kWidth}),
                          .w = t.normal({kWidth}),
                          .b = t.normal({kWidth})};
  };
  cases.push_back(op_case([=](Operands& t) { return layernorm(t, t.result({kRows, kWidth})); }));
  cases.push_back(op_case([=](Operands& t) {
    const auto saved = layernorm(t, t.room({kRows, kWidth}));
    ops::run(t.context(), saved);
    return ops::LayerNorm::Backward{.dx = t.result(t.normal({kRows, kWidth})),
                                    .dw = t.result_sums({kWidth}),
                                    .db = t.result_sums({kWidth}),
                                    .dy = t.normal({kRows, kWidth}),
                                    .x = saved.x,
                                    .w = saved.w,
                                    .mean = saved.mean,
                                    .rstd = saved.rstd,
                                    .to_dx = Write::Add};
  }));
  const auto rmsnorm = [](Operands& t, Tensor y) {
    return ops::RmsNorm{
        .y = y, .rstd = t.room(t.accumulator(), {kRows}), .x = t.normal({kRows, kWidth}), .w = t.normal({kWidth}), .eps = 1e-5};
  };
  cases.push_back(op_case([=](Operands& t) { return rmsnorm(t, t.result({kRows, kWidth})); }));
  cases.push_back(op_case([=](Operands& t) {
    const auto saved = rmsnorm(t, t.room({kRows, kWidth}));
    ops::run(t.context(), saved);
    return ops::RmsNorm::Backward{.dx = t.result(t.normal({kRows, kWidth})),
                                  .dw = t.result_sums({kWidth}),
                                  .dy = t.normal({kRows, kWidth}),
                                  .x = saved.x,
                                  .w = saved.w,
                                  .rstd = saved.rstd,
                                  .to_dx = Write::Add};
  }));
}

void add_activations(std::vector<Case>& cases) {
  cases.push_back(op_case([](Operands& t) { return ops::Gelu{.y = t.result({kRows, kMlp}), .x = t.normal({kRows, kMlp})}; }));
  cases.push_back(op_case([](Operands& t) {
    return ops::Gelu::Backward{.dx = t.result({kRows, kMlp}), .dy = t.normal({kRows, kMlp}), .x = t.normal({kRows, kMlp})};
  }));
  cases.push_back(op_case([](Operands& t) {
    const Tensor both = t.normal({kRows, 2 * kMlp});
    return ops::SwiGlu{.y = t.result({kRows, kMlp}), .gate = both.slice(1, 0, kMlp), .up = both.slice(1, kMlp, 2 * kMlp)};
  }));
  cases.push_back(op_case([](Operands& t) {
    const Tensor both = t.normal({kRows, 2 * kMlp}), d = t.result({kRows, 2 * kMlp});
    return ops::SwiGlu::Backward{.dgate = d.slice(1, 0, kMlp),
                                 .dup = d.slice(1, kMlp, 2 * kMlp),
                                 .dy = t.normal({kRows, kMlp}),
                                 .gate = both.slice(1, 0, kMlp),
                                 .up = both.slice(1, kMlp, 2 * kMlp)};
  }));
}

void add_ends(std::vector<Case>& cases) {
  constexpr std::int64_t kChunk = 332;  // rows of logits at once
  cases.push_back(op_case([](Operands& t) {
    const Tensor logits = t.result(t.normal({kChunk, kVocab}, 2));
    return ops::CrossEntropy{
        .loss = t.result_sums({kChunk}), .dlogits = logits, .logits = logits, .targets = t.integers(kChunk, kVocab), .vocab = kVocab};
  }));
  cases.push_back(op_case([](Operands& t) {
    return ops::Embedding{.y = t.result({kRows, kWidth}), .ids = t.integers(kRows, kVocab), .table = t.normal({kVocab, kWidth})};
  }));
  cases.push_back(op_case([](Operands& t) {
    return ops::Embedding::Backward{.dtable = t.result(t.normal_sums({kVocab, kWidth})),
                                    .dy = t.normal({kRows, kWidth}),
                                    .ids = t.integers(kRows, kVocab),
                                    .to_dtable = Write::Add};
  }));
  cases.push_back(op_case([](Operands& t) {
    const Tensor table = t.room(t.accumulator(), {256, kHeadWidth});
    ops::run(t.context(), ops::RopeTable{.table = table});
    return ops::Rope{.x = t.result(t.normal({kRows, kHeads, kHeadWidth})), .positions = t.counting(kRows, 256), .table = table};
  }));
  cases.push_back(op_case([](Operands& t) {
    return ops::Dropout{.y = t.result({kRows, kWidth}),
                        .x = t.normal({kRows, kWidth}),
                        .residual = t.normal({kRows, kWidth}),
                        .p = 0.1,
                        .random = RandomStream(1, 1)};
  }));
  cases.push_back(op_case(
      [](Operands& t) { return ops::Add{.y = t.result({kRows * kMlp}), .a = t.normal({kRows * kMlp}), .b = t.normal({kRows * kMlp})}; }));
}

constexpr std::int64_t kParameters = std::int64_t{16} << 20;

/// The tensors of an update, which AdamW's op refers to.
struct Update {
  std::array<ops::ParameterSlice, 1> slices;
  Tensor control;
};

Case adamw_case() {
  return {"", [](Operands& t) -> std::function<void()> {
            const auto update = std::make_shared<Update>();
            ops::ParameterSlice& slice = update->slices[0];
            slice.weight = t.result(t.normal_sums({kParameters}, 0.02));
            if (t.compute() != t.accumulator()) slice.compute = t.room({kParameters});
            slice.gradient = t.normal_sums({kParameters});
            slice.first = t.normal_sums({kParameters}, 1e-3);
            slice.second = t.normal_sums({kParameters}, 1e-4, 1e-3);
            slice.decay = true;
            update->control = t.room(DType::F64, {ops::kControlColumns});
            const Tensor sums = t.room(DType::F64, {1});
            ops::run(t.context(), ops::Fill{.y = update->control, .value = 0});
            ops::run(t.context(), ops::Fill{.y = sums, .value = 1});
            ops::run(t.context(), ops::ClipFactor{.control = update->control, .sums = sums});
            return [update, &context = t.context()] {
              ops::run(context, ops::AdamW{.parameters = update->slices, .control = update->control, .lr = 1e-6, .weight_decay = 0.1});
            };
          }};
}

Case sum_squares_case() {
  return {"", [](Operands& t) -> std::function<void()> {
            const auto tensors = std::make_shared<std::array<ConstTensor, 1>>();
            (*tensors)[0] = t.normal_sums({kParameters});
            const Tensor sums = t.result(t.room(DType::F64, {1}));
            return [tensors, sums, &context = t.context()] { ops::run(context, ops::SumSquares{.sums = sums, .tensors = *tensors}); };
          }};
}

}  // namespace

std::vector<Case> gemm_cases() {
  std::vector<Case> cases;
  for (const ProductShape& s : {ProductShape{1024, 768, 2304},
                                {1024, 768, 768},
                                {1024, 768, 3072},
                                {1024, 3072, 768},
                                {332, 768, 50257},
                                {2048, 384, 1152},
                                {2048, 384, 384},
                                {2048, 384, 1536},
                                {2048, 1536, 384},
                                {2048, 384, 4096},
                                {512, 512, 512},
                                {2048, 2048, 2048}}) {
    add_products(cases, s);
  }
  return cases;
}

std::vector<Case> kernel_cases() {
  std::vector<Case> cases;
  add_norms(cases);
  add_activations(cases);
  add_ends(cases);
  cases.push_back(adamw_case());
  cases.push_back(sum_squares_case());
  for (const auto& [rows, length] : {std::pair<std::int64_t, std::int64_t>{4, 256}, {2, 512}, {1, 1024}, {1, 2048}, {1, 4096}}) {
    add_attention(cases, rows, length);
  }
  return cases;
}

}  // namespace oxrse::bench
