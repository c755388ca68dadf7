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
void add_classes(CLI::App& program);
void add_explain(CLI::App& program);
void add_support(CLI::App& program);
void add_doctor(CLI::App& program);
void add_quantize(CLI::App& program);
void add_inspect(CLI::App& program);
void add_convert(CLI::App& program);

/// Ends the program with "tilewright: <what>" on stderr: exit code 2 for a mistake in how it was called ...
class UsageError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// ... and 1 for anything else that went wrong (std::exception in general). A command whose own report already says
/// what failed throws `Reported`, which prints nothing more.
struct Reported {
    int exit_code = 1;
};

/// Accepts only `words`, and lists them otherwise: `option->check(one_of("suite", {"deepseek-v3", ...}))`.
CLI::Validator one_of(const std::string& what, std::vector<std::string> words);

/// Accepts only whole numbers from `least` to `most`, digits alone; CLI11 cuts what 64 bits cannot hold to what they
/// can.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// For options that are an int.
inline constexpr std::int64_t most_int = std::numeric_limits<int>::max();

/// Accepts only texts for which `accepts` is true; `known` tells the user what they may write.
CLI::Validator known_by(const std::string& what, const std::function<bool(const std::string&)>& accepts,
                        const std::string& known);

}  // namespace tilewright::cli
