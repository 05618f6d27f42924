#include <utility>

#include "comm/algorithms/algorithms.h"

namespace oxrse::comm {
namespace {

/// Whether `b` goes on where `a` ends.
bool continues(const Range& a, const Range& b) { return a.buffer == b.buffer && a.part == b.part && a.offset + a.count == b.offset; }

std::int64_t count_of(const Action& a) { return a.kind == Action::Kind::Send || a.kind == Action::Kind::Copy ? a.from.count : a.to.count; }

/// Makes `b` a part of `a` when they are one transfer.
bool join(Action& a, const Action& b) {
  if (a.kind != b.kind || a.peer != b.peer || a.wide != b.wide) return false;
  for (Range Action::*range : {&Action::to, &Action::from, &Action::with}) {
    if ((a.*range).count > 0 && !continues(a.*range, b.*range)) return false;
  }
  for (Range Action::*range : {&Action::to, &Action::from, &Action::with}) (a.*range).count += (b.*range).count;
  return true;
}

}  // namespace

void ProgramBuilder::add(const Action& action) {
  if (count_of(action) == 0) return;
  const bool is_local = action.kind == Action::Kind::Copy || action.kind == Action::Kind::Reduce;
  std::vector<Action>& list = is_local ? step_.local : step_.transfers;
  if (is_local || !joins_ || list.empty() || !join(list.back(), action)) list.push_back(action);
  joins_ = true;
}

void ProgramBuilder::send(int peer, const Range& from, bool wide) {
  add({.kind = Action::Kind::Send, .peer = peer, .to = {}, .from = from, .with = {}, .wide = wide});
}
void ProgramBuilder::receive(int peer, const Range& to, bool wide) {
  add({.kind = Action::Kind::Receive, .peer = peer, .to = to, .from = {}, .with = {}, .wide = wide});
}
void ProgramBuilder::receive_reduce(int peer, const Range& to, const Range& with, bool wide) {
  add({.kind = Action::Kind::ReceiveReduce, .peer = peer, .to = to, .from = {}, .with = with, .wide = wide});
}
void ProgramBuilder::copy(const Range& to, const Range& from) {
  add({.kind = Action::Kind::Copy, .peer = -1, .to = to, .from = from, .with = {}, .wide = false});
}
void ProgramBuilder::reduce(const Range& to, const Range& with, const Range& from) {
  add({.kind = Action::Kind::Reduce, .peer = -1, .to = to, .from = from, .with = with, .wide = false});
}

void ProgramBuilder::next_step() {
  joins_ = false;
  if (step_.transfers.empty() && step_.local.empty()) return;
  program_.steps.push_back(std::exchange(step_, {}));
}

std::int64_t ProgramBuilder::scratch(std::int64_t count) { return std::exchange(program_.scratch, program_.scratch + count); }

Program ProgramBuilder::finish() {
  next_step();
  return std::move(program_);
}

void copy_input(ProgramBuilder& builder, const Request& request, Extent extent) {
  if (!request.in_place) builder.copy(output(extent), input(extent));
}

}  // namespace oxrse::comm
