#pragma once

#include <cstdint>

#include "comm/schedule.h"

namespace oxrse::comm {

/// What is known of a schedule that was found to be right.
struct Checked {
  std::uint64_t sum_class = 0;  // equal for schedules that add in the same order, and so give the same bits
  bool keeps_tree = false;      // every element is added up as the request's tree says
  std::int64_t messages = 0;    // of all ranks
  std::int64_t most_sent = 0;   // elements, by the rank that sends most
  std::int64_t scratch = 0;     // elements, of the rank that needs most
};

/// Executes a schedule on symbols. Every element is an expression over (rank, part, element); a send ends when its receive is posted, which
/// is the least a transport may buffer, so what ends here ends on every transport, whatever the interleaving: each pair of ranks has its
/// own queue and every rank waits for all of a step, so the order of events cannot change who waits for whom.
///
/// An Error names rank, step and action of the first thing that is wrong: an element that is missing, there twice or another one's; a step
/// that never ends; two transfers of a step of which one writes what the other reads or writes; a message of another size or type than
/// its receiver expects; elements outside of a buffer or read before they were written; a rounded sum that is added to.
Checked check(const Schedule& schedule);

}  // namespace oxrse::comm
