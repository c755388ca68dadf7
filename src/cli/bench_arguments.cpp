#include "cli/bench_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tilewright/plan.h>

#include <algorithm>
#include <set>

#include "bench/peer_shapes.h"
#include "cli/commands.h"
#include "cli/words.h"
#include "output/table.h"

namespace tilewright::cli {
namespace {

constexpr double cpu_seconds = 2;
constexpr double sustained_seconds = 4;

std::vector<std::string> all_suites() {
    std::vector<std::string> names = bench::suite_names();
    for (std::string& name : bench::peer_suites()) names.push_back(std::move(name));
    return names;
}

bench::BenchShape explicit_shape(const BenchArguments& arguments, Grouping grouping, std::int64_t m) {
    bench::BenchShape shape{
        .grouping = grouping, .groups = arguments.groups, .m = m, .n = arguments.n, .k = arguments.k};
    if (grouping == Grouping::dense) shape.groups = 1;
    if (grouping == Grouping::m_grouped_masked) shape.max_m = arguments.max_m > 0 ? arguments.max_m : 2 * m;
    return shape;
}

/// What --hot makes of a shape.
bench::BenchShape hot_shape(const bench::BenchShape& shape, std::int64_t times, const std::string& command) {
    if (shape.grouping == Grouping::dense || shape.grouping == Grouping::batched) {
        throw UsageError(fmt::format("{}: --hot needs groups that share rows or k; {} has none. Choose a grouped --op",
                                     command, name(shape.grouping)));
    }
    bench::BenchShape hot = bench::with_hot_group(shape, times);
    if (shape.grouping == Grouping::m_grouped_masked && hot.sizes.front() > shape.max_m) {
        throw UsageError(fmt::format("{}: --hot {} gives a group {} rows, but --max-m is {}; increase --max-m", command,
                                     times, hot.sizes.front(), shape.max_m));
    }
    return hot;
}

/// The lists of shapes have their own rows; --m selects among them.
std::vector<bench::BenchShape> chosen_peer_shapes(const std::string& suite, const std::vector<Grouping>& groupings,
                                                  const std::vector<std::int64_t>& rows) {
    std::vector<bench::BenchShape> shapes;
    for (const Grouping grouping : groupings) {
        const std::vector<bench::BenchShape> more = bench::peer_shapes(suite, grouping);
        shapes.insert(shapes.end(), more.begin(), more.end());
    }
    if (rows.empty()) return shapes;
    std::erase_if(shapes, [&](const bench::BenchShape& shape) {
        return std::find(rows.begin(), rows.end(), shape.m) == rows.end();
    });
    return shapes;
}

/// "dense 64, 128; m_grouped_masked 20": means, where rows are grouped.
std::string rows_of(const std::string& suite) {
    std::vector<std::string> parts;
    for (const Grouping grouping : {Grouping::dense, Grouping::m_grouped_offsets, Grouping::m_grouped_masked}) {
        std::set<std::int64_t> rows;
        for (const bench::BenchShape& shape : chosen_peer_shapes(suite, {grouping}, {})) rows.insert(shape.m);
        parts.push_back(fmt::format("{} {}", bench::operation_name(grouping), fmt::join(rows, ", ")));
    }
    return output::joined(parts, "; ");
}

std::vector<bench::BenchShape> shapes_of_suite(const BenchArguments& arguments, const std::vector<Grouping>& groupings,
                                               const std::string& command) {
    const std::vector<std::string> lists = bench::peer_suites();
    if (std::ranges::find(lists, arguments.suite) != lists.end()) {
        std::vector<bench::BenchShape> shapes = chosen_peer_shapes(arguments.suite, groupings, arguments.m);
        if (!shapes.empty()) return shapes;
        throw UsageError(
            fmt::format("{}: {} has only these rows: {}", command, arguments.suite, rows_of(arguments.suite)));
    }
    const std::vector<std::int64_t> rows = arguments.m.empty() ? std::vector<std::int64_t>{1, 32, 512} : arguments.m;
    std::vector<bench::BenchShape> shapes = bench::suite_shapes(arguments.suite, groupings, rows, arguments.groups);
    if (shapes.empty())
        throw UsageError(command + ": " + arguments.suite + " has no experts and runs only with --op dense");
    return shapes;
}

measure::Flush parse_flush(const std::string& word) {
    if (word == "none") return measure::Flush::none;
    return word == "dirty" ? measure::Flush::dirty : measure::Flush::clean;
}

/// What --tile names; nothing without it.
std::optional<planner::PlannedTile> named_tile(const std::string& text) {
    if (text.empty()) return std::nullopt;
    const std::optional<planner::PlannedTile> tile = planner::parse_tile(text);
    if (!tile)
        throw UsageError(fmt::format("bench: --tile: got '{}'; expected a tile such as '256x128x128 stages=4'", text));
    return tile;
}

}  // namespace

std::vector<bench::Settings> all_settings(const BenchArguments& arguments, Backend backend) {
    bench::Settings settings = arguments.settings;
    settings.backend = backend;
    settings.output = parse_format(arguments.output).value();
    settings.layout = parse_layout(arguments.layout).value();
    settings.arithmetic = parse_arithmetic(arguments.arithmetic).value();
    settings.accumulation = arguments.unpromoted ? Accumulation::unpromoted : Accumulation::promoted;
    settings.reproducibility = arguments.invariant ? Reproducibility::invariant : Reproducibility::repeatable;
    settings.scales = arguments.scale_layout == "k" ? bench::ScaleLayout::k : bench::ScaleLayout::m;
    settings.tile = named_tile(arguments.tile);
    settings.tuned_rows = !arguments.model_alone;
    settings.seconds = arguments.seconds.value_or(settings.sustained ? sustained_seconds : cpu_seconds);
    settings.flush = parse_flush(arguments.flush);
    std::vector<bench::Settings> list;
    for (const std::string& recipe : arguments.recipes) {
        list.push_back(settings);
        list.back().recipe = parse_recipe(full_recipe(recipe)).value();
    }
    return list;
}

std::vector<Grouping> chosen_groupings(const BenchArguments& arguments) {
    std::vector<Grouping> groupings;
    for (const std::string& word : arguments.operations) groupings.push_back(parse_grouping(word).value());
    if (groupings.empty()) groupings.push_back(Grouping::dense);
    return groupings;
}

std::vector<bench::BenchShape> chosen_shapes(const BenchArguments& arguments, const std::string& command) {
    const bool sized = !arguments.m.empty() && arguments.n > 0 && arguments.k > 0;
    if (arguments.suite.empty() && !sized) {
        throw UsageError(command + ": expected --suite (" + output::joined(all_suites()) + ") or --m, --n and --k");
    }
    if (!arguments.suite.empty() && (arguments.n > 0 || arguments.k > 0)) {
        throw UsageError(command + ": --suite sets n and k; omit --suite, or --n and --k");
    }
    if (!arguments.suite.empty() && arguments.hot > 0) {
        throw UsageError(command + ": --suite sets the sizes of groups; with --hot pass --m, --n and --k");
    }
    const std::vector<Grouping> groupings = chosen_groupings(arguments);
    if (!arguments.suite.empty()) return shapes_of_suite(arguments, groupings, command);
    std::vector<bench::BenchShape> shapes;
    for (Grouping grouping : groupings) {
        for (std::int64_t m : arguments.m) {
            const bench::BenchShape shape = explicit_shape(arguments, grouping, m);
            shapes.push_back(arguments.hot > 0 ? hot_shape(shape, arguments.hot, command) : shape);
        }
    }
    return shapes;
}

void add_shape_options(CLI::App& command, BenchArguments& arguments) {
    command
        .add_option("--suite", arguments.suite,
                    "Layers of a model, or the shapes of a list (with --op): " + output::joined(all_suites()))
        ->check(one_of("suite", all_suites()));
    command
        .add_option(
            "--m", arguments.m,
            "Rows of A, or mean rows per group; a list is allowed (default for suites: 1,32,512; for peers: all)")
        ->check(whole_number(0, most_int))
        ->delimiter(',');
    command.add_option("--n", arguments.n, "Columns of D")->check(whole_number(1, most_int));
    command.add_option("--k", arguments.k, "Contraction size; k-grouped: its mean per group")
        ->check(whole_number(1, most_int));
}

void add_group_options(CLI::App& command, BenchArguments& arguments) {
    command.add_option("--op", arguments.operations, "Operation (default dense): " + output::joined(grouping_words()))
        ->check(one_of("operation", grouping_words()))
        ->delimiter(',');
    command.add_option("--groups", arguments.groups, "Number of groups (all operations except dense)")
        ->check(whole_number(1, most_int))
        ->capture_default_str();
    command.add_option("--max-m", arguments.max_m, "m_grouped_masked: allocated rows per group (default twice --m)")
        ->check(whole_number(0, most_int));
}

void add_operand_options(CLI::App& command, BenchArguments& arguments) {
    command
        .add_option("--layout", arguments.layout,
                    "nt, nn, tn or tt; on a GPU the time includes copying an operand first")
        ->check(one_of("layout", layout_words()))
        ->capture_default_str();
    command
        .add_option("--wide-rows", arguments.settings.wide_rows,
                    "GPU, MXFP4: give one row in N of the weights scales that differ by 2^24 (by 2^124 with bf16 and "
                    "NVFP4 activations); 0: none")
        ->check(whole_number(0, most_int));
    command.add_flag("--unpacked", arguments.settings.unpacked,
                     "GPU, FP4 weights: pack them on each call, or prepare the scales of MXFP4 with fp8 activations");
}

void add_timing_options(CLI::App& command, BenchArguments& arguments) {
    const auto known = [](const std::string& text) { return is_known_recipe(full_recipe(text)); };
    command
        .add_option("--recipe", arguments.recipes,
                    "Recipes, e.g. row:row, mxfp8:mxfp4; 1d2d, 1d1d, tensor and row abbreviate common recipes")
        ->check(known_by("recipe", known, recipe_words()))
        ->delimiter(',')
        ->capture_default_str();
    command.add_option("--output", arguments.output, "bf16, f16 or f32")
        ->check(one_of("output", output_words()))
        ->capture_default_str();
    command.add_option("--repeats", arguments.settings.repeats, "Number of timed calls; the median is reported")
        ->check(whole_number(1, most_int))
        ->capture_default_str();
}

void add_gpu_options(CLI::App& command, BenchArguments& arguments) {
    command.add_flag("--unpromoted", arguments.unpromoted,
                     "GPU: sum all of k in the tensor core (recipes tensor and row)");
    command
        .add_option("--flush", arguments.flush,
                    "GPU: L2 state before each call: clean (256 MB written, then read), dirty (256 MB written) or none "
                    "(unchanged)")
        ->check(one_of("flush", {"clean", "dirty", "none"}))
        ->capture_default_str();
    command
        .add_option("--sa-layout", arguments.scale_layout,
                    "GPU: order of 1x128 scales in memory: scales of consecutive rows (m) or along k (k) are adjacent")
        ->check(one_of("layout of scales", {"m", "k"}))
        ->capture_default_str();
    command.add_flag("--accumulate", arguments.settings.accumulate, "GPU: D = D + A B, in place");
    command.add_option("--sms", arguments.settings.sm_limit, "GPU: number of SMs that a call may use (0: all)")
        ->check(whole_number(0, most_int));
}

}  // namespace tilewright::cli
