#pragma once

#include <cmath>

#include "engine/core/dtype.h"

namespace oxrse::test {

/// A number that is rounded to T after every operation: the naive computation in T that a kernel's error is measured against.
template <class T>
class Rounded {
 public:
  Rounded() = default;
  Rounded(double value) : value_(round(static_cast<float>(value))) {}  // NOLINT(google-explicit-constructor): reads like a number
  explicit operator double() const { return value_; }

  friend Rounded operator+(Rounded a, Rounded b) { return {a.value_ + b.value_}; }
  friend Rounded operator-(Rounded a, Rounded b) { return {a.value_ - b.value_}; }
  friend Rounded operator*(Rounded a, Rounded b) { return {a.value_ * b.value_}; }
  friend Rounded operator/(Rounded a, Rounded b) { return {a.value_ / b.value_}; }
  friend Rounded operator-(Rounded a) { return {-a.value_}; }
  Rounded& operator+=(Rounded b) { return *this = *this + b; }
  friend bool operator<(Rounded a, Rounded b) { return a.value_ < b.value_; }
  friend Rounded exp(Rounded a) { return {std::exp(a.value_)}; }
  friend Rounded log(Rounded a) { return {std::log(a.value_)}; }
  friend Rounded tanh(Rounded a) { return {std::tanh(a.value_)}; }
  friend Rounded sqrt(Rounded a) { return {std::sqrt(a.value_)}; }

 private:
  static double round(float value) { return static_cast<double>(static_cast<float>(T(value))); }
  double value_ = 0;
};

}  // namespace oxrse::test
