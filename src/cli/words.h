// The words of the command line for operations, layouts, outputs, arithmetics, backends, devices and recipes, and their
// meaning.
#pragma once

#include <tilewright/plan.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tilewright::cli {

std::vector<std::string> grouping_words();
std::vector<std::string> layout_words();
std::vector<std::string> output_words();
std::vector<std::string> arithmetic_words();
std::vector<std::string> backend_words();
std::vector<std::string> device_words();

/// Accepts the names of known devices and what may be the path of a device file.
CLI::Validator known_device();

/// The known device, or the one that the file describes. Throws UsageError about the file.
DeviceDescription device_of(const std::string& name_or_path);

std::optional<Grouping> parse_grouping(const std::string& word);
std::optional<Layout> parse_layout(const std::string& word);
/// `hopper`, the name of `bit_exact` before 2026-11-22, is still accepted.
std::string arithmetic_word(const std::string& word);
std::optional<Arithmetic> parse_arithmetic(const std::string& word);
std::optional<Backend> parse_backend(const std::string& word);

/// "1d2d", "1d1d", "tensor" and "row" are short for pairs; other words stay.
std::string full_recipe(const std::string& word);

/// An accepted pair, as `parse_recipe` reads it.
bool is_known_recipe(const std::string& text);

}  // namespace tilewright::cli
