#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/collectives.h"
#include "comm/checker.h"
#include "comm/measure.h"
#include "comm/report.h"
#include "comm/transport/nccl.h"
#include "comm/transport/threads.h"
#include "io/files.h"
#include "tools/commands.h"
#include "tools/gpu_link.h"
#include "tools/option_checks.h"

namespace oxrse::tools {
namespace {

struct Options {
  std::string show, transport = "auto", json, save_costs, collective = "all_reduce", dtype = "f32";
  int ranks = 2;
  std::int64_t count = 0;
  bench::CollectiveOptions sizes;
};

comm::Collective collective_named(const std::string& name) {
  for (const comm::Collective c : comm::kCollectives) {
    if (comm::name_of(c) == name) return c;
  }
  fail("--collective {}: expected all_reduce, reduce_scatter, all_gather, all_to_all or broadcast", name);
}

DType type_named(const std::string& name) {
  for (const DType type : {DType::BF16, DType::F16, DType::F32, DType::F64}) {
    if (name_of(type) == name) return type;
  }
  fail("--dtype {}: expected bf16, f16, f32 or f64", name);
}

/// Prints a schedule after the checker has proven it.
void show_schedule(const Options& options) {
  for (const comm::Algorithm a : comm::kAlgorithms) {
    if (comm::name_of(a) != options.show) continue;
    const std::int64_t count = options.count > 0 ? options.count : options.ranks;
    comm::Request request = comm::request(collective_named(options.collective), options.ranks, count);
    if (options.ranks % 2 == 0) request.ranks_per_node = 2;
    const comm::Schedule schedule = comm::compile_all(a, request);
    const comm::Checked checked = comm::check(schedule);
    fmt::print("{}checked: {} messages, at most {} elements sent by a rank, scratch {}; sums {}\n", comm::to_text(schedule),
               checked.messages, checked.most_sent, checked.scratch, checked.keeps_tree ? "pairwise" : "in an order of its own");
    return;
  }
  fail("--show {}: expected ring, tree, doubling, halving, direct or hierarchical", options.show);
}

/// Measures on one rank; rows come from the first.
void measure(comm::Communicator& ranks, const Options& options, const std::function<void(const bench::CollectiveRow&)>& show) {
  const comm::CostModel costs = comm::measure(ranks);
  ranks.set_cost(costs);
  if (ranks.rank() == 0) {
    fmt::print("{} ranks; a message {:.2f} us, {:.2f} GB/s, sums {:.2f} GB/s; * is what the model chooses\n{}", ranks.size(),
               costs.message.front() * 1e6, 1e-9 * costs.bandwidth(), 1e-9 / costs.gamma, bench::collective_heading());
    if (!options.save_costs.empty()) io::write_file_atomically(options.save_costs, to_json(costs).dump(1) + "\n");
  }
  bench::run_collectives(ranks, options.sizes, show);
}

void measure_on_threads(const Options& options, const std::function<void(const bench::CollectiveRow&)>& show) {
  comm::ThreadGroup group(options.ranks);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(options.ranks));
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < options.ranks; ++r) {
      threads.emplace_back([&, r] {
        comm::Communicator ranks(group.join(r), {});
        try {
          measure(ranks, options, show);
        } catch (const std::exception& error) {
          errors[static_cast<std::size_t>(r)] = std::current_exception();
          ranks.abort(error.what());
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void measure_on_processes(comm::MpiSession& session, Options& options, const std::function<void(const bench::CollectiveRow&)>& show) {
  const std::string& transport = options.transport;
  require(session.size() > 1, "--transport {}: one rank only; start several with mpirun -n 2 oxrse bench collectives --transport {}",
          transport, transport);
  comm::Communicator ranks(session.transport(), {.choice = {}, .ranks_per_node = session.ranks_per_node()});
  comm::run_on_all(ranks, [&] {
    if (transport == "nccl") {
      require(comm::nccl_status().starts_with("built in"), "--transport nccl: NCCL is {}", comm::nccl_status());
      connect_gpus(ranks, {.rank = session.local_rank(), .size = session.local_size()});
    }
    options.sizes.compare_mpi = transport == "mpi";
    measure(ranks, options, show);
  });
}

void run(Options options) {
  if (!options.show.empty()) return show_schedule(options);
  options.sizes.collective = collective_named(options.collective);
  options.sizes.type = type_named(options.dtype);
  Json rows = Json::array();
  std::int64_t wrong = 0;
  const auto show = [&](const bench::CollectiveRow& row) {
    fmt::print("{}", bench::collective_line(row));
    std::fflush(stdout);
    rows.push_back(bench::to_json(row));
    wrong += row.wrong;
  };
  comm::MpiSession session;
  if (options.transport == "auto") options.transport = session.size() == 1 ? "threads" : "mpi";
  if (options.transport == "threads") {
    measure_on_threads(options, show);
  } else {
    measure_on_processes(session, options, show);
  }
  if (!options.json.empty() && session.rank() == 0) {
    io::write_file_atomically(options.json,
                              Json({{"command", "collectives"}, {"transport", options.transport}, {"rows", rows}}).dump(1) + "\n");
  }
  require(wrong == 0, "{} elements were wrong", wrong);
}

}  // namespace

void add_bench_collectives_command(CLI::App& bench) {
  CLI::App* command =
      bench.add_subcommand("collectives", "Collectives between ranks: every algorithm at every size, or a schedule as text");
  const auto options = std::make_shared<Options>();
  command->add_option("--show", options->show, "print the checked schedule of this algorithm instead")->type_name("ALGORITHM");
  command->add_option("--ranks", options->ranks, "ranks of --show and of --transport threads")
      ->check(between(1, 1024))
      ->capture_default_str();
  command->add_option("--count", options->count, "elements of --show; 0: one a rank")->check(CLI::NonNegativeNumber);
  command->add_option("--collective", options->collective, "which")->capture_default_str();
  command->add_option("--dtype", options->dtype, "type of elements: bf16, f16, f32, f64")->capture_default_str();
  command->add_option("--transport", options->transport, "threads, mpi, nccl (GPUs); auto: mpi under a launcher")
      ->check(CLI::IsMember({"auto", "threads", "mpi", "nccl"}))
      ->capture_default_str();
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
  const auto size = [&](const char* name, std::int64_t& bytes, const char* meaning) {
    command->add_option(name, bytes, meaning)
        ->transform(CLI::AsSizeValue(false))
        ->check(between<std::int64_t>(1, kMostBytes))
        ->type_name("SIZE")
        ->capture_default_str();
  };
  size("--min-bytes", options->sizes.least_bytes, "smallest size; 64K is 65536, 8M 8388608");
  size("--max-bytes", options->sizes.most_bytes, "largest size");
  command->add_option("--factor", options->sizes.factor, "from one size to the next")->check(between(2, 1024))->capture_default_str();
  command->add_option("--seconds", options->sizes.seconds, "the most to spend on a size and algorithm")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--json", options->json, "also write everything to this file")->type_name("FILE")->check(writable_file());
  command->add_option("--save-costs", options->save_costs, "write the measured times, for comm.costs of configs")
      ->type_name("FILE")
      ->check(writable_file());
  command->callback([=] { run(*options); });
}

}  // namespace oxrse::tools
