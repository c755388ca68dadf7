// The command-line arguments of `tilewright bench` and `tilewright tune`.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/result.h"

namespace tilewright::cli {

struct BenchArguments {
    std::string suite;
    std::vector<std::string> operations;
    std::vector<std::int64_t> m;
    std::int64_t n = 0;
    std::int64_t k = 0;
    std::int64_t groups = 4;
    std::int64_t max_m = 0;
    std::int64_t hot = 0;  // 0: sizes vary
    std::vector<std::string> recipes{"1x128:128x128"};
    std::string layout = "nt";
    std::string output = "bf16";
    std::string arithmetic = "fast";
    std::string backend = "automatic";
    std::string json_path;
    bench::Settings settings{};  // settings that need no parsing
    // GPU only
    std::string flush = "clean";
    std::string scale_layout = "m";
    std::string tile;
    std::optional<double> seconds{};
    bool model_alone = false;  // without tuned rows
    bool unpromoted = false;
    bool invariant = false;
};

void add_shape_options(CLI::App& command, BenchArguments& arguments);
void add_group_options(CLI::App& command, BenchArguments& arguments);
/// Layout, and how FP4 weights are.
void add_operand_options(CLI::App& command, BenchArguments& arguments);
void add_timing_options(CLI::App& command, BenchArguments& arguments);
void add_gpu_options(CLI::App& command, BenchArguments& arguments);

/// The settings to time for each recipe. Throws UsageError for a --tile that is not a tile.
std::vector<bench::Settings> all_settings(const BenchArguments& arguments, Backend backend);

/// The groupings of --op; dense without it.
std::vector<Grouping> chosen_groupings(const BenchArguments& arguments);

/// Throws UsageError where the options leave the shapes open; `command` is for its message.
std::vector<bench::BenchShape> chosen_shapes(const BenchArguments& arguments, const std::string& command);

}  // namespace tilewright::cli
