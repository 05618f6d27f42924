#include "engine/cpu/gemm_tile.h"

#ifdef OXRSE_HAVE_ONEDNN

#include <omp.h>

#include <array>
#include <dnnl.hpp>
#include <memory>
#include <unordered_map>

#include "engine/cpu/parallel.h"

namespace oxrse::cpu {
namespace {

using dnnl::memory;

/// Keeps oneDNN on the calling thread: it plans for, and starts, as many threads as OpenMP allows here.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// Everything of a tile but its addresses.
using Key = std::array<std::int64_t, 8>;
struct HashKey {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = 0;
    for (const std::int64_t k : key) hash = (hash ^ static_cast<std::uint64_t>(k)) * 0x9E3779B97F4A7C15U + (hash >> 29U);
    return hash;
  }
};

Key key_of(const GemmTile& t) {
  const std::int64_t flags = (t.a.transposed ? 1 : 0) + (t.b.transposed ? 2 : 0) + (t.add ? 4 : 0);
  return {t.m, t.n, t.k, t.a.stride, t.b.stride, t.ldc, flags, static_cast<std::int64_t>(t.type)};
}

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

/// A compiled product and the argument list of its calls.
class Primitive {
 public:
  explicit Primitive(const GemmTile& t) {
    const auto type = t.type == DType::BF16 ? memory::data_type::bf16 : memory::data_type::f32;
    const memory::desc a = describe(t.m, t.k, type, t.a), b = describe(t.k, t.n, type, t.b);
    const memory::desc c({t.m, t.n}, memory::data_type::f32, memory::dims{t.ldc, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (t.add) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc plan(dnnl::matmul::desc(a, b, c), attributes, engine());
    matmul_ = dnnl::matmul(plan);
    scratch_bytes_ = static_cast<std::int64_t>(plan.scratchpad_desc().get_size());
    a_ = memory(a, engine(), nullptr);
    b_ = memory(b, engine(), nullptr);
    c_ = memory(c, engine(), nullptr);
    scratch_ = memory(plan.scratchpad_desc(), engine(), nullptr);
    arguments_ = {
        {{DNNL_ARG_SRC, a_.get()}, {DNNL_ARG_WEIGHTS, b_.get()}, {DNNL_ARG_DST, c_.get()}, {DNNL_ARG_SCRATCHPAD, scratch_.get()}}};
  }

  void run(const GemmTile& t, dnnl::stream& stream) {
    const Scratch<std::byte> scratch(scratch_bytes_);
    a_.set_data_handle(const_cast<std::byte*>(t.a.data));  // oneDNN has no type for what is only read
    b_.set_data_handle(const_cast<std::byte*>(t.b.data));
    c_.set_data_handle(t.c);
    scratch_.set_data_handle(scratch.data());
    dnnl::error::wrap_c_api(dnnl_primitive_execute(matmul_.get(), stream.get(), static_cast<int>(arguments_.size()), arguments_.data()),
                            "a matrix product failed");
    stream.wait();
  }

 private:
  static memory::desc describe(std::int64_t rows, std::int64_t columns, memory::data_type type, const GemmOperand& x) {
    return {{rows, columns}, type, x.transposed ? memory::dims{1, x.stride} : memory::dims{x.stride, 1}};
  }

  dnnl::matmul matmul_;
  std::int64_t scratch_bytes_ = 0;
  memory a_, b_, c_, scratch_;
  std::array<dnnl_exec_arg_t, 4> arguments_{};
};

/// What a thread needs of its own. oneDNN shares the compiled code between threads.
struct ThreadState {
  dnnl::stream stream{engine()};
  std::unordered_map<Key, std::unique_ptr<Primitive>, HashKey> primitives;  // null: oneDNN does not know this product

  Primitive* find(const GemmTile& t) {
    constexpr std::size_t kLimit = 1024;  // texts of every length must not fill the memory
    const Key key = key_of(t);
    const auto found = primitives.find(key);
    if (found != primitives.end()) return found->second.get();
    if (primitives.size() >= kLimit) primitives.clear();
    std::unique_ptr<Primitive> made;
    try {
      made = std::make_unique<Primitive>(t);
    } catch (const dnnl::error&) {
      made.reset();
    }
    return primitives.emplace(key, std::move(made)).first->second.get();
  }
};

}  // namespace

bool gemm_tile_onednn(const GemmTile& tile) {
  if (tile.type != DType::F32 && tile.type != DType::BF16) return false;
  const OneThread one_thread;
  static thread_local ThreadState state;
  Primitive* primitive = state.find(tile);
  if (primitive == nullptr) return false;
  primitive->run(tile, state.stream);
  return true;
}

}  // namespace oxrse::cpu

#else

namespace oxrse::cpu {
bool gemm_tile_onednn(const GemmTile& /*tile*/) { return false; }
}  // namespace oxrse::cpu

#endif
