// The program `tilewright`: registers its commands, turns what they throw into one line on stderr and an exit code
// (0 done, 1 something failed, 2 called in a way it does not know).
#include <fmt/format.h>

#include <exception>
#include <iostream>

#include "cli/commands.h"
#include "cli/usage.h"
#include "output/file.h"

namespace tilewright::cli {
namespace {

constexpr int failed = 1;
constexpr int misused = 2;

/// What --help and --version ask for.
int print_help(const CLI::App& program, const CLI::ParseError& error) {
    program.exit(error);
    if (std::cout.flush().good()) return 0;
    fmt::print(stderr, "tilewright: stdout: cannot be written\n");
    return failed;
}

int run_program(int argc, const char* const* argv) {
    CLI::App program("Low-precision matrix multiplication, dense and grouped, for Hopper GPUs and any CPU.");
    program.name("tilewright");
    program.set_version_flag("--version", TILEWRIGHT_VERSION);
    program.footer("Example:\n  tilewright verify --quick\n`tilewright <command> --help` says more.");
    program.require_subcommand(1);
    add_verify(program);
    add_bench(program);
    add_tune(program);
    add_classes(program);
    add_explain(program);
    add_doctor(program);
    add_quantize(program);
    add_inspect(program);
    add_convert(program);

    try {
        program.parse(argc, argv);
        output::finish_stdout();
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return print_help(program, error);
        fmt::print(stderr, "{}\n", usage_message(program, error));
        return misused;
    } catch (const UsageError& error) {
        fmt::print(stderr, "tilewright: {}\n", error.what());
        return misused;
    } catch (const Reported& reported) {
        return reported.exit_code;
    } catch (const std::exception& error) {
        fmt::print(stderr, "tilewright: {}\n", error.what());
        return failed;
    }
    return 0;
}

}  // namespace
}  // namespace tilewright::cli

int main(int argc, char** argv) { return tilewright::cli::run_program(argc, argv); }
