#include <algorithm>
#include <cmath>

#include "engine/cpu/attention_operands.h"
#include "engine/cpu/convert.h"
#include "engine/cpu/math.h"
#include "engine/ops/attention.h"

namespace oxrse::ops {
namespace {

using namespace cpu;  // NOLINT(google-build-using-namespace): the tiles are this op's own

/// to[i, j] = scale * from[i, j]
template <class T>
void write(const accumulator_t<T>* from, std::int64_t width, std::int64_t rows, std::int64_t d, accumulator_t<T> scale, HeadRows<T> to) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < d; ++j) to.data[i * to.stride + j] = convert<T>(scale * from[i * width + j]);
  }
}

/// Sums for dk and dv of one key/value head, rows of `width`.
template <class R>
struct KeySums {
  R *dk, *dv;
  std::int64_t count;  // numbers in each

  KeySums(R* memory, std::int64_t numbers) : dk(memory), dv(memory + numbers), count(numbers) {}
};

/// The gradients of one key/value head and of the query heads that share it.
template <class T>
class Backward {
  using R = accumulator_t<T>;
  using E = Packed<T>;

 public:
  Backward(const Attention::Backward& op, std::int64_t b, std::int64_t kv_head, const KeySums<accumulator_t<T>>& sums)
      : op_(op),
        b_(b),
        kv_head_(kv_head),
        sums_(sums),
        d_(op.q.size(3)),
        s_(op.k.size(1)),
        width_(padded(d_, kWidth<R>)),
        scale_(static_cast<R>(op.scale)),
        q_columns_((d_ + 1) * kBlock),
        do_columns_((d_ + 1) * kBlock),
        q_rows_(kBlock * width_),
        do_rows_(kBlock * width_),
        k_rows_(kBlock * width_),
        k_left_((d_ + 1) * kBlock),
        v_left_((d_ + 1) * kBlock),
        p_(kBlock * kBlock),
        ds_(kBlock * kBlock),
        dq_(kBlock * width_),
        p_operand_(p_.data()),
        ds_operand_(ds_.data()) {}

  /// Writes dq of, and sums up, every `parts`-th block of queries of the group, from number `part` on.
  void run(std::int64_t part, std::int64_t parts) {
    std::fill_n(sums_.dk, sums_.count, R{0});
    std::fill_n(sums_.dv, sums_.count, R{0});
    const std::int64_t group = op_.q.size(2) / op_.k.size(2), blocks = divide_up(op_.q.size(1), kBlock);
    for (std::int64_t i = part; i < group * blocks; i += parts) add_queries(kv_head_ * group + i / blocks, i % blocks * kBlock);
  }

 private:
  /// Everything a block of queries adds to the gradients.
  void add_queries(std::int64_t h, std::int64_t first_query) {
    const QueryBlock queries(op_, b_, first_query);
    const auto rows_of = [&](const ConstTensor& x) {
      const HeadRows<const T> head = head_of<const T>(x, b_, h);
      return HeadRows<const T>{head.data + first_query * head.stride, head.stride};
    };
    const HeadRows<const T> q = rows_of(op_.q), d_o = rows_of(op_.d_o);
    load_statistics(queries, h, rows_of(op_.o), d_o);
    transpose<T>(q, queries.count, d_, q_columns_.data());
    transpose<T>(d_o, queries.count, d_, do_columns_.data());
    const Right<E> q_right = right_rows<T>(q, queries.count, kBlock, d_, width_, q_rows_.data());
    const Right<E> do_right = right_rows<T>(d_o, queries.count, kBlock, d_, width_, do_rows_.data());
    std::fill_n(dq_.data(), kBlock * width_, R{0});
    const HeadRows<const T> k = head_of<const T>(op_.k, b_, kv_head_), v = head_of<const T>(op_.v, b_, kv_head_);
    for (std::int64_t first = queries.whole.begin / kBlock * kBlock; first < queries.whole.end; first += kBlock) {
      const TileShape<R> tile(queries, first, s_);
      if (tile.empty) continue;
      const std::int64_t rows = padded(tile.keys, kGroup);
      const HeadRows<const T> k_block{k.data + first * k.stride, k.stride}, v_block{v.data + first * v.stride, v.stride};
      const Elements<E> k_left = left_rows<T>(k_block, tile.keys, rows, d_, k_left_.data());
      const Elements<E> v_left = left_rows<T>(v_block, tile.keys, rows, d_, v_left_.data());
      compute_scores<R>(tile, queries, d_, k_left, q_columns_.data(), p_.data());
      differentiate_scores(tile, v_left);
      add_to_keys(tile, q_right, do_right);
      add_to_queries(tile, right_rows<T>(k_block, tile.keys, rows, d_, width_, k_rows_.data()));
    }
    const HeadRows<T> dq = head_of<T>(op_.dq, b_, h);
    write<T>(dq_.data(), width_, queries.count, d_, scale_, {dq.data + first_query * dq.stride, dq.stride});
  }

