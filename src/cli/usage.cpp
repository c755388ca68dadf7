// Mistakes on the command line, answered with the words that would have been right.
#include "cli/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "cli/commands.h"
#include "output/file.h"
#include "output/table.h"

namespace tilewright::cli {
namespace {

/// The innermost subcommand that the user named, or the program itself.
const CLI::App& innermost(const CLI::App& app) {
    const auto parsed = app.get_subcommands();
    return parsed.empty() ? app : innermost(*parsed.back());
}

/// "tilewright explain moe"
std::string words_of(const CLI::App& command) {
    const CLI::App* parent = command.get_parent();
    return parent == nullptr ? "tilewright" : words_of(*parent) + " " + command.get_name();
}

std::vector<std::string> option_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) {
        if (!option->get_lnames().empty()) names.push_back("--" + option->get_lnames().front());
    }
    return names;
}

}  // namespace

std::vector<std::string> command_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        names.push_back(command->get_name());
    }
    return names;
}

std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
    const CLI::App& command = innermost(app);
    const bool is_program = &command == &app;
    const std::string name = words_of(command);
    const std::vector<std::string> extras = app.remaining(true);
    if (!extras.empty()) {
        const std::string& word = extras.front();
        if (word.rfind('-', 0) == 0) {
            return fmt::format("{}: unknown option '{}'; known: {}", name, word, output::joined(option_names(command)));
        }
        if (is_program) {
            return fmt::format("{}: unknown command '{}'; known: {}", name, word, output::joined(command_names(app)));
        }
        return fmt::format("{}: unexpected argument '{}'; see `{} --help`", name, word, name);
    }
    if (is_program && error.get_name() == "RequiredError") {
        return fmt::format("{}: expected a command: {}; see `{} --help`", name, output::joined(command_names(app)),
                           name);
    }
    std::string text = error.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    return fmt::format("{}: {}; see `{} --help`", name, text, name);
}

void run_without_subcommand(CLI::App& command, const std::vector<std::string>& needed, std::function<void()> call) {
    command.callback([&command, needed, call = std::move(call)] {
        if (!command.get_subcommands().empty()) return;
        for (const std::string& option : needed) {
            if (command.count(option) == 0) throw CLI::RequiredError(option);
        }
        call();
    });
}

CLI::Validator known_by(const std::string& what, const std::function<bool(const std::string&)>& accepts,
                        const std::string& known) {
    return CLI::Validator(
        [=](std::string& text) {
            return accepts(text) ? std::string() : fmt::format("got '{}'; expected {}", text, known);
        },
        "", what);
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
    return CLI::Validator(
        [=](std::string& text) {
            std::int64_t value = 0;
            const char* end = text.data() + text.size();
            const auto [stopped, error] = std::from_chars(text.data(), end, value);
            if (error == std::errc{} && stopped == end && value >= least && value <= most) return std::string();
            return fmt::format("got '{}'; expected an integer from {} to {}", text, least, most);
        },
        "", "whole number");
}

CLI::Validator seconds() {
    return known_by(
        "seconds",
        [](const std::string& text) {
            double value = 0;
            const char* end = text.data() + text.size();
            const auto [stopped, error] = std::from_chars(text.data(), end, value);
            return error == std::errc{} && stopped == end && value > 0 && std::isfinite(value);
        },
        "a positive number of seconds, e.g. 0.5");
}

void require_file(const std::string& path) {
    if (!path.empty() && path != "-") const output::OutputFile made(path);
}

CLI::Validator one_of(const std::string& what, std::vector<std::string> words) {
    const std::string known = output::joined(words);
    return known_by(
        what,
        [words = std::move(words)](const std::string& text) {
            return std::find(words.begin(), words.end(), text) != words.end();
        },
        known);
}

}  // namespace tilewright::cli
