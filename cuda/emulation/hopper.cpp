#include "cuda/emulation/hopper.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "cuda/emulation/scheduler.h"
#include "engine/core/error.h"

namespace oxrse::emulation {
namespace {

constexpr unsigned kWindow = 1040;  // where dynamic shared memory starts
constexpr int kSwizzled = 128;      // bytes of a row in the swizzle of 128 bytes

std::byte* at(unsigned address, std::size_t bytes, std::string_view what) {
  require(address >= kWindow && address - kWindow + bytes <= scheduler().shared_bytes(), "{}: outside of shared memory", what);
  return static_cast<std::byte*>(scheduler().shared_memory()) + (address - kWindow);
}

/// The swizzle of 128 bytes: bits 4 to 6 of an address are xored with bits 7 to 9, so that eight rows of 128 bytes have a column of 16
/// bytes in different banks.
unsigned swizzled(unsigned address) { return address ^ (address >> 7U & 7U) << 4U; }

/// What an mbarrier's 8 bytes hold here.
struct Mbarrier {
  std::uint16_t threads;
  std::uint16_t phase;
  std::int16_t missing;  // threads
  std::int16_t packs;    // of 16 bytes that were announced and did not come yet
};
static_assert(sizeof(Mbarrier) == sizeof(std::uint64_t));

Mbarrier& state_of(std::uint64_t* barrier) {
  require(shared_address(barrier) % 8 == 0, "mbarrier: its address must be a multiple of 8");
  auto& state = *reinterpret_cast<Mbarrier*>(at(shared_address(barrier), sizeof(Mbarrier), "mbarrier"));
  return state;
}
Mbarrier& made(std::uint64_t* barrier) {
  Mbarrier& state = state_of(barrier);
  require(state.threads != std::numeric_limits<std::uint16_t>::max(), "mbarrier: used before it was made");
  return state;
}

void end_phase_if_complete(Mbarrier& state) {
  if (state.missing > 0 || state.packs != 0) return;
  state.phase ^= 1U;
  state.missing = static_cast<std::int16_t>(state.threads);
  scheduler().signal(&state);
}

}  // namespace

unsigned shared_address(const void* memory) {
  const auto offset = static_cast<const std::byte*>(memory) - static_cast<const std::byte*>(scheduler().shared_memory());
  return static_cast<unsigned>(kWindow + offset);
}

void make_mbarrier(std::uint64_t* barrier, int threads) {
  require(threads > 0 && threads <= static_cast<int>(kMostThreads), "mbarrier: for {} threads", threads);
  state_of(barrier) = {
      .threads = static_cast<std::uint16_t>(threads), .phase = 0, .missing = static_cast<std::int16_t>(threads), .packs = 0};
}

void arrive(std::uint64_t* barrier) { arrive_expecting(barrier, 0); }

void arrive_expecting(std::uint64_t* barrier, int bytes) {
  Mbarrier& state = made(barrier);
  require(state.missing > 0, "mbarrier: more threads arrive in a phase than it is for");
  release(barrier);
  state.packs = static_cast<std::int16_t>(state.packs + bytes / 16);
  --state.missing;
  end_phase_if_complete(state);
}

void wait_for_phase(std::uint64_t* barrier, int parity, const std::source_location& where) {
  const Mbarrier& state = made(barrier);
  while (state.phase == parity) scheduler().wait_for(&state, where);
  acquire(barrier);
}

void arrive(int name, int threads) {
  require(name >= 1 && name <= 15 && threads % kWarp == 0, "barrier {} for {} threads: 1 to 15, for whole warps", name, threads);
  NamedBarrier& barrier = scheduler().named_barrier(name);
  require(barrier.arrived == 0 || barrier.threads == threads, "barrier {}: for {} and for {} threads", name, barrier.threads, threads);
  barrier.threads = threads;
  release(&barrier);
  if (++barrier.arrived < threads) return;
  barrier.arrived = 0;
  ++barrier.phase;
  scheduler().signal(&barrier);
}

void barrier(int name, int threads, const std::source_location& where) {
  require(name >= 1 && name <= 15, "barrier {}: 1 to 15", name);
  NamedBarrier& barrier = scheduler().named_barrier(name);
  const std::int64_t phase = barrier.phase;
  arrive(name, threads);
  while (barrier.phase == phase) scheduler().wait_for(&barrier, where);
  acquire(&barrier);
}

void copy_box(void* to, const TensorBox& box, const std::array<int, 4>& first, std::uint64_t* barrier) {
  const int row_bytes = box.columns * box.element;
  const unsigned address = shared_address(to);
  require(row_bytes == kSwizzled && address % kSwizzled == 0, "copy of a box: rows of {} bytes to {:#x}, expected {} and a multiple of it",
          row_bytes, address, kSwizzled);
  const auto bytes = static_cast<std::size_t>(row_bytes) * static_cast<std::size_t>(box.rows);
  std::memset(at(address, bytes, "copy of a box"), 0xff, bytes);
  made(barrier);
  scheduler().transfers().emplace_back([=] {
    for (int r = 0; r < box.rows; ++r) {
      for (int c = 0; c < box.columns; ++c) {
        std::byte* element = at(swizzled(address + static_cast<unsigned>(r * row_bytes + c * box.element)), 2, "copy of a box");
        std::memset(element, 0, static_cast<std::size_t>(box.element));
        const std::array<std::int64_t, 4> index = {first[0] + c, first[1], first[2] + r, first[3]};
        bool inside = true;
        std::int64_t offset = index[0] * box.element;
        for (std::size_t i = 0; i < 4; ++i) {
          inside = inside && index[i] >= 0 && index[i] < box.sizes[i];
          if (i > 0) offset += index[i] * box.strides[i - 1];
        }
        if (inside) std::memcpy(element, box.base + offset, static_cast<std::size_t>(box.element));
      }
    }
    Mbarrier& state = made(barrier);
    state.packs = static_cast<std::int16_t>(state.packs - static_cast<int>(bytes) / 16);
    end_phase_if_complete(state);
  });
}

std::vector<Products::Sums>::iterator Products::find(const float* c) { return std::ranges::find(sums_, c, &Sums::to); }

void Products::start(const WarpgroupProduct& product) {
  require(fenced_, "wgmma: a group of products begins without a fence");
  started_.push_back({product, groups_});
  if (find(product.c) != sums_.end()) return;
  const auto count = product.columns / 2;
  sums_.push_back({product.c, {product.c, product.c + count}});
  std::fill_n(product.c, count, std::numeric_limits<float>::quiet_NaN());
}

void Products::commit() {
  ++groups_;
  fenced_ = false;
}

std::size_t Products::due(int pending) const {
  return static_cast<std::size_t>(std::ranges::count_if(started_, [&](const Started& s) { return s.group < groups_ - pending; }));
}

float* Products::sums(std::size_t i) { return find(started_[i].product.c)->values.data(); }

void Products::finish(std::size_t count) {
  started_.erase(started_.begin(), started_.begin() + static_cast<std::ptrdiff_t>(count));
  std::erase_if(sums_, [&](const Sums& sums) {
    if (std::ranges::any_of(started_, [&](const Started& s) { return s.product.c == sums.to; })) return false;
    std::ranges::copy(sums.values, sums.to);
    return true;
  });
}

namespace {

/// A matrix descriptor ("Matrix Descriptor Format"): address, the offset from one panel of 64 numbers to the next, the offset from eight
/// rows to the next eight, and 1 for the swizzle of 128 bytes.
struct Matrix {
  unsigned start, panel, rows;