  /// lse and delta = rowsum(do * o) of the block's queries.
  void load_statistics(const QueryBlock& queries, std::int64_t h, HeadRows<const T> o, HeadRows<const T> d_o) {
    const std::int64_t offset = (b_ * op_.q.size(2) + h) * op_.q.size(1) + queries.first;
    std::fill_n(lse_, kBlock, std::numeric_limits<R>::infinity());  // makes p = 0 for queries past the end
    std::fill_n(delta_, kBlock, R{0});
    std::copy_n(op_.lse.data<R>() + offset, queries.count, lse_);
    for (std::int64_t i = 0; i < queries.count; ++i) {
      R sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < d_; ++j) sum += static_cast<R>(o.data[i * o.stride + j]) * static_cast<R>(d_o.data[i * d_o.stride + j]);
      delta_[i] = sum;
    }
    std::copy_n(delta_, queries.count, op_.delta.data<R>() + offset);
  }

  /// p = exp(scale * scores - lse) in place;  ds = p * (do v^T - delta).
  void differentiate_scores(const TileShape<R>& tile, const Elements<E>& v) {
    for (std::int64_t g = 0; g < kGroups; ++g) {
      const Range& lanes = tile.queries_of[g];
      if (lanes.empty()) continue;
      multiply<R>(lanes, g, d_, v, do_columns_.data(), ds_.data());
      for (std::int64_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
        R* p = p_.data() + i * kBlock;
        R* ds = ds_.data() + i * kBlock;
        each_lane<R>(lanes, [&](std::int64_t j) {
          p[j] = exponential(scale_ * p[j] - lse_[j]);
          ds[j] = p[j] * (ds[j] - delta_[j]);
        });
      }
      p_operand_.pack_queries(g, lanes);
      ds_operand_.pack_queries(g, lanes);
      ds_operand_.pack_keys(g, lanes);
    }
  }

  /// dv += p do;  dk += ds q.
  void add_to_keys(const TileShape<R>& tile, const Right<E>& q, const Right<E>& d_o) {
    for (std::int64_t g = 0; g < kGroups; ++g) {
      const Range& lanes = tile.queries_of[g];
      if (lanes.empty()) continue;
      const std::int64_t to = (tile.first_key + g * kGroup) * width_, count = (lanes.end - lanes.begin) / kPack<E>;
      small_product<Write::Add, R>(kGroup, width_, count, p_operand_.by_key(g, lanes.begin), d_o.from(lanes.begin), d_o.stride,
                                   sums_.dv + to, width_);
      small_product<Write::Add, R>(kGroup, width_, count, ds_operand_.by_key(g, lanes.begin), q.from(lanes.begin), q.stride, sums_.dk + to,
                                   width_);
    }
  }

  /// dq += ds^T k.
  void add_to_queries(const TileShape<R>& tile, const Right<E>& keys) {
    for (std::int64_t g = 0; g < kGroups; ++g) {
      const Range& seen = tile.keys_of[g];
      if (seen.empty()) continue;
      small_product<Write::Add, R>(kGroup, width_, (seen.end - seen.begin) / kPack<E>, ds_operand_.by_query(g, seen.begin),
                                   keys.from(seen.begin), keys.stride, dq_.data() + g * kGroup * width_, width_);
    }
  }

  const Attention::Backward& op_;
  std::int64_t b_, kv_head_;
  KeySums<R> sums_;
  std::int64_t d_, s_, width_;
  R scale_;
  Scratch<E> q_columns_, do_columns_, q_rows_, do_rows_, k_rows_;
  Scratch<Unit<T>> k_left_, v_left_;
  Scratch<R> p_, ds_, dq_;
  TileOperand<T> p_operand_, ds_operand_;
  R lse_[kBlock] = {};
  R delta_[kBlock] = {};
};

