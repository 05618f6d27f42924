#include <random>

#include "io/checkpoint/prune.h"
#include "io/checksum.h"
#include "io/files.h"
#include "tests/catch.h"
#include "tests/io/checkpoint_fixture.h"

namespace oxrse::io {
namespace {

using Catch::Contains;

/// A manifest of these contents with a right checksum.
void put_manifest(const std::filesystem::path& path, const Json& json) {
  std::string text = "{\n\"checksum\": \"0000000000000000\",\n" + json.dump().substr(1);
  text.replace(text.find("0000"), 16, hex(xxh3(text)));
  put(path, text);
}

Json read_json_manifest(const std::filesystem::path& path) {
  Json json = Json::parse(read_file(path));
  json.erase("checksum");
  return json;
}

/// Every value inside, itself included.
void collect(Json& json, std::vector<Json*>& values) {
  values.push_back(&json);
  if (json.is_structured()) {
    for (Json& inner : json) collect(inner, values);
  }
}

/// Reads the checkpoint as far as its manifest lets one; true when an Error says what is wrong with it.
bool refused(const std::filesystem::path& step) {
  try {
    const Checkpoint checkpoint = Checkpoint::open_unverified(step);
    for (const StoredTensor& tensor : checkpoint.tensors()) {
      if (tensor.bytes() > 1 << 20) continue;
      std::vector<std::byte> memory(static_cast<std::size_t>(tensor.bytes()));
      checkpoint.read(tensor.name, tensor.part, Tensor(memory.data(), tensor.dtype, tensor.shape));
    }
    Warnings warnings;
    Checkpoint::open(step, warnings.sink());
    return false;
  } catch (const Error&) {
    return true;
  }
}

TEST_CASE("a manifest of any contents is read or refused, never more") {
  const TemporaryDirectory dir;
  SmallState(5).save(dir.path());
  const auto step = dir / "step_0000000005", path = step / "manifest.json";
  const Json whole = read_json_manifest(path);
  put_manifest(path, whole);
  REQUIRE_FALSE(refused(step));
  const std::vector<Json> strange = {nullptr,
                                     true,
                                     -1,
                                     0,
                                     1,
                                     7,
                                     1e300,
                                     INT64_MAX,
                                     INT64_MIN,
                                     UINT64_MAX,
                                     "",
                                     "f32",
                                     "../x",
                                     "/",
                                     "..",
                                     "\n",
                                     Json::array(),
                                     Json::object(),
                                     Json::array({1, 2, 3, 4, 5, 6, 7}),
                                     Json::array({INT64_MAX, INT64_MAX}),
                                     Json::array({-1, 5})};
  std::mt19937 random(3);
  int refusals = 0;
  constexpr int kTrials = 3000;
  for (int trial = 0; trial < kTrials; ++trial) {
    Json json = whole;
    const std::size_t changes = 1 + random() % 3;
    for (std::size_t i = 0; i < changes; ++i) {
      std::vector<Json*> values;
      collect(json, values);
      Json& victim = *values[random() % values.size()];
      if (victim.is_structured() && !victim.empty() && random() % 2 == 0) {
        victim.erase(std::next(victim.begin(), static_cast<std::ptrdiff_t>(random() % victim.size())));
      } else {
        victim = strange[random() % strange.size()];
      }
    }
    put_manifest(path, json);
    CAPTURE(json.dump());
    refusals += refused(step) ? 1 : 0;
  }
  CHECK(refusals > kTrials / 2);
}

TEST_CASE("a cut or scrambled manifest is refused") {
  const TemporaryDirectory dir;
  SmallState(5).save(dir.path());
  const auto step = dir / "step_0000000005", path = step / "manifest.json";
  const std::string whole = read_file(path);
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    std::string text = whole;
    if (trial % 2 == 0) {
      text.resize(random() % text.size());
    } else {
      for (int i = 0; i < 3; ++i) text[random() % text.size()] = static_cast<char>(random());
    }
    if (text == whole) continue;
    put(path, text);
    CHECK(refused(step));
  }
}

TEST_CASE("manifests of version 1 are still read") {
  const TemporaryDirectory dir;
  const SmallState truth(5);
  truth.save(dir.path());
  const auto path = dir / "step_0000000005" / "manifest.json";
  Json json = read_json_manifest(path);
  json["version"] = 1;
  json.erase("weights_only");
  for (Json& file : json["files"]) file.erase("structure");
  put_manifest(path, json);
  Warnings warnings;
  Checkpoint::load(dir.path(), warnings.sink(), Need::Everything, [&](const Checkpoint& checkpoint) {
    for (const CheckpointEntry& entry : truth.entries) CHECK(read_bytes(checkpoint, entry) == bytes_of(entry.tensor));
  });
  json["version"] = 3;
  put_manifest(path, json);
  CHECK_THROWS_WITH(read_manifest(path.parent_path()), Contains("format version 3"));
}

std::vector<std::string> steps_in(const std::filesystem::path& path) {
  std::vector<std::string> names;
  for (const auto& directory : step_directories_in(path)) names.push_back(directory.filename().string());
  return names;
}

TEST_CASE("pruning keeps the newest whole checkpoints") {
  const TemporaryDirectory dir;
  for (const std::int64_t step : {1, 2, 3, 4}) SmallState(step).save(dir / "checkpoints");
  const auto shard = dir / "checkpoints" / "step_0000000004" / "shard_r00000.h5";
  std::string broken = read_file(shard);
  broken[broken.size() / 2] ^= 1;
  put(shard, broken);
  CHECK(prune(dir.path(), 2, true).size() == 4);
  CHECK(steps_in(dir.path()).size() == 4);
  const auto result = prune(dir.path(), 2, false);
  CHECK(steps_in(dir.path()) == std::vector<std::string>{"step_0000000002", "step_0000000003"});
  REQUIRE(result.size() == 4);
  CHECK_FALSE(result[0].kept);
  CHECK(result[0].damage.size() == 1);
  CHECK_THROWS_WITH(prune(dir.path(), 0, false), Contains("at least 1"));
}

TEST_CASE("pruning removes nothing when nothing is whole") {
  const TemporaryDirectory dir;
  for (const std::int64_t step : {1, 2}) {
    SmallState(step).save(dir.path());
    put(dir / ("step_000000000" + std::to_string(step)) / "shard_r00000.h5", "garbage");
  }
  CHECK_THROWS_WITH(prune(dir.path(), 1, false), Contains("nothing is removed"));
  CHECK(steps_in(dir.path()).size() == 2);
}

TEST_CASE("retention does not count checkpoints that have lost files") {
  const TemporaryDirectory dir;
  for (const std::int64_t step : {1, 2}) SmallState(step).save(dir.path());
  std::filesystem::remove(dir / "step_0000000002" / "shard_r00000.h5");
  SmallState(3).save(dir.path(), 2);
  CHECK(steps_in(dir.path()) == std::vector<std::string>{"step_0000000001", "step_0000000002", "step_0000000003"});
  SmallState(4).save(dir.path(), 2);
  CHECK(steps_in(dir.path()) == std::vector<std::string>{"step_0000000003", "step_0000000004"});
}

/// A state of this step that differs from SmallState(step).
void save_other(const std::filesystem::path& path, std::int64_t step, std::int64_t keep) {
  SmallState other(step);
  other.state.config["run"]["seed"] = 1;
  save_checkpoint(path, other.state, other.entries, keep, [](const std::string&) {});
}

std::vector<std::string> everything_in(const std::filesystem::path& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE("what was set aside goes when as many checkpoints as are kept were saved after it, and takes no place") {
  const TemporaryDirectory dir;
  for (const std::int64_t step : {100, 200, 300}) SmallState(step).save(dir.path(), 3);
  save_other(dir.path(), 150, 3);  // went on from step 100
  save_other(dir.path(), 200, 3);
  CHECK(everything_in(dir.path()) == std::vector<std::string>{"LATEST", "step_0000000100", "step_0000000150", "step_0000000200",
                                                              "step_0000000200.older", "step_0000000300"});
  save_other(dir.path(), 250, 3);
  CHECK(everything_in(dir.path()) ==
        std::vector<std::string>{"LATEST", "step_0000000150", "step_0000000200", "step_0000000250", "step_0000000300"});
  save_other(dir.path(), 300, 0);  // 0 keeps everything
  save_other(dir.path(), 350, 0);
  CHECK(everything_in(dir.path()).size() == 7);
  save_other(dir.path(), 400, 1);
  CHECK(everything_in(dir.path()) == std::vector<std::string>{"LATEST", "step_0000000400"});
}

TEST_CASE("what was set aside stays while what was saved after it is not whole") {
  const TemporaryDirectory dir;
  SmallState(100).save(dir.path());
  save_other(dir.path(), 100, 2);
  std::filesystem::remove(dir / "step_0000000100" / "shard_r00000.h5");
  save_other(dir.path(), 200, 2);
  CHECK(std::filesystem::exists(dir / "step_0000000100.older"));
  save_other(dir.path(), 300, 2);
  CHECK(!std::filesystem::exists(dir / "step_0000000100.older"));
}

TEST_CASE("pruning removes what was set aside, and nothing of another name") {
  const TemporaryDirectory dir;
  SmallState(100).save(dir.path());
  save_other(dir.path(), 100, 0);
  SmallState(100).save(dir / "elsewhere");
  std::filesystem::rename(dir / "elsewhere" / "step_0000000100", dir / "step_0000000100.olderx");
  CHECK(prune(dir.path(), 1, true).size() == 2);
  CHECK(std::filesystem::exists(dir / "step_0000000100.older"));
  const auto result = prune(dir.path(), 1, false);
  CHECK(result.back().directory == dir / "step_0000000100.older");
  CHECK_FALSE(result.back().kept);
  CHECK(everything_in(dir.path()) == std::vector<std::string>{"LATEST", "elsewhere", "step_0000000100", "step_0000000100.olderx"});
}

}  // namespace
}  // namespace oxrse::io
