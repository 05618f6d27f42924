#pragma once

#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/ops/case.h"
#include "tests/ops/rounded.h"

namespace oxrse::test {

/// Runs forward and backward of the case and returns all results.
Arrays execute(const OpCase& c, const Setting& setting);

/// The inputs rounded to `type` (integers stay): so that runs in different types start from the same numbers.
OpCase rounded_to(DType type, OpCase c);

/// Backward against central differences of sum(dy * y) over all results y with an input dy, in f64: for every input x with a result dx,
/// at up to 60 elements, |dx - difference| <= 1e-6 * max|dx|.
void check_gradients(const OpCase& c);

/// Same bits on 1, 2 and 3 threads, in every compute type.
void check_threads(const OpCase& c);

/// Tensors with gaps between rows give the bits that contiguous ones give.
void check_strides(const OpCase& c, DType type = DType::F32);

/// Tensors that start at multiples of 64 bytes, with rows that do when `gap` makes them, give the bits that others give.
void check_alignment(const OpCase& c);

enum class Passes : std::uint8_t { Forward, Both };

/// With results written into the memory of inputs, all results are those of results written elsewhere.
void check_in_place(OpCase c, const std::map<std::string, std::string>& in_place, Passes passes = Passes::Both);

/// Write::Add gives what was there plus what Write::Assign gives, for the `results` named; the others are the same.
void check_add(const OpCase& c, const std::vector<std::string>& results);

/// f32 against f64: sum (a - b)^2 <= 1e-10 sum b^2 for every result.
void check_f32(const OpCase& c);

/// All of the above that applies to a case with strided rows; gradients where it has a backward.
void check_case(const OpCase& c);

/// Inputs or results of a formula in the arithmetic of type S.
template <class S>
using Named = std::map<std::string, std::vector<S>>;

/// The inputs as numbers of type S.
template <class S>
Named<S> inputs_as(const OpCase& c) {
  Named<S> result;
  for (const auto& [name, array] : c.inputs) result[name] = std::vector<S>(array.values.begin(), array.values.end());
  return result;
}

/// max |result - f64| <= bound * max |naive - f64| + 1e-5 with bound 3 for gradients ("d..."), else 2. See check_ratio.
void check_against_naive(const std::string& label, const Arrays& results, const Named<double>& naive, const Named<double>& exact);

/// The kernels in bf16 and f16 by the ratio rule: their error against `formula` in f64 is at most 2 times (gradients: 3 times) that of
/// the formula computed naively in the type, plus 1e-5. The formula is generic: it takes the inputs as a Named<S> and returns the results
/// it knows as one, for S = double, Rounded<bf16> and Rounded<f16>.
template <class F>
void check_ratio(const OpCase& c, const F& formula) {
  const auto check = [&]<class T>(TypeTag<T>) {
    const OpCase same = rounded_to(dtype_of<T>, c);
    Named<double> naive;
    for (const auto& [name, values] : formula(inputs_as<Rounded<T>>(same))) {
      for (const Rounded<T> v : values) naive[name].push_back(static_cast<double>(v));
    }
    check_against_naive(c.name + " " + std::string(name_of(dtype_of<T>)), execute(same, {.type = dtype_of<T>}), naive,
                        formula(inputs_as<double>(same)));
  };
  check(TypeTag<bf16>{});
  check(TypeTag<f16>{});
}

/// The kernel in f64 against the formula: relative 1e-12 of the largest element.
void check_formula(const OpCase& c, const Named<double>& expected);

/// `f` throws an Error whose message contains every one of `parts`.
void check_error(const std::function<void()>& f, const std::vector<std::string>& parts);

}  // namespace oxrse::test
