#include "engine/core/build_info.h"
#include "tools/commands.h"

namespace oxrse::tools {
void add_doctor_command(CLI::App& app) { app.add_subcommand("doctor", "what this machine and this build can do"); }
}  // namespace oxrse::tools
