// The subcommands of the program: each is registered by one function, which lives in the file of its name.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace tilewright::cli {

void add_verify(CLI::App& program);
void add_bench(CLI::App& program);
void add_tune(CLI::App& program);
void add_explain(CLI::App& program);
void add_support(CLI::App& program);
void add_doctor(CLI::App& program);
void add_quantize(CLI::App& program);
void add_inspect(CLI::App& program);
void add_convert(CLI::App& program);

// The second word of a command: a layer of experts in place of a product. Without it the command needs its own options.
void add_explain_moe(CLI::App& explain);
void add_verify_moe(CLI::App& verify);
void add_bench_moe(CLI::App& bench);

/// Runs `call` unless the command has a second word, and first asks for options that only the command itself needs.
void run_without_subcommand(CLI::App& command, const std::vector<std::string>& needed, std::function<void()> call);

/// Ends the program with "tilewright: <what>" on stderr: exit code 2 for a mistake in how it was called ...
class UsageError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// ... and 1 for any other error (std::exception in general). A command that has already reported its failure throws
/// `Reported`, which prints nothing more.
struct Reported {
    int exit_code = 1;
};

/// Accepts only `words`, and lists them otherwise: `option->check(one_of("suite", {"deepseek-v3", ...}))`.
CLI::Validator one_of(const std::string& what, std::vector<std::string> words);

/// Accepts only whole numbers from `least` to `most`, written only with digits. CLI11 cuts numbers that exceed 64 bits.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// For options that are an int.
inline constexpr std::int64_t most_int = std::numeric_limits<int>::max();

/// Accepts only positive, finite numbers without a unit.
CLI::Validator seconds();

/// Throws std::runtime_error if no file can be written there. Called ahead of work whose result is written to it.
void require_file(const std::string& path);

/// Accepts only texts for which `accepts` is true; `known` lists for the user what is accepted.
CLI::Validator known_by(const std::string& what, const std::function<bool(const std::string&)>& accepts,
                        const std::string& known);

}  // namespace tilewright::cli