  explicit Matrix(std::uint64_t descriptor) {
    const auto field = [&](unsigned bit) { return static_cast<unsigned>(descriptor >> bit & 0x3fffU) << 4U; };
    start = field(0);
    panel = field(16);
    rows = field(32);
    require(descriptor >> 62U == 1 && (descriptor >> 49U & 7U) == 0, "wgmma: a matrix descriptor {:#x} of another swizzle", descriptor);
  }
  /// Number `column` of row `row`; columns are those that lie side by side.
  [[nodiscard]] std::uint16_t number(unsigned row, unsigned column, bool panels) const {
    const unsigned address = start + row / 8 * rows + row % 8 * kSwizzled + (panels ? column / 64 * panel + column % 64 * 2 : column * 2);
    std::uint16_t value = 0;
    std::memcpy(&value, at(swizzled(address), 2, "wgmma"), sizeof value);
    return value;
  }
};

constexpr int kSteps = 16;  // numbers of a row of A
constexpr int kMostColumns = 256;

using Left = float[16][kSteps];  // the 16 rows of A of one warp

/// A's fragments are those of mma.m16n8k16, one for each warp: "Register Fragments for wgmma.mma_async.m64nNk16".
void gather_left(Left& a, const std::array<Products*, kWarp>& lanes, std::size_t i, unsigned warp) {
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    const WarpgroupProduct& p = lanes[lane]->product(i);
    const std::size_t row = lane / 4, column = lane % 4 * 2;
    for (std::size_t j = 0; j < 4; ++j) {
      for (std::size_t half = 0; half < 2; ++half) {
        const std::size_t r = row + j % 2 * 8, c = column + j / 2 * 8 + half;
        const std::uint16_t bits =
            p.a_in_registers ? static_cast<std::uint16_t>(p.a[j] >> 16U * half)
                             : Matrix(p.a_matrix).number(warp % 4 * 16 + static_cast<unsigned>(r), static_cast<unsigned>(c), false);
        a[r][c] = p.widen(bits);
      }
    }
  }
}

void multiply(const std::array<Products*, kWarp>& lanes, std::size_t i, unsigned warp) {
  const WarpgroupProduct& first = lanes[0]->product(i);
  for (Products* lane : lanes) {
    const WarpgroupProduct& p = lane->product(i);
    require(p.columns == first.columns && p.b_matrix == first.b_matrix && p.a_matrix == first.a_matrix && p.accumulate == first.accumulate,
            "wgmma: lanes of a warp start different products");
  }
  Left a;
  gather_left(a, lanes, i, warp);
  static thread_local float b[kMostColumns][kSteps];
  const Matrix matrix(first.b_matrix);
  for (unsigned n = 0; n < static_cast<unsigned>(first.columns); ++n) {
    for (unsigned k = 0; k < kSteps; ++k) b[n][k] = first.widen(first.b_by_rows ? matrix.number(k, n, true) : matrix.number(n, k, false));
  }
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    float* sums = lanes[lane]->sums(i);
    for (std::size_t j = 0; j < static_cast<std::size_t>(first.columns) / 2; ++j) {
      const float* row = a[lane / 4 + j % 4 / 2 * 8];
      const float* column = b[j / 4 * 8 + lane % 4 * 2 + j % 2];
      float sum = 0;
      for (std::size_t k = 0; k < kSteps; ++k) sum += row[k] * column[k];
      sums[j] = first.accumulate ? sums[j] + sum : sum;
    }
  }
}

struct WaitInput {
  Products* products;
  std::size_t due;
  unsigned warp;
};

void combine_products(const LaneInputs& in, const LaneOutputs& /*out*/) {
  std::array<Products*, kWarp> lanes{};
  const auto input = [&](std::size_t lane) { return static_cast<const WaitInput*>(in[lane]); };
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    require(in[lane] != nullptr && input(lane)->due == input(0)->due, "wgmma: lanes of a warp wait for different products");
    lanes[lane] = input(lane)->products;
  }
  for (std::size_t i = 0; i < input(0)->due; ++i) multiply(lanes, i, input(0)->warp);
  for (Products* products : lanes) products->finish(input(0)->due);
}

}  // namespace

void fence_products() { scheduler().products().fence(); }
void start_product(const WarpgroupProduct& product) { scheduler().products().start(product); }
void commit_products() { scheduler().products().commit(); }

void wait_for_products(int pending, const std::source_location& where) {
  Products& products = scheduler().products();
  const WaitInput in{&products, products.due(pending), static_cast<unsigned>(scheduler().thread_index() / kWarp)};
  scheduler().wait_for_lanes(~0U, combine_products, &in, nullptr, false, where);
}

}  // namespace oxrse::emulation
