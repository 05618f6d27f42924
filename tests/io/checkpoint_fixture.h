#pragma once

#include <array>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "io/checkpoint/checkpoint.h"
#include "tests/catch.h"
#include "tests/io/temporary.h"

namespace oxrse::io {

/// Collects warnings.
struct Warnings {
  std::vector<std::string> texts;
  [[nodiscard]] Warn sink() {
    return [this](const std::string& text) { texts.push_back(text); };
  }
};

inline std::string bytes_of(const ConstTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.address()), static_cast<std::size_t>(tensor.bytes())};
}

inline std::string read_bytes(const Checkpoint& checkpoint, const CheckpointEntry& entry) {
  std::string bytes(static_cast<std::size_t>(entry.tensor.bytes()), '?');
  checkpoint.read(entry.name, entry.part, Tensor(reinterpret_cast<std::byte*>(bytes.data()), entry.tensor.dtype(), entry.tensor.sizes()));
  return bytes;
}

/// What a shell command prints; it must succeed.
inline std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), n);
  REQUIRE(::pclose(pipe) == 0);
  return output;
}

/// A few tensors of every type and of odd sizes, whose values depend on the step.
struct SmallState {
  std::vector<std::vector<std::byte>> memory;
  std::vector<CheckpointEntry> entries;
  CheckpointState state;

  explicit SmallState(std::int64_t step, std::int64_t large = 0) {
    state.step = step;
    state.config = {{"run", {{"seed", 1337}}}, {"name", "\u00fcber"}};
    state.state = {{"rng", {{"seed", 18446744073709551615U}}}, {"sampler", {{"epoch", step / 100}}}};
    state.tokenizer_json = R"({"model": "bytes"})";
    const auto phase = static_cast<float>(step);
    add<float>("blocks.0.w", "master", {3, 5}, phase + 0.1F);
    add<float>("blocks.0.w", "exp_avg", {3, 5}, phase + 0.2F);
    add<double>("blocks.0.norm", "master", {7}, phase + 0.3F);
    add<bf16>("embedding.weight", "model", {33, 17}, phase + 0.4F);
    add<f16>("half", "model", {2, 3, 5}, phase + 0.5F);
    add<float>("empty", "master", {0, 5}, 0);
    add<float>("scalar", "momentum", {}, phase);
    if (large > 0) add<float>("large", "master", {large}, phase + 0.6F);
  }

  void save(const std::filesystem::path& checkpoints, std::int64_t keep = 0) const {
    save_checkpoint(checkpoints, state, entries, keep, [](const std::string& text) { fail("unexpected warning: {}", text); });
  }

 private:
  template <class T>
  void add(const std::string& name, const std::string& part, const std::vector<std::int64_t>& shape, float first) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    memory.emplace_back(static_cast<std::size_t>(count) * sizeof(T));
    for (std::int64_t i = 0; i < count; ++i) {
      const T value(i == 1 ? std::numeric_limits<float>::quiet_NaN() : first + static_cast<float>(i) * 0.37F);
      std::memcpy(memory.back().data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
    }
    entries.push_back({name, part, ConstTensor(memory.back().data(), dtype_of<T>, shape)});
  }
};

}  // namespace oxrse::io
