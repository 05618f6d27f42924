#pragma once

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "engine/core/json.h"
#include "tests/catch.h"
#include "tests/comm/has_mpi.h"
#include "tests/io/temporary.h"
#include "tests/tools/command.h"

namespace oxrse::test {

/// A small model, 12 micro-batches a step; every rank computes on one thread.
class SmallRun {
 public:
  SmallRun() {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "In line " + std::to_string(i * 7919 % 1000) + " nothing happens twice.\n";
    io::put(directory_ / "text.txt", text);
    const Json config = {
        {"model", {{"layers", 2}, {"width", 24}, {"heads", 3}, {"context", 16}, {"vocab", 0}}},
        {"data", {{"train", path("text.txt")}, {"tokenizer", "bytes"}, {"validation_fraction", 0.05}, {"cache", path("cache")}}},
        {"train", {{"steps", 6}, {"global_batch", 12}, {"micro_batch", 1}, {"context", 16}, {"eval_every", 3}, {"eval_batches", 5}}},
        {"optimizer", {{"warmup_steps", 2}}},
        {"comm", {{"timeout_s", 60}}},
        {"checkpoint", {{"every", 2}}},
        {"log", {{"every", 1}}}};
    io::put(directory_ / "config.json", config.dump());
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (directory_ / name).string(); }
  [[nodiscard]] CommandResult train(int ranks, const std::string& run, const std::string& options = "") const {
    const std::string launcher = ranks > 1 ? fmt::format("OMP_NUM_THREADS=1 mpirun -n {}", ranks) : "OMP_NUM_THREADS=1";
    return run_command(fmt::format("train {} --set 'run.dir=\"{}\"' {}", path("config.json"), path(run), options), launcher);
  }
  /// Loss, gradient norm and evaluation of every step so far.
  [[nodiscard]] std::vector<std::string> numbers(const std::string& run) const {
    std::ifstream file(directory_ / run / "metrics.jsonl");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line) && !file.eof();) {  // a line in the making has no end
      const Json all = Json::parse(line);
      Json kept;
      for (const char* key : {"step", "loss", "grad_norm", "lr", "val_loss"}) {
        if (all.contains(key)) kept[key] = all.at(key);
      }
      lines.push_back(kept.dump());
    }
    return lines;
  }

 private:
  io::TemporaryDirectory directory_;
};

}  // namespace oxrse::test
