#include "engine/core/arena.h"

#include "engine/core/context.h"
#include "tests/catch.h"

using namespace oxrse;

TEST_CASE("tensors are aligned, disjoint and counted by kind") {
  Arena arena = Arena::allocated(1024);
  const Tensor a = arena.make(DType::F32, {3, 5}, Memory::Weights);
  const Tensor b = arena.make(DType::F64, {1}, Memory::Activations);
  CHECK(reinterpret_cast<std::uintptr_t>(a.address()) % Arena::kAlignment == 0);
  CHECK(b.address() - a.address() == 64);
  CHECK(arena.use()[Memory::Weights] == 64);
  CHECK(arena.use()[Memory::Activations] == 64);
  CHECK(arena.use().total() == 128);
  for (int i = 0; i < 15; ++i) a.data<float>()[i] = 1;
  b.data<double>()[0] = 2;
  CHECK(a.data<float>()[14] == 1);
}

TEST_CASE("scopes release in reverse and the peak stays") {
  Arena arena = Arena::allocated(4096);
  const Tensor kept = arena.make(DType::F32, {16}, Memory::Weights);
  const std::byte* first = nullptr;
  {
    const ArenaScope outer(arena);
    first = arena.make(DType::F32, {16}, Memory::Activations).address();
    {
      const ArenaScope inner(arena);
      arena.make(DType::F32, {100}, Memory::Workspace);
      CHECK(arena.use().total() == 64 + 64 + 448);
    }
    CHECK(arena.use().total() == 128);
    arena.make(DType::F32, {16}, Memory::Gradients);
  }
  CHECK(arena.use().total() == 64);
  CHECK(arena.make(DType::F32, {16}, Memory::Gradients).address() == first);
  CHECK(arena.peak().total() == 576);
  CHECK(arena.peak()[Memory::Workspace] == 448);
  CHECK(arena.peak()[Memory::Gradients] == 0);  // the peak is one moment, not each kind's own highest
  CHECK(kept.present());
}

TEST_CASE("a planned arena gives the addresses and peak of the allocated one without memory") {
  Arena planned = Arena::planned();
  Arena real = Arena::allocated(4096);
  std::vector<std::uintptr_t> addresses[2];
  for (Arena* arena : {&planned, &real}) {
    auto& list = addresses[arena == &real ? 1 : 0];
    const ArenaScope scope(*arena);
    for (const std::int64_t size : {1, 33, 211})
      list.push_back(reinterpret_cast<std::uintptr_t>(arena->make(DType::F32, {size}, Memory::Workspace).address()));
  }
  for (std::size_t i = 1; i < 3; ++i) CHECK(addresses[0][i] - addresses[0][0] == addresses[1][i] - addresses[1][0]);
  CHECK(planned.is_planned());
  CHECK_FALSE(real.is_planned());
  CHECK(planned.peak().bytes == real.peak().bytes);
  CHECK(planned.make(DType::BF16, {1LL << 40}, Memory::Weights).bytes() == 1LL << 41);
}

TEST_CASE("an arena that is too small says so") {
  Arena arena = Arena::allocated(128);
  arena.make(DType::F32, {32}, Memory::Weights);
  CHECK_THROWS_WITH(arena.make(DType::F32, {1}, Memory::Weights),
                    Catch::Matchers::Contains("the arena of 128 bytes has no room for 64 more (128 in use)"));
  CHECK(arena.use().total() == 128);
  CHECK_THROWS_WITH(Arena::allocated(1LL << 60), Catch::Matchers::Contains("cannot allocate"));
}

TEST_CASE("a moved arena keeps its memory") {
  Arena arena = Arena::allocated(256);
  const Tensor t = arena.make(DType::F32, {4}, Memory::Weights);
  t.data<float>()[3] = 7;
  Arena moved = std::move(arena);
  CHECK(t.data<float>()[3] == 7);
  CHECK(moved.use().total() == 64);
  Arena other = Arena::planned();
  other = std::move(moved);
  CHECK(t.data<float>()[3] == 7);
  CHECK_FALSE(other.is_planned());
}

TEST_CASE("the op log counts equal ops in one line, in order of first use") {
  OpLog log;
  log.add("linear", "f32(2, 3)", {.flops = 10, .bytes = 1});
  log.add("rmsnorm", "f32(2, 3)", {.flops = 1, .bytes = 2});
  log.add("linear", "f32(2, 3)", {.flops = 10, .bytes = 1});
  log.add("linear", "f32(2, 4)", {.flops = 5, .bytes = 1});
  REQUIRE(log.entries().size() == 3);
  CHECK(log.entries()[0].name == "linear");
  CHECK(log.entries()[0].calls == 2);
  CHECK(log.entries()[0].cost.flops == 20);
  CHECK(log.entries()[2].shape == "f32(2, 4)");
  CHECK(log.total().flops == 26);
  CHECK(log.total().bytes == 5);
}
