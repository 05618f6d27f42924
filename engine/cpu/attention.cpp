#include "engine/ops/attention.h"

#include <cmath>

#include "engine/cpu/attention_operands.h"
#include "engine/cpu/convert.h"
#include "engine/cpu/math.h"

namespace oxrse::ops {
namespace {

using namespace cpu;  // NOLINT(google-build-using-namespace): the tiles are this op's own

/// One block of queries of one head: running maximum, sum and weighted values over the blocks of keys.
template <class T>
class Forward {
  using R = accumulator_t<T>;
  using E = Packed<T>;

 public:
  Forward(const Attention& op, std::int64_t b, std::int64_t h, std::int64_t first_query)
      : op_(op),
        b_(b),
        h_(h),
        d_(op.q.size(3)),
        width_(padded(d_, kWidth<R>)),
        queries_(op, b, first_query),
        scale_(static_cast<R>(op.scale)),
        q_((d_ + 1) * kBlock),
        k_((d_ + 1) * kBlock),
        v_(kBlock * width_),
        scores_(kBlock * kBlock),
        sums_(kBlock * width_),
        shares_(scores_.data()) {}

  void run() {
    const HeadRows<const T> q = head_of<const T>(op_.q, b_, h_);
    transpose<T>({q.data + queries_.first * q.stride, q.stride}, queries_.count, d_, q_.data());
    std::fill_n(sums_.data(), kBlock * width_, R{0});
    std::fill_n(maximum_, kBlock, -std::numeric_limits<R>::infinity());
    const std::int64_t kv_head = h_ / (op_.q.size(2) / op_.k.size(2)), s = op_.k.size(1);
    const HeadRows<const T> k = head_of<const T>(op_.k, b_, kv_head), v = head_of<const T>(op_.v, b_, kv_head);
    for (std::int64_t first = queries_.whole.begin / kBlock * kBlock; first < queries_.whole.end; first += kBlock) {
      const TileShape<R> tile(queries_, first, s);
      if (tile.empty) continue;
      const std::int64_t rows = padded(tile.keys, kGroup);
      const Elements<E> keys = left_rows<T>({k.data + first * k.stride, k.stride}, tile.keys, rows, d_, k_.data());
      const Right<E> values = right_rows<T>({v.data + first * v.stride, v.stride}, tile.keys, rows, d_, width_, v_.data());
      compute_scores<R>(tile, queries_, d_, keys, q_.data(), scores_.data());
      softmax(tile);
      for (std::int64_t g = 0; g < kGroups; ++g) {
        const Range& seen = tile.keys_of[g];
        if (seen.empty()) continue;
        small_product<Write::Add, R>(kGroup, width_, (seen.end - seen.begin) / kPack<E>, shares_.by_query(g, seen.begin),
                                     values.from(seen.begin), values.stride, sums_.data() + g * kGroup * width_, width_);
      }
    }
    write();
  }

 private:
  /// Scores become exp(scale * score - maximum); what was summed up under an older maximum is brought to the new one.
  void softmax(const TileShape<R>& tile) {
    R* scores = scores_.data();
    R base[kBlock], factor[kBlock];
    std::fill_n(base, kBlock, -std::numeric_limits<R>::infinity());
    each_row(tile, [&](std::int64_t row, const Range& lanes) {
      each_lane<R>(lanes, [&](std::int64_t i) { base[i] = scores[row + i] > base[i] ? scores[row + i] : base[i]; });
    });
    each_lane<R>({0, kBlock}, [&](std::int64_t i) {
      const R before = maximum_[i], here = scale_ * base[i];
      maximum_[i] = base[i] = here > before ? here : before;
      base[i] = base[i] == -std::numeric_limits<R>::infinity() ? R{0} : base[i];  // nothing seen yet: any base will do
      factor[i] = exponential(before - base[i]);
      total_[i] *= factor[i];
    });
    each_row(tile, [&](std::int64_t row, const Range& lanes) {
      each_lane<R>(lanes, [&](std::int64_t i) {
        const R p = exponential(scale_ * scores[row + i] - base[i]);
        scores[row + i] = p;
        total_[i] += p;
      });
    });
    for (std::int64_t g = 0; g < kGroups; ++g) shares_.pack_keys(g, tile.queries_of[g]);
    for (std::int64_t i = 0; i < queries_.count; ++i) {
      if (factor[i] == R{1}) continue;
      for (std::int64_t j = 0; j < width_; ++j) sums_[i * width_ + j] *= factor[i];
    }
  }

  /// Calls f(offset of the row of scores, its lanes) for every row computed.
  template <class F>
  static void each_row(const TileShape<R>& tile, const F& f) {
    for (std::int64_t g = 0; g < kGroups; ++g) {
      if (tile.queries_of[g].empty()) continue;
      for (std::int64_t i = g * kGroup; i < (g + 1) * kGroup; ++i) f(i * kBlock, tile.queries_of[g]);
    }
  }

  void write() const {
    const HeadRows<T> o = head_of<T>(op_.o, b_, h_);
    R* lse = op_.lse.data<R>() + (b_ * op_.q.size(2) + h_) * op_.q.size(1) + queries_.first;
    for (std::int64_t i = 0; i < queries_.count; ++i) {
      const bool blind = queries_.seen[i].empty();
      lse[i] = blind ? std::numeric_limits<R>::infinity() : maximum_[i] + std::log(total_[i]);
      const R factor = blind ? R{0} : R{1} / total_[i];
      T* row = o.data + (queries_.first + i) * o.stride;
      for (std::int64_t j = 0; j < d_; ++j) row[j] = convert<T>(sums_[i * width_ + j] * factor);
    }
  }

  const Attention& op_;
  std::int64_t b_, h_, d_, width_;
  QueryBlock queries_;
  R scale_;
  Scratch<E> q_;
  Scratch<Unit<T>> k_;
  Scratch<E> v_;
  Scratch<R> scores_, sums_;
  TileOperand<T> shares_;
  R maximum_[kBlock] = {};
  R total_[kBlock] = {};
};

}  // namespace

void launch(Cpu& cpu, const Attention& op) {
  const std::int64_t heads = op.q.size(2), blocks = divide_up(op.q.size(1), kBlock);
  visit_floating(op.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for_uneven(cpu, op.q.size(0) * heads * blocks, [&](std::int64_t i) {
      const std::int64_t head = i / blocks;
      const std::int64_t block = blocks - 1 - i % blocks;  // late queries see most: they go first
      Forward<T>(op, head / heads, head % heads, block * kBlock).run();
    });
  });
}

}  // namespace oxrse::ops
