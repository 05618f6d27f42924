#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "cuda/runtime/api.h"

namespace oxrse::cuda_emulated {

/// CUDA's libraries for tests: what is enqueued runs when somebody waits and not before, so a missing wait shows as memory that is still
/// NaN; what is captured runs when its graph is launched. Everything can be made to fail, and what was used is counted.
///
/// Its clock advances by a microsecond for everything that runs, for products by what `seconds_of` says, and by a millisecond for bringing
/// a graph to the device, with its first launch where that was not done before.
class StandIn : public cuda::Api {
 public:
  std::vector<cuda::Properties> machine = {{.name = "Stand-in",
                                            .major = 8,
                                            .minor = 0,
                                            .multiprocessors = 2,
                                            .memory = std::int64_t{1} << 30,
                                            .cache = 1 << 20,
                                            .managed_memory = true}};
  std::set<std::string> broken;  // calls that fail: "allocate", "copy", "wait", "wait_or_end", "launch", "multiply"
  int least_alignment = 2;       // products of less have no algorithm
  int algorithm_count = 3;       // of every other product
  bool activations = true;       // whether there are algorithms with them
  /// How long an algorithm takes.
  std::function<double(const cuda::Algorithm&)> seconds_of = [](const cuda::Algorithm&) { return 1e-6; };

  std::map<std::string, int> calls;  // how often each was made
  std::vector<std::string> ends;     // what a process would have said that ended
  int selected = -1;
  std::map<Memory, std::size_t> allocated;  // bytes in use now
  std::vector<std::string> ranges;          // that were begun
  std::vector<cuda::Algorithm> used;        // by products, in order

  std::vector<cuda::Properties> devices() override;
  void select(int device) override { selected = device; }
  std::int64_t free_bytes() override;
  std::byte* allocate(Memory kind, std::size_t bytes) override;
  void release(Memory kind, std::byte* memory) noexcept override;
  cuda::Stream make_stream() override;
  void release(cuda::Stream stream) noexcept override;
  void wait(cuda::Stream stream) override;
  void wait_or_end(cuda::Stream stream, double seconds, const std::string& why) override;
  void copy(cuda::Stream stream, void* to, const void* from, std::size_t bytes) override;
  cuda::Event make_event() override;
  void release(cuda::Event event) noexcept override;
  void record(cuda::Event event, cuda::Stream stream) override;
  double seconds_between(cuda::Event begin, cuda::Event end) override;
  void begin_capture(cuda::Stream stream) override;
  cuda::Graph end_capture(cuda::Stream stream) override;
  void abandon_capture(cuda::Stream stream) noexcept override;
  cuda::GraphExec instantiate(cuda::Graph graph) override;
  bool update(cuda::GraphExec exec, cuda::Graph graph) override;
  void upload(cuda::GraphExec exec, cuda::Stream stream) override;
  void launch(cuda::GraphExec exec, cuda::Stream stream) override;
  void release(cuda::Graph graph) noexcept override;
  void release(cuda::GraphExec exec) noexcept override;
  void begin_range(std::string_view name) override { ranges.emplace_back(name); }
  void end_range() noexcept override { ++calls["end_range"]; }
  std::string library_version() override { return "1.2.3"; }
  std::vector<cuda::Algorithm> algorithms(const cuda::Multiplication& product, const cuda::Operands& operands, std::size_t workspace,
                                          int most) override;
  bool accepts(const cuda::Multiplication& product, const cuda::Operands& operands, const cuda::Algorithm& algorithm,
               std::size_t workspace) override;
  void multiply(cuda::Stream stream, const cuda::Multiplication& product, const cuda::Operands& operands, const cuda::Algorithm& algorithm,
                std::byte* workspace, std::size_t workspace_bytes) override;

 private:
  /// Counts the call and fails when it is to.
  void called(const std::string& name);

  std::map<std::byte*, std::size_t> memory_;
  int captures_ = 0;  // that have begun and not ended
};

}  // namespace oxrse::cuda_emulated
