#include "benchmarks/cases.h"

#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "cuda/ladder/ladder.h"
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

/// A case from a function that makes the op out of operands.
template <class Make>
Case op_case(Make make, std::string variant = "") {
  return {std::move(variant), [make](Operands& operands) -> std::function<void()> {
            return [op = make(operands), &context = operands.context()] { ops::run(context, op); };
          }};
}

/// The same by a rung of a ladder, where there is a device: the plan and the truth are those of the op.
template <class Op, class Make>
Case rung_case(Make make, const cuda::Rung<Op>& rung) {
  return {std::string(rung.name), [make, rung](Operands& operands) -> std::function<void()> {
            return [op = make(operands), rung, &context = operands.context()] {
              if (context.device == nullptr) return ops::run(context, op);
              const cuda::RungInUse<Op> in_use(static_cast<Cuda&>(*context.device), rung);
              ops::run(context, op);
            };
          }};
}

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
Heads heads_of(const AttentionShape& s, Tensor qkv) {
  const std::int64_t width = s.heads * s.head_width;
  const auto part = [&](std::int64_t i) { return qkv.slice(1, i * width, (i + 1) * width).split(1, s.head_width).split(0, s.tokens); };
  return {part(0), part(1), part(2)};
}

ops::Attention attention_of(Operands& t, const AttentionShape& s, const Heads& h, Tensor o) {
  return {.o = o,
          .lse = t.room(t.accumulator(), {s.samples, s.heads, s.tokens}),
          .q = h.q,
          .k = h.k,
          .v = h.v,
          .document_start = {},
          .scale = 1 / std::sqrt(static_cast<double>(s.head_width))};
}

ops::Attention attention(Operands& t, const AttentionShape& s) {
  return attention_of(t, s, heads_of(s, t.normal({s.samples * s.tokens, 3 * s.heads * s.head_width})),
                      t.result({s.samples, s.tokens, s.heads, s.head_width}));
}

void add_attention(std::vector<Case>& cases, const AttentionShape& s) {
  const auto alone = [=](Operands& t) { return attention(t, s); };
  cases.push_back(op_case(alone));
  cases.push_back(op_case(alone, "wgmma"));
  cases.back().wgmma = true;
  cases.push_back(op_case([=](Operands& t) {
    const std::int64_t rows = s.samples * s.tokens, width = s.heads * s.head_width;
    const Heads h = heads_of(s, t.normal({rows, 3 * width}));
    const Heads d = heads_of(s, t.result({rows, 3 * width}));
    const ops::Attention saved = attention_of(t, s, h, t.room({s.samples, s.tokens, s.heads, s.head_width}));
    ops::run(t.context(), saved);
    return ops::Attention::Backward{.dq = d.q,
                                    .dk = d.k,
                                    .dv = d.v,
                                    .delta = t.room(t.accumulator(), {s.samples, s.heads, s.tokens}),
                                    .d_o = t.normal({s.samples, s.tokens, s.heads, s.head_width}),
                                    .o = saved.o,
                                    .lse = saved.lse,
                                    .q = h.q,
                                    .k = h.k,
                                    .v = h.v,
                                    .document_start = {},
                                    .scale = saved.scale};
  }));
}

ops::RmsNorm rmsnorm(Operands& t, const CaseSizes& s, Tensor y) {
  return {.y = y, .rstd = t.room(t.accumulator(), {s.rows}), .x = t.normal({s.rows, s.width}), .w = t.normal({s.width}), .eps = 1e-5};
}

ops::RmsNorm::Backward rmsnorm_backward(Operands& t, const CaseSizes& s) {
  const ops::RmsNorm saved = rmsnorm(t, s, t.room({s.rows, s.width}));
  ops::run(t.context(), saved);
  return {.dx = t.result(t.normal({s.rows, s.width})),
          .dw = t.result_sums({s.width}),
          .dy = t.normal({s.rows, s.width}),
          .x = saved.x,
          .w = saved.w,
          .rstd = saved.rstd,
          .to_dx = Write::Add};
}

