// Mistakes on the command line, answered with the words that would have been right.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tilewright::cli {

std::vector<std::string> command_names(const CLI::App& app);

/// One line with the mistake and the alternatives: "tilewright: unknown command 'verfy'; known: verify, ...".
std::string usage_message(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tilewright::cli
