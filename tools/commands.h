#pragma once

#include <CLI/CLI.hpp>

namespace oxrse::tools {

/// The subcommands of `oxrse`, each in tools/<name>_command.cpp. A command's work is its callback; what goes wrong is thrown as
/// an Error, which main() prints before it exits with 1.
void add_train_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_checkpoint_command(CLI::App& app);
void add_bench_command(CLI::App& app);
/// `collectives`, a subcommand of `bench`.
void add_bench_collectives_command(CLI::App& bench);
void add_doctor_command(CLI::App& app);

}  // namespace oxrse::tools