void add_norms(std::vector<Case>& cases, const CaseSizes& s) {
  const auto layernorm = [s](Operands& t, Tensor y) {
    return ops::LayerNorm{.y = y,
                          .mean = t.room(t.accumulator(), {s.rows}),
                          .rstd = t.room(t.accumulator(), {s.rows}),
                          .x = t.normal({s.rows, s.width}),
                          .w = t.normal({s.width}),
                          .b = t.normal({s.width})};
  };
  cases.push_back(op_case([=](Operands& t) { return layernorm(t, t.result({s.rows, s.width})); }));
  cases.push_back(op_case([=](Operands& t) {
    const auto saved = layernorm(t, t.room({s.rows, s.width}));
    ops::run(t.context(), saved);
    return ops::LayerNorm::Backward{.dx = t.result(t.normal({s.rows, s.width})),
                                    .dw = t.result_sums({s.width}),
                                    .db = t.result_sums({s.width}),
                                    .dy = t.normal({s.rows, s.width}),
                                    .x = saved.x,
                                    .w = saved.w,
                                    .mean = saved.mean,
                                    .rstd = saved.rstd,
                                    .to_dx = Write::Add};
  }));
  cases.push_back(op_case([=](Operands& t) { return rmsnorm(t, s, t.result({s.rows, s.width})); }));
  cases.push_back(op_case([=](Operands& t) { return rmsnorm_backward(t, s); }));
}

void add_activations(std::vector<Case>& cases, const CaseSizes& s) {
  cases.push_back(op_case([s](Operands& t) { return ops::Gelu{.y = t.result({s.rows, s.mlp}), .x = t.normal({s.rows, s.mlp})}; }));
  cases.push_back(op_case([s](Operands& t) {
    return ops::Gelu::Backward{.dx = t.result({s.rows, s.mlp}), .dy = t.normal({s.rows, s.mlp}), .x = t.normal({s.rows, s.mlp})};
  }));
  cases.push_back(op_case([s](Operands& t) {
    const Tensor both = t.normal({s.rows, 2 * s.mlp});
    return ops::SwiGlu{.y = t.result({s.rows, s.mlp}), .gate = both.slice(1, 0, s.mlp), .up = both.slice(1, s.mlp, 2 * s.mlp)};
  }));
  cases.push_back(op_case([s](Operands& t) {
    const Tensor both = t.normal({s.rows, 2 * s.mlp}), d = t.result({s.rows, 2 * s.mlp});
    return ops::SwiGlu::Backward{.dgate = d.slice(1, 0, s.mlp),
                                 .dup = d.slice(1, s.mlp, 2 * s.mlp),
                                 .dy = t.normal({s.rows, s.mlp}),
                                 .gate = both.slice(1, 0, s.mlp),
                                 .up = both.slice(1, s.mlp, 2 * s.mlp)};
  }));
}

void add_ends(std::vector<Case>& cases, const CaseSizes& s) {
  cases.push_back(op_case([s](Operands& t) {
    const Tensor logits = t.result(t.normal({s.logit_rows, s.vocab}, 2));
    return ops::CrossEntropy{.loss = t.result_sums({s.logit_rows}),
                             .dlogits = logits,
                             .logits = logits,
                             .targets = t.integers(s.logit_rows, s.vocab),
                             .vocab = s.vocab};
  }));
  cases.push_back(op_case([s](Operands& t) {
    return ops::Embedding{.y = t.result({s.rows, s.width}), .ids = t.integers(s.rows, s.vocab), .table = t.normal({s.vocab, s.width})};
  }));
  cases.push_back(op_case([s](Operands& t) {
    return ops::Embedding::Backward{.dtable = t.result(t.normal_sums({s.vocab, s.width})),
                                    .dy = t.normal({s.rows, s.width}),
                                    .ids = t.integers(s.rows, s.vocab),
                                    .to_dtable = Write::Add};
  }));
  cases.push_back(op_case([s](Operands& t) {
    const Tensor table = t.room(t.accumulator(), {256, s.head_width});
    ops::run(t.context(), ops::RopeTable{.table = table});
    return ops::Rope{.x = t.result(t.normal({s.rows, s.heads, s.head_width})), .positions = t.counting(s.rows, 256), .table = table};
  }));
  cases.push_back(op_case([s](Operands& t) {
    return ops::Dropout{.y = t.result({s.rows, s.width}),
                        .x = t.normal({s.rows, s.width}),
                        .residual = t.normal({s.rows, s.width}),
                        .p = 0.1,
                        .random = RandomStream(1, 1)};
  }));
  cases.push_back(op_case([s](Operands& t) {
    return ops::Add{.y = t.result({s.rows * s.mlp}), .a = t.normal({s.rows * s.mlp}), .b = t.normal({s.rows * s.mlp})};
  }));
}

