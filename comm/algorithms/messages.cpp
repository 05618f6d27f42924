#include "comm/algorithms/algorithms.h"
#include "engine/core/error.h"

namespace oxrse::comm {

Program messages(std::span<const Message> messages, int rank, int n) {
  ProgramBuilder builder;
  int part = 0;
  for (const Message& m : messages) {
    const bool ranks = m.from >= 0 && m.from < n && m.to >= 0 && m.to < n && m.from != m.to;
    require(ranks && m.bytes >= 0, "a message of {} bytes from rank {} to rank {} of {}", m.bytes, m.from, m.to, n);
    if (m.from != rank && m.to != rank) continue;
    const Range memory{Buffer::Input, part++, 0, (m.bytes + 3) / 4};
    m.from == rank ? builder.send(m.to, memory) : builder.receive(m.from, memory);
  }
  return builder.finish();
}

}  // namespace oxrse::comm
