#pragma once

#include <string_view>

namespace oxrse {

struct Cuda;

/// The devices besides the CPU, by the names `run.device` has for them. The rooms that train know no device: a program enters those it
/// was built with at its start (cuda/devices.h).
void add_device(std::string_view name, Cuda& device);

/// The device of this name; null for "cpu", and for "auto", which is the CPU. An Error says what this build has.
Cuda* find_device(std::string_view name);

}  // namespace oxrse
