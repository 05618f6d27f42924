#pragma once

#include <array>
#include <vector>

#include "comm/schedule.h"
#include "engine/core/dtype.h"
#include "engine/core/json.h"

namespace oxrse::comm {

/// What moving and adding bytes costs. For n ranks and S bytes, m(s) = seconds a message of s bytes, g = gamma, the programs then take,
/// besides the seconds an operation takes whatever it does,
///
///     ring all-reduce       2(n-1) m(S/n) + S (n-1)/n g
///     halving               m(S/2) + m(S/4) + ... and back + S (n-1)/n g
///     doubling              lg n (m(S) + S g)
///     direct                2 (n-1) m(S/n) + S (n-1)/n g
///     double binary tree    about 2 (lg n + c) m(S/(2c)), c chunks a half
///
/// but nothing is computed by formula: a program is priced step by step. Often m(s) = alpha + beta s is taken; a table also knows the sizes
/// at which an MPI library changes to another protocol.
struct CostModel {
  static constexpr int kSizes = 19;
  /// Bytes of the messages in the table: 4 B to 1 MiB.
  static constexpr std::int64_t size(int k) { return std::int64_t{4} << k; }

  std::array<double, kSizes> message = straight(2e-6, 2e-10);  // seconds a message of size(k) bytes, sent and received at the same time
  double operation = 5e-7;                                     // seconds to begin and to end an operation
  double gamma = 1e-10;                                        // seconds a byte added up
  double copy = 1e-10;                                         // seconds a byte copied

  /// The table of alpha + beta s, in seconds and seconds a byte.
  static constexpr std::array<double, kSizes> straight(double alpha, double beta) {
    std::array<double, kSizes> table{};
    for (int k = 0; k < kSizes; ++k) table[static_cast<std::size_t>(k)] = alpha + beta * static_cast<double>(size(k));
    return table;
  }
  /// Seconds a message of any size: linear between the sizes of the table, and beyond its last at the rate before that.
  [[nodiscard]] double message_seconds(double bytes) const;
  /// Bytes a second of large messages.
  [[nodiscard]] double bandwidth() const;
  /// Seconds that a rank's program takes when nobody makes it wait: every step lasts as long as its messages and then its sums.
  [[nodiscard]] double predict(const Program& program, DType type) const;
  /// The same for the slowest of the ranks; of many ranks, a few are looked at.
  [[nodiscard]] double predict(Algorithm algorithm, const Request& request, DType type) const;
  /// The chunk that pipelined algorithms should send at once.
  [[nodiscard]] std::int64_t best_chunk(const Request& request, DType type) const;
};

/// As `oxrse bench collectives --save-costs` writes it.
Json to_json(const CostModel& model);
/// Reads what that wrote. An Error names the file and the key.
CostModel read_costs(const JsonDocument& document);

/// Who is allowed to do a request.
struct Choice {
  std::vector<Algorithm> allowed;  // empty: all
  bool keep_tree = false;          // only those that add as the request's tree says
};

/// The algorithms that `choice` allows and that can do the request; when none of the allowed can, any that can.
std::vector<Algorithm> candidates(const Request& request, const Choice& choice);

/// The candidate with the least predicted time.
Algorithm choose(const CostModel& model, const Request& request, DType type, const Choice& choice);

}  // namespace oxrse::comm
