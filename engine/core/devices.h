#pragma once

#include <functional>
#include <string_view>

#include "engine/core/device.h"

namespace oxrse {

/// The devices besides the CPU, by the names `run.device` has for them. The rooms that train know no device: a program enters those it
/// was built with at its start (cuda/devices.h). `open` is called when the device is first asked for, and throws an Error where the machine
/// has none.
void add_device(std::string_view name, std::function<Device&()> open);

/// The device of this name; null for "cpu", and for "auto", which is the CPU. An Error says what this build has, or why the device
/// cannot be used.
Device* find_device(std::string_view name);

}  // namespace oxrse
