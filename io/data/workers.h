#pragma once

#include <cstddef>
#include <functional>

namespace oxrse::io {

/// Calls `work(i)` for every i below `count`, on as many threads as there are cores. The first exception is thrown again here.
void on_all_cores(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace oxrse::io
