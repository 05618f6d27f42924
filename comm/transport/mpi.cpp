#include "comm/transport/mpi.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>

#include "comm/report.h"
#include "engine/core/build_info.h"
#include "engine/core/error.h"

#ifdef OXRSE_HAVE_MPI
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <bit>
#include <deque>
#include <list>
#include <random>
#include <vector>
#endif

namespace oxrse::comm {
namespace {

/// The number in an environment variable, 0 without one.
long number_in(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? 0 : std::atol(value);
}

std::string what_to_start(const std::string& with_mpi) {
  return mpi_status().starts_with("built in") ? with_mpi : "this build has no MPI (" + mpi_status() + ")";
}

/// Why this task is not one of all those that a launcher started, or "". Tasks that each take themselves for rank 0 of 1, or for ranks of
/// several runs, would write to the same files.
std::string disconnection(int size) {
  if (size > 1) {
    // mpirun may start its own helpers by srun, one a machine.
    const long tasks = std::getenv("SLURM_STEP_ID") == nullptr ? 0 : number_in("SLURM_STEP_NUM_TASKS");
    const bool by_mpirun = std::getenv("MPI_LOCALNRANKS") != nullptr;
    if (tasks <= size && (by_mpirun || tasks == 0 || tasks == size)) return "";
    return fmt::format("srun started {} tasks, but this one is of {} ranks: start oxrse with srun --mpi=pmi2 alone, or with mpirun alone",
                       tasks, size);
  }
  if (const long tasks = number_in("SLURM_NTASKS"); tasks > 1) {
    return fmt::format("Slurm started {} tasks, but this one knows of no other: {}", tasks,
                       what_to_start("start it with srun --mpi=pmi2 oxrse ... (or as one task with --ntasks=1)"));
  }
  for (const char* variable : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}) {
    if (const long tasks = number_in(variable); tasks > 1) {
      return fmt::format("{}={}, but this process knows of no other rank: {}", variable, tasks,
                         what_to_start("start it with the launcher of the MPI that `oxrse doctor` shows"));
    }
  }
  return "";
}

}  // namespace

long task_number() { return std::max({number_in("SLURM_PROCID"), number_in("PMI_RANK"), number_in("OMPI_COMM_WORLD_RANK")}); }

std::string mpi_status() { return std::string(build_info().mpi); }

/// All tasks have the same reason to stop, and the first says it. The others wait for that, because launchers end all when one ends.
void MpiSession::require_connected() {
  const std::string problem = disconnection(size_);
  if (problem.empty()) return;
  guard_.reset();  // what the launcher ends now is no death to report
  if (task_number() == 0) throw Error(problem);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  throw ReportedError(problem);
}

#ifndef OXRSE_HAVE_MPI

MpiSession::MpiSession() { require_connected(); }
MpiSession::~MpiSession() = default;
std::unique_ptr<Transport> MpiSession::transport() { fail("this build has no MPI: {}", mpi_status()); }
double MpiSession::time_all_reduce(const float* /*input*/, float* /*output*/, std::int64_t /*count*/) {
  fail("this build has no MPI: {}", mpi_status());
}

#else

namespace {

/// Set by mpirun of MPICH and of Open MPI, and by srun --mpi=pmi2 and pmix.
bool has_launcher() {
  for (const char* variable : {"PMI_RANK", "PMI_FD", "PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"}) {
    if (std::getenv(variable) != nullptr) return true;
  }
  return false;
}

/// The number that the launcher gave this process, before MPI says the same.
int rank_of_launcher() {
  for (const char* variable : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"}) {
    if (std::getenv(variable) != nullptr) return static_cast<int>(number_in(variable));
  }
  return 0;
}

/// For the ranks of a machine: how many of them may run on one processor, at most.
int sharing_processors(MPI_Comm local) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<int> uses(CPU_SETSIZE);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) uses[static_cast<std::size_t>(cpu)] = CPU_ISSET(cpu, &allowed) ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, uses.data(), CPU_SETSIZE, MPI_INT, MPI_SUM, local);
  int most = 1;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) most = std::max(most, uses[static_cast<std::size_t>(cpu)]);
  }
  return most;
}

