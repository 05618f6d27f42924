#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "io/background.h"
#include "io/checkpoint/snapshot.h"
#include "io/files.h"
#include "tests/catch.h"
#include "tests/io/checkpoint_fixture.h"

namespace oxrse::io {
namespace {

using Catch::Contains;

TEST_CASE("work goes on in the background until it is waited for") {
  Background background;
  std::atomic<int> stage{0};
  background.start([&] {
    while (stage == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stage = 2;
  });
  CHECK(background.busy());
  CHECK(stage == 0);
  stage = 1;
  background.wait();
  CHECK(stage == 2);
  CHECK_FALSE(background.busy());
  background.wait();  // nothing to wait for
}

TEST_CASE("what fails in the background is thrown where it is waited for, once") {
  Background background;
  background.start([] { fail("no room"); });
  CHECK_THROWS_WITH(background.wait(), Contains("no room"));
  background.wait();
  bool done = false;
  background.start([&] { done = true; });
  background.wait();
  CHECK(done);
}

TEST_CASE("the end waits for what is going on") {
  std::atomic<bool> done{false};
  {
    Background background;
    background.start([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      done = true;
    });
  }
  CHECK(done);
}

TEST_CASE("a snapshot is saved as the state was, whatever happens to it meanwhile") {
  const TemporaryDirectory a, b;
  SmallState state(3, 1'000'003);
  state.save(a.path());
  Snapshot snapshot(state.entries, 2);
  for (int round = 0; round < 2; ++round) {  // the memory is used again
    snapshot.take(state.entries);
    SmallState changed = state;
    for (auto& memory : state.memory) std::fill(memory.begin(), memory.end(), std::byte{0x5A});
    Warnings warnings;
    save_checkpoint(b.path(), state.state, snapshot.entries(), 0, warnings.sink());
    CHECK(read_file(a / "step_0000000003" / "shard_r00000.h5") == read_file(b / "step_0000000003" / "shard_r00000.h5"));
    for (std::size_t i = 0; i < state.memory.size(); ++i)
      std::copy(changed.memory[i].begin(), changed.memory[i].end(), state.memory[i].begin());
  }
}

TEST_CASE("a snapshot takes the room it says, and some of its tensors fit, too") {
  const SmallState state(3, 1001);
  std::int64_t bytes = 0;
  for (const CheckpointEntry& entry : state.entries) bytes += entry.tensor.bytes();
  const std::int64_t room = Snapshot::bytes_for(state.entries);
  CHECK(room >= bytes);
  CHECK(room <= bytes + Arena::kAlignment * static_cast<std::int64_t>(state.entries.size()));
  Snapshot snapshot(state.entries, 2);
  snapshot.take(std::span(state.entries).subspan(2, 3));
  REQUIRE(snapshot.entries().size() == 3);
  CHECK(bytes_of(snapshot.entries()[1].tensor) == bytes_of(state.entries[3].tensor));
  SmallState larger(3, 2001);
  CHECK_THROWS_AS(snapshot.take(larger.entries), Error);
}

}  // namespace
}  // namespace oxrse::io
