#include "engine/train/ranks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "comm/links.h"
#include "comm/measure.h"
#include "comm/report.h"
#include "engine/core/build_info.h"
#include "engine/train/machine.h"

namespace oxrse::train {
namespace {

/// What all ranks must have in common: what they are to do, the build, and settings of libraries that choose kernels.
Json common_ground(const Json& job) {
  Json environment = Json::object();
  for (const char* name : {"OPENBLAS_CORETYPE", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "DNNL_DEFAULT_FPMATH_MODE",
                           "ONEDNN_DEFAULT_FPMATH_MODE", "HDF5_USE_FILE_LOCKING"}) {
    const char* value = std::getenv(name);
    environment[name] = value == nullptr ? Json() : Json(value);
  }
  return {{"config", job},
          {"environment", environment},
          {"build", {{"commit", build_info().commit}, {"march", build_info().march}, {"onednn", build_info().onednn}}}};
}

comm::Settings default_settings(comm::MpiSession& session) {
  return {.choice = {}, .ranks_per_node = session.ranks_per_node(), .activity = session.activity()};
}

comm::Settings settings_of(const Config& config, comm::MpiSession& session) {
  comm::Settings settings = default_settings(session);
  settings.timeout_s = config.comm.timeout_s;
  settings.choice = choice_of(config.comm);
  return settings;
}

/// What the first rank reads in `file`, or what all measure where there is none.
comm::CostModel costs_of(const std::string& file, comm::Communicator& ranks) {
  if (file.empty()) return comm::measure(ranks);
  const std::string read = ranks.rank() == 0 ? comm::to_json(comm::read_costs(read_json(file))).dump() : "";
  return comm::read_costs(parse_json(ranks.broadcast(read, 0, "comm.costs"), file));
}

}  // namespace

comm::Choice choice_of(const CommConfig& config) {
  comm::Choice choice{.allowed = {}, .keep_tree = config.deterministic};
  for (const comm::Algorithm a : comm::kAlgorithms) {
    if (comm::name_of(a) == config.algorithm) choice.allowed = {a};
  }
  return choice;
}

Ranks::Ranks() {
  if (!first() && std::freopen("/dev/null", "w", stdout) == nullptr) fail("/dev/null cannot be opened");
  if (size() > 1) communicator_.emplace(session_.transport(), default_settings(session_));
}

void Ranks::run(const std::function<void()>& work) {
  if (!communicator_) return work();
  comm::run_on_all(*communicator_, work);
}

void Ranks::agree(const Json& mine, const comm::Settings& settings) {
  if (!communicator_) return;
  communicator_->configure(settings);
  const Json first = Json::parse(communicator_->broadcast(mine.dump(), 0, "config"));
  std::string differences;
  for (const std::string& line : config_differences(first, mine)) differences += "\n  " + line;
  require(differences.empty(), "rank {} was started with other settings than rank 0; make them equal (rank 0 -> rank {}):{}",
          session_.rank(), session_.rank(), differences);
  communicator_->barrier("start");
}

void Ranks::connect(const Json& job) { agree(common_ground(job), default_settings(session_)); }

void Ranks::connect(const Config& config) {
  agree(common_ground(write_config(config)), settings_of(config, session_));
  check_ranks(config, size());
  if (!communicator_) return;
  if (const comm::Link link = comm::find_link(config.run.device)) {
    link(*communicator_, {.rank = session_.local_rank(), .size = session_.local_size()});
  }
  communicator_->set_cost(costs_of(config.comm.costs, *communicator_));
  communicator_->advance_in_background();
}

int threads_of_rank(const comm::MpiSession& session) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return cpu_threads();
  // Slurm does not always bind a task to the processors that it was given.
  const char* given = std::getenv("SLURM_CPUS_PER_TASK");
  if (given != nullptr) return std::clamp(std::atoi(given), 1, cpu_threads());
  return std::max(1, cpu_threads() / session.ranks_sharing_processors());
}

void Ranks::first_alone(const std::function<void()>& work) {
  if (!communicator_) return work();
  if (!first()) communicator_->barrier("waiting for what rank 0 prepares", false);
  work();
  if (first()) communicator_->barrier("rank 0 has prepared", false);
}

std::string Ranks::from_first(const std::string& text) { return communicator_ ? communicator_->broadcast(text, 0, "path") : text; }

bool Ranks::any(bool here) {
  if (!communicator_) return here;
  double votes[] = {here ? 1.0 : 0.0};
  communicator_->all_reduce(votes, "whether to stop");
  return votes[0] > 0;
}

}  // namespace oxrse::train