/// "host n1, process 4711": where this process runs.
std::string describe_process() {
  std::array<char, 64> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("host {}, process {}", host.data(), getpid());
}

std::string describe_rank(int rank) { return fmt::format("rank {} ({})", rank, describe_process()); }

class MpiTransport : public Transport {
 public:
  MpiTransport() {
    MPI_Comm_dup(MPI_COMM_WORLD, &data_);
    MPI_Comm_dup(MPI_COMM_WORLD, &notices_);
    MPI_Comm_rank(data_, &rank_);
    MPI_Comm_size(data_, &size_);
    void* bound = nullptr;
    int found = 0;
    MPI_Comm_get_attr(data_, MPI_TAG_UB, static_cast<void*>(&bound), &found);
    const std::uint64_t largest = found != 0 ? static_cast<std::uint64_t>(*static_cast<int*>(bound)) : 32767;
    plan_bits_ = static_cast<int>(std::bit_width(largest)) - 1 - kSequenceBits;
    gather_places();
  }
  ~MpiTransport() override {
    if (std::uncaught_exceptions() > 0) return;
    MPI_Comm_free(&notices_);
    MPI_Comm_free(&data_);
  }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string place_of(int rank) const override { return places_[static_cast<std::size_t>(rank)]; }

  // Pieces are far below 2^31 bytes, see HostExecution.
  Transfer send(int peer, const Tag& tag, const std::byte* data, std::int64_t bytes) override {
    const std::uint64_t id = free_request();
    requests_[id].receives = false;
    MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, number_of(tag), data_, &requests_[id].handle);
    return {id};
  }
  Transfer receive(int peer, const Tag& tag, std::byte* data, std::int64_t bytes) override {
    const std::uint64_t id = free_request();
    requests_[id].receives = true;
    MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, number_of(tag), data_, &requests_[id].handle);
    return {id};
  }
  bool done(Transfer transfer) override {
    int flag = 0;
    MPI_Test(&requests_[transfer.id].handle, &flag, MPI_STATUS_IGNORE);
    if (flag != 0) free_.push_back(transfer.id);
    return flag != 0;
  }
  void cancel(Transfer transfer) noexcept override {
    // MPI cannot take back what is sent. A rank that stops, too, never asks for it, so the wait is short.
    constexpr auto kMoment = std::chrono::milliseconds(50);
    Request& request = requests_[transfer.id];
    if (request.receives) MPI_Cancel(&request.handle);
    const auto begin = std::chrono::steady_clock::now();
    int flag = 0;
    while (MPI_Test(&request.handle, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag == 0) {
      if (std::chrono::steady_clock::now() - begin > kMoment) return;
      sched_yield();
    }
  }

  void notify(int peer, const Notice& notice) override {
    std::erase_if(sent_notices_, [](SentNotice& sent) {
      int flag = 0;
      MPI_Test(&sent.request, &flag, MPI_STATUS_IGNORE);
      return flag != 0;
    });
    SentNotice& sent = sent_notices_.emplace_back(SentNotice{.request = MPI_REQUEST_NULL, .notice = notice});
    MPI_Isend(&sent.notice, sizeof(Notice), MPI_BYTE, peer, 0, notices_, &sent.request);
  }
  std::optional<Notice> next_notice() override {
    int flag = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, 0, notices_, &flag, &status);
    if (flag == 0) return std::nullopt;
    Notice notice;
    MPI_Recv(&notice, sizeof(Notice), MPI_BYTE, status.MPI_SOURCE, 0, notices_, MPI_STATUS_IGNORE);
    return notice;
  }

 private:
  struct Request {
    MPI_Request handle = MPI_REQUEST_NULL;
    bool receives = false;
  };
  struct SentNotice {
    MPI_Request request;
    Notice notice;
  };
  // MPI tags are short (28 bits in MPICH 4.0, 15 are guaranteed): operations that are in flight together must differ, so their number comes
  // first; of the plan's hash there is as much as fits.
  static constexpr int kSequenceBits = 10;

  [[nodiscard]] int number_of(const Tag& tag) const {
    const std::uint64_t sequence = tag.sequence & ((1U << kSequenceBits) - 1);
    const std::uint64_t plan = tag.plan >> (64 - plan_bits_);
    return static_cast<int>(sequence << plan_bits_ | plan);
  }

  std::uint64_t free_request() {
    if (free_.empty()) {
      requests_.emplace_back();
      return requests_.size() - 1;
    }
    const std::uint64_t id = free_.back();
    free_.pop_back();
    return id;
  }

  void gather_places() {
    std::array<char, 128> mine{};
    describe_process().copy(mine.data(), mine.size() - 1);
    std::vector<char> all(mine.size() * static_cast<std::size_t>(size_));
    MPI_Allgather(mine.data(), static_cast<int>(mine.size()), MPI_CHAR, all.data(), static_cast<int>(mine.size()), MPI_CHAR, data_);
    for (int r = 0; r < size_; ++r) places_.emplace_back(all.data() + static_cast<std::size_t>(r) * mine.size());
  }

  MPI_Comm data_ = MPI_COMM_NULL, notices_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, plan_bits_ = 0;
  std::vector<std::string> places_;
  std::deque<Request> requests_;  // a deque: MPI may keep addresses of requests
  std::vector<std::uint64_t> free_;
  std::list<SentNotice> sent_notices_;
};

}  // namespace

