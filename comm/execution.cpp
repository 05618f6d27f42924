#include "comm/execution.h"

#include <algorithm>
#include <utility>

namespace oxrse::comm {

MemoryPool::Piece MemoryPool::take(std::int64_t bytes) {
  if (bytes == 0) return {};
  const auto fits = [&](const Piece& p) { return p.bytes >= bytes; };
  const auto found = std::find_if(free_.begin(), free_.end(), fits);
  if (found == free_.end()) {
    for (const Piece& piece : std::exchange(free_, {})) held_ -= piece.bytes;  // smaller ones would only pile up
    held_ += bytes;
    peak_ = std::max(peak_, held_);
    return {std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes)), bytes};
  }
  Piece piece = std::move(*found);
  free_.erase(found);
  return piece;
}

void MemoryPool::give_back(Piece piece) {
  if (piece.bytes > 0) free_.push_back(std::move(piece));
}

std::byte* Operands::address(const Range& r, std::byte* scratch) const {
  std::byte* base = output;
  if (r.buffer == Buffer::Scratch) base = scratch;
  if (r.buffer == Buffer::Input) base = inputs[static_cast<std::size_t>(r.part)];
  // Through integers: of a share, element 0 of the whole vector need not exist.
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(base) + static_cast<std::uintptr_t>(r.offset * size_of(type_of(r))));
}

std::int64_t memory_on_device(const Program& program, DType type) {
  const Operands operands{.type = type, .inputs = {}, .output = nullptr};
  std::int64_t most = 0;
  for (const Step& step : program.steps) {
    std::int64_t staged = 0;
    for (const Action& a : step.transfers) staged += operands.is_staged(a) ? Operands::aligned(operands.bytes_of(a)) : 0;
    most = std::max(most, staged);
  }
  return operands.scratch_bytes(program) + most;
}

HostExecution::HostExecution(const Program& program, Operands operands, const Tag& tag, Transport& transport, MemoryPool& pool)
    : program_(program),
      operands_(std::move(operands)),
      tag_(tag),
      transport_(transport),
      pool_(pool),
      memory_(pool.take(memory_of(program, operands_.type))) {
  if (!program_.steps.empty()) begin_step();
}

HostExecution::~HostExecution() {
  cancel();
  pool_.give_back(std::move(memory_));
}

/// Receives first: what ranks that stop together send each other then has nowhere to arrive.
void HostExecution::cancel() noexcept {
  for (const bool sends : {false, true}) {
    for (const Flow& flow : flows_) {
      if ((flow.action->kind == Action::Kind::Send) != sends) continue;
      for (std::int64_t piece = flow.done; piece < flow.begun; ++piece) {
        transport_.cancel(flow.transfers[static_cast<std::size_t>(piece % kWindow)]);
      }
    }
  }
}

std::int64_t HostExecution::memory_of(const Program& program, DType type) {
  const Operands operands{.type = type, .inputs = {}, .output = nullptr};
  std::int64_t most = 0;
  for (const Step& step : program.steps) {
    std::int64_t staged = 0;
    for (const Action& a : step.transfers) staged += operands.is_staged(a) ? staged_bytes(a, operands.wire_of(a)) : 0;
    most = std::max(most, staged);
  }
  return operands.scratch_bytes(program) + most;
}

void HostExecution::begin_step() {
  const Step& step = program_.steps[step_];
  flows_.clear();
  std::byte* place = memory_.data.get() + operands_.scratch_bytes(program_);
  for (const Action& a : step.transfers) {
    Flow flow{.action = &a};
    flow.wire = operands_.wire_of(a);
    flow.pieces = (count_of(a) * size_of(flow.wire) + kPieceBytes - 1) / kPieceBytes;
    flow.staged = operands_.is_staged(a);
    flow.memory = flow.staged ? place : address(a.kind == Action::Kind::Send ? a.from : a.to);
    if (flow.staged) place += staged_bytes(a, flow.wire);
    flows_.push_back(flow);
  }
  // Receives first: what is waited for needs no place of its own in the transport.
  for (const bool sends : {false, true}) {
    for (Flow& flow : flows_) {
      if ((flow.action->kind == Action::Kind::Send) != sends) continue;
      while (flow.begun < std::min(flow.pieces, kWindow)) begin_piece(flow);
    }
  }
}

std::int64_t HostExecution::elements_of(const Flow& flow, std::int64_t piece) const {
  const std::int64_t most = kPieceBytes / size_of(flow.wire);
  return std::min(most, count_of(*flow.action) - piece * most);
}

void HostExecution::begin_piece(Flow& flow) {
  const std::int64_t piece = flow.begun, bytes = elements_of(flow, piece) * size_of(flow.wire);
  std::byte* data = flow.memory + (flow.staged ? piece % kWindow : piece) * kPieceBytes;
  Transfer& transfer = flow.transfers[static_cast<std::size_t>(piece % kWindow)];
  const int peer = flow.action->peer;
  transfer =
      flow.action->kind == Action::Kind::Send ? transport_.send(peer, tag_, data, bytes) : transport_.receive(peer, tag_, data, bytes);
  ++flow.begun;
}

void HostExecution::finish_piece(const Flow& flow) {
  if (!flow.staged) return;
  const std::int64_t piece = flow.done, most = kPieceBytes / size_of(flow.wire), count = elements_of(flow, piece);
  const auto at = [&](const Range& r) { return address(r) + piece * most * size_of(type_of(r)); };
  const Action& a = *flow.action;
  const ConstElements arrived{flow.memory + piece % kWindow * kPieceBytes, flow.wire};
  const Elements to{at(a.to), type_of(a.to)};
  if (a.kind == Action::Kind::ReceiveReduce) {
    add(to, {at(a.with), type_of(a.with)}, arrived, count);
  } else {
    copy(to, arrived, count);
  }
}

/// Does what can be done; true when all pieces are.
bool HostExecution::advance_flow(Flow& flow) {
  while (flow.done < flow.begun && transport_.done(flow.transfers[static_cast<std::size_t>(flow.done % kWindow)])) {
    finish_piece(flow);
    ++flow.done;
    ++events_;
    if (flow.begun < flow.pieces) begin_piece(flow);
  }
  return flow.done == flow.pieces;
}

bool HostExecution::advance() {
  while (step_ < program_.steps.size()) {
    bool ended = true;
    for (Flow& flow : flows_) {
      if (flow.done < flow.pieces && !advance_flow(flow)) ended = false;
    }
    if (!ended) return false;
    run_local(program_.steps[step_]);
    if (++step_ < program_.steps.size()) begin_step();
  }
  return true;
}

void HostExecution::run_local(const Step& step) {
  for (const Action& a : step.local) {
    const Elements to{address(a.to), type_of(a.to)};
    const ConstElements from{address(a.from), type_of(a.from)};
    if (a.kind == Action::Kind::Copy) {
      copy(to, from, a.to.count);
    } else {
      add(to, {address(a.with), type_of(a.with)}, from, a.to.count);
    }
  }
}

std::vector<int> HostExecution::waiting_for() const {
  std::vector<int> ranks;
  if (step_ >= program_.steps.size()) return ranks;
  for (const Flow& flow : flows_) {
    if (flow.done < flow.pieces) ranks.push_back(flow.action->peer);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace oxrse::comm
