#include "comm/failure/activity.h"

#include <fmt/format.h>

namespace oxrse::comm {

void Activity::begin(std::uint64_t sequence, const std::string& what) {
  auto& text = texts_[(begun_ + 1) % kTexts];
  text.fill(0);
  what.copy(text.data(), text.size() - 1);
  sequence_ = sequence;
  ++begun_;
}

std::string Activity::describe() const {
  const std::string when = step_ < 0 ? "before the first step" : fmt::format("at step {}", step_.load());
  if (begun_ == 0) return when + ", before the first operation";
  return fmt::format("{}, {} operation {}, {}", when, ended_ < begun_ ? "in" : "after", sequence_.load(), texts_[begun_ % kTexts].data());
}

}  // namespace oxrse::comm