MpiSession::MpiSession() {
  if (has_launcher()) {
    guard_.emplace(describe_rank(rank_of_launcher()));
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    require(provided >= MPI_THREAD_SERIALIZED,
            "this MPI lets only one thread of a process call it: choose one that has MPI_THREAD_SERIALIZED");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    find_machines();
  }
  require_connected();
  if (size_ > 1) {
    join_guards();
  } else {
    guard_.reset();
  }
}

/// Which ranks share machines and processors.
void MpiSession::find_machines() {
  MPI_Comm local = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local);
  MPI_Comm_rank(local, &local_rank_);
  MPI_Comm_size(local, &local_size_);
  first_of_machine_ = rank_;
  MPI_Bcast(&first_of_machine_, 1, MPI_INT, 0, local);
  ranks_sharing_processors_ = sharing_processors(local);
  MPI_Comm_free(&local);
  // The machines are equal and their ranks stand side by side exactly when this holds for every rank.
  int agrees = rank_ % local_size_ == local_rank_ ? local_size_ : -1;
  int least = 0, most = 0;
  MPI_Allreduce(&agrees, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&agrees, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  ranks_per_node_ = least == most && least > 0 ? least : 1;
}

/// The guards of all ranks as one tree. Where they do not reach each other, the run goes on without them.
void MpiSession::join_guards() {
  GuardPlace place{.rank = rank_, .size = size_, .token = std::random_device()(), .parent = {}};
  MPI_Bcast(&place.token, sizeof place.token, MPI_BYTE, 0, MPI_COMM_WORLD);
  const GuardAddress mine = guard_->listen(local_size_ == size_);
  std::vector<GuardAddress> all(static_cast<std::size_t>(size_));
  MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
  if (rank_ > 0) place.parent = all[static_cast<std::size_t>((rank_ - 1) / 2)];
  const std::string problem = guard_->join(place);
  MPI_Barrier(MPI_COMM_WORLD);  // nobody ends before all have joined
  if (problem.empty()) return;
  fmt::print(stderr, "warning: {} is not connected with that of rank {} ({}): only the launcher sees when one of them dies\n",
             "the guard of " + describe_rank(rank_), (rank_ - 1) / 2, problem);
}

MpiSession::~MpiSession() {
  int started = 0;
  MPI_Initialized(&started);
  if (started != 0 && std::uncaught_exceptions() == 0) MPI_Finalize();
}

std::unique_ptr<Transport> MpiSession::transport() { return std::make_unique<MpiTransport>(); }

double MpiSession::time_all_reduce(const float* input, float* output, std::int64_t count) {
  const auto start = std::chrono::steady_clock::now();
  MPI_Allreduce(input, output, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

#endif

}  // namespace oxrse::comm
