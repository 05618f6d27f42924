#pragma once

#include <functional>
#include <string>

#include "engine/core/json.h"

namespace oxrse::train {

/// `oxrse train`: reads the config with `read` on all ranks, plans, trains from the start or from where the run stands, evaluates, prints
/// samples, records metrics and saves. `resume` is "auto", "never" or the path of a checkpoint. Returns when all steps are done, or after a
/// signal when the state is saved; an Error says what stopped the run.
void train(const std::function<JsonDocument()>& read, const std::string& resume);

}  // namespace oxrse::train
