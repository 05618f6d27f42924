#include "benchmarks/collectives.h"

#include <algorithm>
#include <chrono>

#include "comm/memory.h"
#include "comm/reduce.h"

namespace oxrse::bench {
namespace {

/// Small whole numbers, whose sums are exact in any order.
float element(int rank, std::int64_t i) { return static_cast<float>((i * 7 + rank * 3) % 5 - 2); }

float expected(const comm::Request& r, int rank, std::int64_t i) {
  const auto share = [&](std::int64_t e) {
    return static_cast<int>(std::upper_bound(r.bounds.begin(), r.bounds.end(), e) - r.bounds.begin()) - 1;
  };
  if (r.collective == comm::Collective::Broadcast) return element(r.root, i);
  if (r.collective == comm::Collective::AllGather) return element(share(i), i);
  if (r.collective == comm::Collective::AllToAll) {
    return element(share(i), r.bounds[static_cast<std::size_t>(rank)] + i - r.bounds[static_cast<std::size_t>(share(i))]);
  }
  float sum = 0;
  for (int p = 0; p < r.ranks(); ++p) sum += element(p, i);
  return sum;
}

/// The buffers of a rank, filled for a request.
class Buffers {
 public:
  Buffers(const comm::Request& request, DType type, comm::Communicator& ranks)
      : request_(request),
        type_(type),
        rank_(ranks.rank()),
        on_device_(ranks.device() != nullptr),
        in_(ranks.device(), bytes()),
        out_(ranks.device(), bytes()),
        work_(static_cast<std::size_t>(request.count)) {
    for (std::int64_t i = 0; i < request.count; ++i) work_[static_cast<std::size_t>(i)] = element(rank_, i);
    comm::copy({in_.host().data(), type}, {reinterpret_cast<const std::byte*>(work_.data()), DType::F32}, request.count);
    in_.upload();
    clear();
  }

  comm::Operands operands() { return {.type = type_, .inputs = {in_.data()}, .output = out_.data(), .on_device = on_device_}; }
  /// Seconds that MPI's all-reduce takes for the same; between hosts.
  double time_mpi() {
    return comm::MpiSession::time_all_reduce(reinterpret_cast<const float*>(in_.host().data()),
                                             reinterpret_cast<float*>(out_.host().data()), request_.count);
  }

  std::int64_t wrong() {
    out_.download();
    comm::copy({reinterpret_cast<std::byte*>(work_.data()), DType::F32}, {out_.host().data(), type_}, request_.count);
    const bool is_share = request_.collective == comm::Collective::ReduceScatter;
    const std::int64_t begin = is_share ? request_.bounds[static_cast<std::size_t>(rank_)] : 0;
    const std::int64_t end = is_share ? begin + request_.share(rank_) : request_.count;
    std::int64_t count = 0;
    for (std::int64_t i = begin; i < end; ++i) count += work_[static_cast<std::size_t>(i)] == expected(request_, rank_, i) ? 0 : 1;
    clear();
    return count;
  }

 private:
  [[nodiscard]] std::int64_t bytes() const { return request_.count * size_of(type_); }
  /// NaN: the next algorithm has to write it all.
  void clear() {
    std::fill(out_.host().begin(), out_.host().end(), std::byte{0xFF});
    out_.upload();
  }