/// The tensors of an update, which AdamW's op refers to.
struct Update {
  std::array<ops::ParameterSlice, 1> slices;
  Tensor control;
};

Case adamw_case(std::int64_t parameters) {
  return {"", [parameters](Operands& t) -> std::function<void()> {
            const auto update = std::make_shared<Update>();
            ops::ParameterSlice& slice = update->slices[0];
            slice.weight = t.result(t.normal_sums({parameters}, 0.02));
            if (t.compute() != t.accumulator()) slice.compute = t.room({parameters});
            slice.gradient = t.normal_sums({parameters});
            slice.first = t.normal_sums({parameters}, 1e-3);
            slice.second = t.normal_sums({parameters}, 1e-4, 1e-3);
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

Case sum_squares_case(std::int64_t parameters) {
  return {"", [parameters](Operands& t) -> std::function<void()> {
            const auto tensors = std::make_shared<std::array<ConstTensor, 1>>();
            (*tensors)[0] = t.normal_sums({parameters});
            const Tensor sums = t.result(t.room(DType::F64, {1}));
            return [tensors, sums, &context = t.context()] { ops::run(context, ops::SumSquares{.sums = sums, .tensors = *tensors}); };
          }};
}

}  // namespace

CaseSizes CaseSizes::few() {
  return {.rows = 9,
          .heads = 3,
          .vocab = 5003,
          .logit_rows = 5,
          .parameters = 10007,
          .attention = {{1, 64, 3}, {1, 200, 3}},
          .ladder = {1, 200, 3},
          .products = {{48, 768, 256}, {33, 384, 129}}};
}

CaseSizes CaseSizes::many() {
  return {
      .rows = 16384,
      .logit_rows = 4096,
      .parameters = std::int64_t{124} << 20,
      .attention = {{16, 1024}, {4, 4096}, {2, 8192, 16, 128}},
      .ladder = {16, 1024},
      .products = {{16384, 768, 2304}, {16384, 768, 768}, {16384, 768, 3072}, {16384, 3072, 768}, {4096, 768, 50304}, {8192, 8192, 8192}}};
}

std::vector<Case> gemm_cases(const CaseSizes& sizes) {
  std::vector<Case> cases;
  for (const ProductShape& shape : sizes.products) add_products(cases, shape);
  return cases;
}

std::vector<Case> kernel_cases(const CaseSizes& sizes) {
  std::vector<Case> cases;
  add_norms(cases, sizes);
  add_activations(cases, sizes);
  add_ends(cases, sizes);
  cases.push_back(adamw_case(sizes.parameters));
  cases.push_back(sum_squares_case(sizes.parameters));
  for (const AttentionShape& shape : sizes.attention) add_attention(cases, shape);
  return cases;
}

std::vector<Case> ladder_cases(const CaseSizes& sizes, const cuda::Ladders& ladders) {
  std::vector<Case> cases;
  for (const auto& rung : ladders.rmsnorm_backward) {
    cases.push_back(rung_case([=](Operands& t) { return rmsnorm_backward(t, sizes); }, rung));
  }
  for (const auto& rung : ladders.attention_forward) {
    cases.push_back(rung_case([=](Operands& t) { return attention(t, sizes.ladder); }, rung));
  }
  return cases;
}

}  // namespace oxrse::bench
