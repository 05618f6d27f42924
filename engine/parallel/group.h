#pragma once

#include "comm/communicator.h"

namespace oxrse::parallel {

/// The data-parallel ranks of a training and which of them this is: those of a communicator or, for a plan, as many as there will be.
struct Group {
  comm::Communicator* communicator = nullptr;  // absent with one rank and in plans
  int rank = 0;
  int size = 1;
  bool linked = false;  // the ranks' devices communicate, not their hosts

  Group() = default;
  /// `ranks` may be absent: one rank.
  Group(comm::Communicator* ranks) {  // NOLINT(google-explicit-constructor): a communicator says it all
    if (ranks == nullptr || ranks->size() == 1) return;
    communicator = ranks;
    rank = ranks->rank();
    size = ranks->size();
    linked = ranks->device() != nullptr;
  }
  /// The first of `size` ranks, which has at least as much as any other.
  static Group planned(int size, bool linked) {
    Group group;
    group.size = size;
    group.linked = linked;
    return group;
  }
};

}  // namespace oxrse::parallel
