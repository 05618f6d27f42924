#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "engine/core/context.h"
#include "engine/core/tensor.h"

namespace oxrse::ops {

/// The kernel of an op for devices; null in programs without them (entered by cuda/devices.cpp).
template <class Op>
inline void (*device_kernel)(Device& device, const Op& op) = nullptr;

/// Runs the op's kernel where the context says.
template <class Op>
void launch_in(Context& context, const Op& op) {
  if (context.device == nullptr) return launch(context.cpu, op);
  require(device_kernel<Op> != nullptr, "{}: has no kernel for devices in this program", Op::name);
  device_kernel<Op>(*context.device, op);
}

/// The only dispatcher. Every op `Op` provides, found by its type:
///   Op::name                     the name in op lists and errors
///   Cost check(const Op&)        throws an Error naming op, argument and shapes; returns flops and bytes
///   std::string shape(const Op&) the sizes that tell this call from others, "N=1024 I=768 O=3072"
///   void launch(Cpu&, const Op&) the kernel, in engine/cpu; and for Cuda& in cuda/kernels
/// Planning stops before the kernel, so a plan executes the very code of a step. A log times the kernel, for which a device has to do one
/// op at a time.
template <class Op>
void run(Context& context, const Op& op) {
  const Cost cost = check(op);
  OpLog::Entry* entry = context.log != nullptr ? &context.log->add(Op::name, shape(op), cost) : nullptr;
  if (context.planning()) return;
  if (entry == nullptr) return launch_in(context, op);
  context.wait();
  const auto start = std::chrono::steady_clock::now();
  launch_in(context, op);
  context.wait();
  entry->seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace oxrse::ops
