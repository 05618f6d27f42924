#pragma once

#include <algorithm>
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
  /// Bytes that it had at the most, in use or not.
  [[nodiscard]] std::int64_t peak() const { return peak_; }

 private:
  std::vector<Piece> free_;
  std::int64_t held_ = 0, peak_ = 0;
};

/// The memory of one operation. Addresses are those of element 0 of the whole vector, also where only a share of it is there.
struct Operands {
  DType type = DType::F32;
  std::vector<std::byte*> inputs;  // one a part
  std::byte* output = nullptr;
  bool on_device = false;  // memory of a GPU, see Communicator::use_device

  /// Where a range is; scratch begins at `scratch`.
  [[nodiscard]] std::byte* address(const Range& r, std::byte* scratch) const;
  [[nodiscard]] DType type_of(const Range& r) const { return r.buffer == Buffer::Scratch ? accumulator_of(type) : type; }
  /// The type in which the elements of a transfer travel.
  [[nodiscard]] DType wire_of(const Action& a) const {
    if (a.kind == Action::Kind::Send) return type_of(a.from);
    return a.wide ? accumulator_of(type) : type;
  }
  /// Whether what arrives is received beside its place, because it is then added or converted.
  [[nodiscard]] bool is_staged(const Action& a) const {
    return a.kind != Action::Kind::Send && (a.kind == Action::Kind::ReceiveReduce || wire_of(a) != type_of(a.to));
  }
  /// Bytes of scratch, whose elements have the accumulator type, so many that what follows is aligned.
  [[nodiscard]] std::int64_t bytes_of(const Action& a) const {
    return (a.kind == Action::Kind::Send ? a.from.count : a.to.count) * size_of(wire_of(a));
  }
  [[nodiscard]] std::int64_t scratch_bytes(const Program& program) const {
    return aligned(program.scratch * size_of(accumulator_of(type)));
  }
  static std::int64_t aligned(std::int64_t bytes) {
    constexpr std::int64_t kAlignment = 256;
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
};

/// Bytes besides operands that a program takes on a device: scratch, and behind it room for what arrives in a step and is not received
/// where it belongs. Messages travel whole there.
std::int64_t memory_on_device(const Program& program, DType type);

/// A program being carried out: `advance` does what can be done now and never waits. One that is destroyed before its end touches operands
/// no more.
class Execution {
 public:
  Execution() = default;
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  virtual ~Execution() = default;

  /// True when the program has ended.
  virtual bool advance() = 0;
  /// Counts whatever happens; stands still while nothing arrives.
  [[nodiscard]] virtual std::int64_t events() const = 0;
  /// The ranks that it waits for: for their messages or for their taking of a message.
  [[nodiscard]] virtual std::vector<int> waiting_for() const = 0;
};

/// A program on memory of the host. Large transfers are cut into pieces, so that adding up goes on while the next piece travels and little
/// memory is needed for what arrives.
class HostExecution : public Execution {
 public:
  HostExecution(const Program& program, Operands operands, const Tag& tag, Transport& transport, MemoryPool& pool);
  ~HostExecution() override;
  HostExecution(const HostExecution&) = delete;
  HostExecution& operator=(const HostExecution&) = delete;

  bool advance() override;
  [[nodiscard]] std::int64_t events() const override { return events_; }
  [[nodiscard]] std::vector<int> waiting_for() const override;

  /// Bytes besides operands that a program takes: scratch, and behind it room for what arrives in a step and is not received where it
  /// belongs.
  [[nodiscard]] static std::int64_t memory_of(const Program& program, DType type);

  static constexpr std::int64_t kPieceBytes = 256 << 10;

 private:
  static constexpr std::int64_t kWindow = 4;  // pieces of a transfer on their way at once
  /// One transfer of the running step.
  struct Flow {
    const Action* action = nullptr;
    std::byte* memory = nullptr;  // of what is sent, or where it is received
    DType wire = DType::F32;
    bool staged = false;  // Operands::is_staged
    std::int64_t begun = 0, done = 0, pieces = 0;
    std::array<Transfer, kWindow> transfers{};
  };

  [[nodiscard]] DType type_of(const Range& r) const { return operands_.type_of(r); }
  [[nodiscard]] std::byte* address(const Range& r) const { return operands_.address(r, memory_.data.get()); }
  void cancel() noexcept;
  void begin_step();
  bool advance_flow(Flow& flow);
  void begin_piece(Flow& flow);
  void finish_piece(const Flow& flow);
  [[nodiscard]] std::int64_t elements_of(const Flow& flow, std::int64_t piece) const;
  [[nodiscard]] static std::int64_t count_of(const Action& a) { return a.kind == Action::Kind::Send ? a.from.count : a.to.count; }
  /// Of a window of pieces.
  [[nodiscard]] static std::int64_t staged_bytes(const Action& a, DType wire) {
    return Operands::aligned(std::min(kWindow * kPieceBytes, count_of(a) * size_of(wire)));
  }
  void run_local(const Step& step);

  const Program& program_;
  Operands operands_;
  Tag tag_;
  Transport& transport_;
  MemoryPool& pool_;
  MemoryPool::Piece memory_;
  std::size_t step_ = 0;
  std::vector<Flow> flows_;
  std::int64_t events_ = 0;
};

}  // namespace oxrse::comm
