#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/context.h"
#include "engine/ops/run.h"
#include "tests/ops/device.h"
#include "tests/ops/guarded.h"

namespace oxrse::test {

/// Numbers without a type: what a case puts into an op and gets out of it.
struct Array {
  Sizes sizes;
  Values values;
};
using Arrays = std::map<std::string, Array, std::less<>>;

/// Standard normal numbers, the same ones in every run, times `scale` plus `shift`.
Array normal(Sizes sizes, std::uint64_t seed, double scale = 1, double shift = 0);
/// Whole numbers in [0, below), uniform.
Array integers(Sizes sizes, std::uint64_t seed, std::int64_t below);
/// Integers given one by one.
Array numbers(Sizes sizes, Values values);

/// How to run a case.
struct Setting {
  DType type = DType::F64;  // compute type
  int threads = 1;
  std::int64_t gap = 0;                              // free elements after every row of the tensors that may be strided
  bool aligned = false;                              // whether tensors start at multiples of 64 bytes
  Write write = Write::Assign;                       // for the results that can be added to
  std::map<std::string, std::string> in_place = {};  // result -> the input (or earlier result) whose memory it is
};

/// One execution of a case: makes its tensors, runs its ops and collects the results.
class Run {
 public:
  Run(const Arrays& inputs, Setting setting);

  [[nodiscard]] DType type() const { return setting_.type; }
  [[nodiscard]] DType accumulator() const { return accumulator_of(setting_.type); }
  [[nodiscard]] Write write() const { return setting_.write; }

  /// The case's input in the compute type, or in `as`. Absent when the case has no such input.
  Tensor in(const std::string& name) { return input(name, type(), 0); }
  Tensor in(const std::string& name, DType as) { return input(name, as, 0); }
  /// The same as a view with gaps after its rows when the setting asks for gaps.
  Tensor rows_in(const std::string& name) { return input(name, type(), setting_.gap); }
  /// A result in the compute type, or in `as`; every element must be written.
  Tensor out(const std::string& name, const Sizes& sizes) { return output(name, type(), sizes, 0, false); }
  Tensor out(const std::string& name, DType as, const Sizes& sizes) { return output(name, as, sizes, 0, false); }
  Tensor rows_out(const std::string& name, const Sizes& sizes) { return output(name, type(), sizes, setting_.gap, false); }
  /// A result written with `write()`: starts with known numbers when it is added to.
  Tensor sum_out(const std::string& name, DType as, const Sizes& sizes) { return output(name, as, sizes, 0, true); }
  Tensor sum_rows_out(const std::string& name, const Sizes& sizes) { return output(name, type(), sizes, setting_.gap, true); }
  /// A result that starts as a copy of an input, for ops that work in place.
  Tensor rows_copy(const std::string& name, const std::string& input);
  /// A tensor made by name before, as input of a later op.
  [[nodiscard]] Tensor made(const std::string& name) const;

  /// Runs the op through the dispatcher.
  template <class Op>
  void run(const Op& op) {
    ops::run(context_, op);
  }

  /// Results by name, after checking that every tensor is intact and every result written (an Error names the tensor).
  Arrays results() const;  // NOLINT(modernize-use-nodiscard): also called for its checks
  [[nodiscard]] std::map<std::string, std::vector<std::byte>> bits() const;
  /// What a result that was added to started with.
  [[nodiscard]] static Values before(std::size_t count);

 private:
  Tensor input(const std::string& name, DType as, std::int64_t gap);
  Tensor output(const std::string& name, DType as, const Sizes& sizes, std::int64_t gap, bool sum);

  const Arrays& inputs_;
  Setting setting_;
  Context context_;
  std::map<std::string, Guarded> tensors_;
  std::map<std::string, std::string> results_;  // result -> tensor that holds it
};

/// One test of an op, which may also be a line of a benchmark. Names tie things together: "dx" is the gradient of input "x", and the
/// input "dy" is the gradient of result "y".
struct OpCase {
  std::string name;
  Arrays inputs;
  std::function<void(Run&)> forward;
  std::function<void(Run&)> backward = {};
};

}  // namespace oxrse::test