  const comm::Request& request_;
  DType type_;
  int rank_;
  bool on_device_;
  comm::MirroredMemory in_, out_;
  std::vector<float> work_;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

void run_size(comm::Communicator& ranks, const CollectiveOptions& options, std::int64_t count,
              const std::function<void(const CollectiveRow&)>& show) {
  const comm::Request request = comm::request(options.collective, ranks.size(), count);
  Buffers buffers(request, options.type, ranks);
  const CollectiveRow base{.collective = std::string(comm::name_of(options.collective)),
                           .algorithm = "",
                           .bytes = count * size_of(options.type),
                           .count = count,
                           .type = options.type,
                           .ranks = ranks.size()};
  std::vector<CollectiveRow> rows;
  std::vector<std::shared_ptr<const comm::Plan>> plans;
  const comm::Algorithm chosen = ranks.plan(request, options.type)->algorithm;
  for (const comm::Algorithm algorithm : comm::kAlgorithms) {
    if (!comm::supports(algorithm, request)) continue;
    plans.push_back(ranks.plan(request, options.type, algorithm));
    CollectiveRow& row = rows.emplace_back(base);
    row.algorithm = comm::name_of(algorithm);
    row.chosen = algorithm == chosen;
    row.predicted = ranks.cost().predict(algorithm, plans.back()->request, options.type);
    ranks.wait(ranks.start(plans.back(), buffers.operands(), "warm-up"));
    double wrong[] = {static_cast<double>(buffers.wrong())};
    ranks.all_reduce(wrong, "wrong elements");
    row.wrong = static_cast<std::int64_t>(wrong[0]);
  }
  const bool with_mpi = options.compare_mpi && options.collective == comm::Collective::AllReduce && options.type == DType::F32;
  if (with_mpi) rows.emplace_back(base).algorithm = "mpi";

  std::vector<std::vector<double>> seconds(rows.size());
  const double guess = std::max(1e-6, rows.front().predicted);
  const int times = static_cast<int>(std::clamp(options.seconds / guess, 5.0, 200.0));
  for (int i = 0; i < times; ++i) {
    for (std::size_t turn = 0; turn < rows.size(); ++turn) {
      // What comes after another finds other things in the caches, so everyone has every place.
      const std::size_t k = (turn + static_cast<std::size_t>(i)) % rows.size();
      ranks.barrier("benchmark");
      if (k == plans.size()) {
        seconds[k].push_back(buffers.time_mpi());
        continue;
      }
      const auto start = std::chrono::steady_clock::now();
      ranks.wait(ranks.start(plans[k], buffers.operands(), "benchmark"));
      seconds[k].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  for (std::size_t k = 0; k < rows.size(); ++k) {
    rows[k].seconds = median(std::move(seconds[k]));
    if (ranks.rank() == 0) show(rows[k]);
  }
}

}  // namespace

double CollectiveRow::bus_bandwidth() const {
  const double n = ranks;
  double factor = 1;
  if (collective == "all_reduce") factor = 2 * (n - 1) / n;
  if (collective == "reduce_scatter" || collective == "all_gather" || collective == "all_to_all") factor = (n - 1) / n;
  return algorithm_bandwidth() * factor;
}

void run_collectives(comm::Communicator& ranks, const CollectiveOptions& options, const std::function<void(const CollectiveRow&)>& show) {
  for (std::int64_t bytes = options.least_bytes; bytes <= options.most_bytes; bytes *= options.factor) {
    std::int64_t count = std::max<std::int64_t>(1, bytes / size_of(options.type));
    if (options.collective == comm::Collective::AllToAll) count = (count + ranks.size() - 1) / ranks.size() * ranks.size();
    run_size(ranks, options, count, show);
  }
}

std::string collective_heading() {
  return fmt::format("{:>12} {:>12} {:>5} {:>14} {:>13} {:>11} {:>11} {:>8} {:>8} {:>7}\n", "size (B)", "count", "type", "collective",
                     "algorithm", "time (us)", "model (us)", "algbw", "busbw", "#wrong") +
         fmt::format("{:>12} {:>12} {:>5} {:>14} {:>13} {:>11} {:>11} {:>8} {:>8} {:>7}\n", "", "", "", "", "", "", "", "(GB/s)", "(GB/s)",
                     "");
}

std::string collective_line(const CollectiveRow& r) {
  return fmt::format("{:>12} {:>12} {:>5} {:>14} {:>13} {:>11.2f} {:>11} {:>8.3f} {:>8.3f} {:>7}\n", r.bytes, r.count, name_of(r.type),
                     r.collective, r.algorithm + (r.chosen ? "*" : ""), r.seconds * 1e6,
                     r.predicted > 0 ? fmt::format("{:.2f}", r.predicted * 1e6) : "", r.algorithm_bandwidth() * 1e-9,
                     r.bus_bandwidth() * 1e-9, r.algorithm == "mpi" ? "" : fmt::format("{}", r.wrong));
}

Json to_json(const CollectiveRow& r) {
  return {{"collective", r.collective}, {"algorithm", r.algorithm},
          {"ranks", r.ranks},           {"bytes", r.bytes},
          {"count", r.count},           {"type", name_of(r.type)},
          {"time_us", r.seconds * 1e6}, {"predicted_us", r.predicted * 1e6},
          {"chosen", r.chosen},         {"algbw_gbs", r.algorithm_bandwidth() * 1e-9},
          {"wrong", r.wrong},           {"busbw_gbs", r.bus_bandwidth() * 1e-9}};
}

}  // namespace oxrse::bench
