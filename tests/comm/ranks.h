#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "comm/transport/threads.h"
#include "engine/core/error.h"

namespace oxrse::comm::testing {

/// Runs `body` on n ranks that are threads of this process. Returns what each rank's Error said, "" without one. (Catch's macros are for
/// one thread at a time: bodies report by other means.)
inline std::vector<std::string> run_ranks(int n, const std::function<void(Communicator&)>& body, const Settings& settings = {}) {
  ThreadGroup group(n);
  std::vector<std::string> errors(static_cast<std::size_t>(n));
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int r = 0; r < n; ++r) ranks.push_back(std::make_unique<Communicator>(group.join(r), settings));
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < n; ++r) {
      threads.emplace_back([&, r] {
        try {
          body(*ranks[static_cast<std::size_t>(r)]);
        } catch (const std::exception& error) {
          errors[static_cast<std::size_t>(r)] = error.what();
          ranks[static_cast<std::size_t>(r)]->abort(error.what());
        }
      });
    }
  }
  return errors;
}

}  // namespace oxrse::comm::testing
