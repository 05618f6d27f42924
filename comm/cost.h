#pragma once

#include <vector>

#include "comm/schedule.h"
#include "engine/core/dtype.h"

namespace oxrse::comm {

/// What moving and adding bytes costs. For n ranks and S bytes, a = alpha, b = beta, g = gamma, the programs then take
///
///     ring all-reduce       2(n-1) a + 2 S (n-1)/n b + S (n-1)/n g
///     halving               2 lg n a + 2 S (n-1)/n b + S (n-1)/n g
///     doubling              lg n (a + S b + S g)
///     direct                2 (n-1) a + 2 S (n-1)/n b + S (n-1)/n g
///     double binary tree    about 2 (lg n + c) (a + S/(2c) b), c chunks a half
///
/// but nothing is computed by formula: a program is priced step by step.
struct CostModel {
  double alpha = 2e-6;   // seconds a message
  double beta = 2e-10;   // seconds a byte, sent and received at the same time
  double gamma = 1e-10;  // seconds a byte added up
  double copy = 1e-10;   // seconds a byte copied

  /// Seconds that a rank's program takes when nobody makes it wait: every step lasts as long as its messages and then its sums.
  [[nodiscard]] double predict(const Program& program, DType type) const;
  /// The same for the slowest of the ranks; of many ranks, a few are looked at.
  [[nodiscard]] double predict(Algorithm algorithm, const Request& request, DType type) const;
  /// The chunk that pipelined algorithms should send at once.
  [[nodiscard]] std::int64_t best_chunk(const Request& request, DType type) const;
};

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
