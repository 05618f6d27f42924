#pragma once

#include <boost/context/stack_context.hpp>
#include <cstddef>
#include <vector>

namespace oxrse::emulation {

/// Stacks of fibers, kept for the next fiber. Below each lies a page that must not be touched, so that an overflow is a crash and not a
/// wrong number.
class Stacks {
 public:
  Stacks() = default;
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  boost::context::stack_context take();
  void give_back(const boost::context::stack_context& stack) { free_.push_back(stack); }

 private:
  std::vector<boost::context::stack_context> free_;
};

/// The allocator that Boost.Context wants, by reference.
struct StackAllocator {
  Stacks* stacks;
  boost::context::stack_context allocate() { return stacks->take(); }
  void deallocate(boost::context::stack_context& stack) { stacks->give_back(stack); }
};

}  // namespace oxrse::emulation
