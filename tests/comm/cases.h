#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"

// What tests ask of ranks, whatever connects them and wherever their memory is. All ranks call these functions. (Catch's macros are for
// one thread at a time, so these report by what they return.)
namespace oxrse::comm::testing {

/// Operations and elements.
struct Tally {
  std::int64_t done = 0;   // operations
  std::int64_t wrong = 0;  // elements that are not what they must be, or were written next to them
};

/// Every collective by every algorithm on these types, on sizes that do not divide evenly, in place and not.
Tally all_collectives(Communicator& ranks, const std::vector<DType>& types);

/// Sums that are larger than what travels at once.
Tally large_sums(Communicator& ranks);

/// Sums of 16-bit types of which no partial sum fits the type. For 8 ranks.
Tally wide_sums(Communicator& ranks);

/// Ten sums at once, waited for in the opposite order.
Tally sums_in_flight(Communicator& ranks);

/// An all-gather in whose midst rank 2 fails, or with `halts` rank 0 halts, which then writes over its operands while rank 1 still sends.
/// Counts what is not as rank 0 wrote it. For 3 ranks; none can do anything afterwards.
Tally memory_after_the_end(Communicator& ranks, bool halts);

/// The value that rank r has at i of a sum of random numbers.
float random_value(int rank, std::int64_t i);
/// Sum of such vectors.
std::vector<float> sum_of_random(Communicator& ranks, std::int64_t count, Algorithm algorithm);

/// A sum, or a broadcast from rank 1, of `count` elements "(test)".
void sum_of(Communicator& ranks, std::int64_t count, DType type = DType::F32);
void broadcast_of(Communicator& ranks, std::int64_t count);

/// Rank 1 calls something else than the others do.
struct Disagreement {
  std::function<void(Communicator&)> others, rank_1;
  std::string text, text_of_1;  // that the error has
};
const std::vector<Disagreement>& disagreements();

}  // namespace oxrse::comm::testing
