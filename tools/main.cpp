#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "comm/report.h"
#include "comm/transport/mpi.h"
#include "cuda/devices.h"
#include "engine/core/build_info.h"
#include "engine/core/error.h"
#include "engine/core/nearest.h"
#include "tools/commands.h"
#include "tools/gpu_link.h"

namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

std::string version_text() {
  const oxrse::BuildInfo& build = oxrse::build_info();
  return fmt::format("oxrse {} ({})", build.version, build.commit);
}

/// "; did you mean ...?" for a command that `at` does not have, or nothing.
std::string suggestion(const CLI::App& at, const std::string& unknown) {
  std::vector<std::string> names;
  for (const CLI::App* command : at.get_subcommands([](const CLI::App* /*each*/) { return true; })) names.push_back(command->get_name());
  const auto best = oxrse::nearest(unknown, names);
  return best ? fmt::format("; did you mean \"{}\"?", *best) : "";
}

/// "inspect, verify, ...": the commands `at` has.
std::string commands_of(const CLI::App& at) {
  std::string list;
  for (const CLI::App* command : at.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); }))
    list += (list.empty() ? "" : ", ") + command->get_name();
  return list;
}

/// What was wrong with the command line, with the nearest command when one was not recognised.
std::string usage_message(const CLI::App* app, const CLI::Error& error) {
  const CLI::App* at = app;
  std::string name = "oxrse";
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  std::string what = error.what();
  const std::vector<std::string> unknown = app->remaining(true);
  const bool needs_command = !at->get_subcommands([](const CLI::App* /*each*/) { return true; }).empty();
  if (needs_command && !unknown.empty()) {
    what = fmt::format("{} has no command {}{}", name, unknown.front(), suggestion(*at, unknown.front()));
  } else if (needs_command && error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError)) {
    what = fmt::format("{} needs a command: {}", name, commands_of(*at));
  }
  return fmt::format("error: {}\nRun {} --help for what is possible.\n", what, name);
}

/// Whether this process is the one of its launcher's that says what all of them would. The others come back a second later: launchers end
/// all processes when one ends.
bool first_of_tasks() {
  if (oxrse::comm::task_number() == 0) return true;
  std::this_thread::sleep_for(std::chrono::seconds(1));
  return false;
}

int run(int argc, char** argv) {
  oxrse::cuda::add_devices();
  oxrse::tools::add_links();
  CLI::App app("Trains transformers. Start with: oxrse train CONFIG.json", "oxrse");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(0, 1);
  app.failure_message(usage_message);
  oxrse::tools::add_data_command(app);
  oxrse::tools::add_checkpoint_command(app);
  oxrse::tools::add_doctor_command(app);
  oxrse::tools::add_train_command(app);
  oxrse::tools::add_plan_command(app);
  oxrse::tools::add_generate_command(app);
  oxrse::tools::add_eval_command(app);
  oxrse::tools::add_bench_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_first = first_of_tasks();
    std::ostream nowhere(nullptr);
    return app.exit(error, is_first ? std::cout : nowhere, is_first ? std::cerr : nowhere) == 0 ? kDone : kUsage;
  }
  if (app.get_subcommands().empty()) {
    fmt::print(stderr, "error: no command given\n{}", app.help());
    return kUsage;
  }
  oxrse::require(std::fflush(stdout) == 0, "the output could not be written to the end");
  return kDone;
}

/// Sets what the user has not set of libraries that read their settings before main(), and starts the program again with it.
///
/// Idle kernel threads sleep soon: gcc's OpenMP lets them spin for 300 000 rounds, some 10 to 40 ms, before they give their processor
/// up; where other work wants it too, steps take ten times as long (measured: 0.3 s against 8 s on two processors with a load of 13).
/// 1000 rounds outlast the gaps inside a step.
///
/// UCX, which MPICH uses, writes its log to stdout, into the midst of what a program reads there.
void set_up_libraries(char** argv) {
  const auto missing = [](const char* name) { return std::getenv(name) == nullptr; };
  bool changed = false;
  if (missing("GOMP_SPINCOUNT") && missing("OMP_WAIT_POLICY")) changed |= setenv("GOMP_SPINCOUNT", "1000", 0) == 0;
  if (missing("UCX_LOG_FILE")) changed |= setenv("UCX_LOG_FILE", "stderr", 0) == 0;
  if (!changed) return;
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error);  // by its name, which `top` then shows
  execv(self.c_str(), argv);  // returns only when it failed: then the run goes on as it is
}

/// Opens what the caller closed of standard input, output and error, lest the next file that is opened gets its number, and its contents.
void keep_standard_streams_open() {
  while (true) {
    const int descriptor = open("/dev/null", O_RDWR);
    if (descriptor > STDERR_FILENO) close(descriptor);
    if (descriptor < 0 || descriptor > STDERR_FILENO) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  keep_standard_streams_open();
  set_up_libraries(argv);
  try {
    return run(argc, argv);
  } catch (const oxrse::comm::ReportedError&) {
    return kFailed;
  } catch (const std::bad_alloc&) {
    std::fputs("error: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fputs(fmt::format("error: {}\n", error.what()).c_str(), stderr);
  }
  return kFailed;
}
