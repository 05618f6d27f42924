#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "comm/reduce.h"
#include "comm/schedule.h"
#include "comm/transport/transport.h"

namespace oxrse::comm {

/// Memory for scratch and messages that is used again by later operations.
class MemoryPool {
 public:
  struct Piece {
    std::unique_ptr<std::byte[]> data;
    std::int64_t bytes = 0;
  };
  Piece take(std::int64_t bytes);
  void give_back(Piece piece);

 private:
  std::vector<Piece> free_;
};

/// The memory of one operation. Addresses are those of element 0 of the whole vector, also where only a share of it is there.
struct Operands {
  DType type = DType::F32;
  std::vector<std::byte*> inputs;  // one a part
  std::byte* output = nullptr;
};

/// A program being carried out: `advance` does what can be done now and never waits. Large transfers are cut into pieces, so that adding up
/// goes on while the next piece travels and little memory is needed for what arrives.
class Execution {
 public:
  Execution(const Program& program, Operands operands, const Tag& tag, Transport& transport, MemoryPool& pool);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// True when the program has ended.
  bool advance();
  /// Counts whatever happens; stands still while nothing arrives.
  [[nodiscard]] std::int64_t events() const { return events_; }
  /// The ranks whose messages, or whose taking of a message, the running step waits for.
  [[nodiscard]] std::vector<int> waiting_for() const;

  static constexpr std::int64_t kPieceBytes = 256 << 10;

 private:
  static constexpr std::int64_t kWindow = 4;  // pieces of a transfer on their way at once
  /// One transfer of the running step.
  struct Flow {
    const Action* action = nullptr;
    std::byte* memory = nullptr;  // of what is sent, or where it is received
    DType wire = DType::F32;
    bool staged = false;  // received beside its place, then added or converted
    std::int64_t begun = 0, done = 0, pieces = 0;
    std::array<Transfer, kWindow> transfers{};
  };

  [[nodiscard]] DType type_of(const Range& r) const {
    return r.buffer == Buffer::Scratch ? accumulator_of(operands_.type) : operands_.type;
  }
  [[nodiscard]] std::byte* address(const Range& r) const;
  void begin_step();
  bool advance_flow(Flow& flow);
  void begin_piece(Flow& flow);
  void finish_piece(const Flow& flow);
  [[nodiscard]] std::int64_t elements_of(const Flow& flow, std::int64_t piece) const;
  [[nodiscard]] static std::int64_t count_of(const Action& a) { return a.kind == Action::Kind::Send ? a.from.count : a.to.count; }
  void run_local(const Step& step);

  const Program& program_;
  Operands operands_;
  Tag tag_;
  Transport& transport_;
  MemoryPool& pool_;
  MemoryPool::Piece memory_;  // scratch
  MemoryPool::Piece staging_;
  std::size_t step_ = 0;
  std::vector<Flow> flows_;
  std::int64_t events_ = 0;
};

}  // namespace oxrse::comm
