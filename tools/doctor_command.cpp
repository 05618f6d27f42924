#include "engine/core/error.h"
#include "tools/commands.h"
#include "tools/doctor/report.h"

namespace oxrse::tools {
namespace {

void run_doctor() {
  DoctorReport report;
  examine_build(report);
  examine_machine(report);
  examine_libraries(report);
  examine_launch(report);
  require(report.problems() == 0, "{} problem{} found: see the lines with PROBLEM", report.problems(), report.problems() == 1 ? "" : "s");
  fmt::print("\nEverything needed is here.\n");
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  app.add_subcommand("doctor", "What this machine and this build can do, what was left out and why")->callback(run_doctor);
}

}  // namespace oxrse::tools
