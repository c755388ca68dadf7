// The program `tilewright`: registers its commands and turns their exceptions into one line on stderr and an exit code:
// - 0: done;
// - 1: something failed;
// - 2: called in a way that it does not know.
#include <csignal>
#include <exception>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/usage.h"
#include "output/streams.h"

namespace tilewright::cli {
namespace {

constexpr int done = 0;
constexpr int failed = 1;
constexpr int misused = 2;

/// Whether a word is neither a command nor an option. Its help would be that of another command.
bool has_unknown_word(const CLI::App& program) {
    const std::vector<std::string> words = program.remaining(true);
    return !words.empty() && words.front().rfind('-', 0) != 0;
}

void parse_and_run(CLI::App& program, int argc, const char* const* argv) {
    try {
        program.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() != 0 || has_unknown_word(program)) {
            output::complain("{}\n", usage_message(program, error));
            throw Reported{misused};
        }
        std::ostringstream text;  // the text for --help and --version
        program.exit(error, text, text);
        output::print_text(text.str());
    }
}

/// Where SIGPIPE is not ignored it has already ended the program; both ways look the same to the caller.
int end_as_by_sigpipe() {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
    return failed;  // it is blocked
}

int run_program(int argc, const char* const* argv) {
    CLI::App program("Low-precision matrix multiplication, dense and grouped, for Hopper GPUs and any CPU.");
    program.name("tilewright");
    program.set_version_flag("--version", TILEWRIGHT_VERSION);
    program.footer("Example:\n  tilewright verify --quick\nSee `tilewright <command> --help`.");
    program.require_subcommand(1);
    add_verify(program);
    add_bench(program);
    add_tune(program);
    add_explain(program);
    add_support(program);
    add_doctor(program);
    add_quantize(program);
    add_inspect(program);
    add_convert(program);
    parse_and_run(program, argc, argv);
    output::close_stdout();
    return done;
}

int exit_code(int argc, const char* const* argv) {
    try {
        output::open_closed_streams();
        // A write beyond `ulimit -f` is then an error like that of a full disk.
        std::signal(SIGXFSZ, SIG_IGN);
        return run_program(argc, argv);
    } catch (const UsageError& error) {
        output::complain("tilewright: {}\n", error.what());
        return misused;
    } catch (const Reported& reported) {
        return reported.exit_code;
    } catch (const output::StdoutError& error) {
        if (error.reader_is_gone()) return end_as_by_sigpipe();
        output::complain("tilewright: {}\n", error.what());
    } catch (const std::bad_alloc&) {
        output::complain("tilewright: not enough memory; choose smaller sizes\n");
    } catch (const std::length_error&) {
        output::complain("tilewright: sizes beyond the largest array; choose smaller sizes\n");
    } catch (const std::exception& error) {
        output::complain("tilewright: {}\n", error.what());
    }
    return failed;
}

}  // namespace
}  // namespace tilewright::cli

int main(int argc, char** argv) { return tilewright::cli::exit_code(argc, argv); }