/// Key/value heads are the work of one thread each; few of them are cut into parts by queries whose sums are added up at the end. A
/// function of the sizes alone, as all that the bits depend on.
std::int64_t parts_of_head(const Attention::Backward& op) {
  constexpr std::int64_t kEnough = 16;
  const std::int64_t heads = op.k.size(0) * op.k.size(2);
  const std::int64_t blocks = op.q.size(2) / op.k.size(2) * divide_up(op.q.size(1), kBlock);
  return std::clamp<std::int64_t>(kEnough / std::max<std::int64_t>(1, heads), 1, std::max<std::int64_t>(1, blocks));
}

template <class T>
void run(const Cpu& cpu, const Attention::Backward& op) {
  using R = accumulator_t<T>;
  const std::int64_t kv_heads = op.k.size(2), heads = op.k.size(0) * kv_heads, parts = parts_of_head(op);
  const std::int64_t s = op.k.size(1), d = op.k.size(3), width = padded(d, kWidth<R>), count = padded(s, kBlock) * width;
  // dk and dv of keys [begin, end).
  const auto write_keys = [&](std::int64_t head, const KeySums<R>& sums, std::int64_t begin, std::int64_t end) {
    const HeadRows<T> dk = head_of<T>(op.dk, head / kv_heads, head % kv_heads), dv = head_of<T>(op.dv, head / kv_heads, head % kv_heads);
    const auto scale = static_cast<R>(op.scale);
    write<T>(sums.dk + begin * width, width, end - begin, d, scale, {dk.data + begin * dk.stride, dk.stride});
    write<T>(sums.dv + begin * width, width, end - begin, d, R{1}, {dv.data + begin * dv.stride, dv.stride});
  };
  if (parts == 1) {
    parallel_for_uneven(cpu, heads, [&](std::int64_t head) {
      const Scratch<R> memory(2 * count);
      const KeySums<R> sums(memory.data(), count);
      Backward<T>(op, head / kv_heads, head % kv_heads, sums).run(0, 1);
      write_keys(head, sums, 0, s);
    });
    return;
  }
  const Scratch<R> memory(2 * count * heads * parts);
  const auto sums_of = [&](std::int64_t i) { return KeySums<R>(memory.data() + i * 2 * count, count); };
  parallel_for_uneven(cpu, heads * parts, [&](std::int64_t i) {
    const std::int64_t head = i / parts;
    Backward<T>(op, head / kv_heads, head % kv_heads, sums_of(i)).run(i % parts, parts);
  });
  const std::int64_t blocks = divide_up(s, kBlock);
  parallel_for(cpu, heads * blocks, [&](std::int64_t i) {
    const std::int64_t head = i / blocks, begin = i % blocks * kBlock, end = std::min(s, begin + kBlock);
    const KeySums<R> total = sums_of(head * parts);
    for (std::int64_t part = 1; part < parts; ++part) {
      const KeySums<R> more = sums_of(head * parts + part);
      for (std::int64_t j = begin * width; j < end * width; ++j) {
        total.dk[j] += more.dk[j];
        total.dv[j] += more.dv[j];
      }
    }
    write_keys(head, total, begin, end);
  });
}

}  // namespace

void launch(Cpu& cpu, const Attention::Backward& op) {
  visit_floating(op.q.dtype(), [&](auto tag) { run<typename decltype(tag)::type>(cpu, op); });
}

}  // namespace oxrse::ops
