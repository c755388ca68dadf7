// `tilewright verify`: every operation x recipe on this machine, against float64, by the gates of docs/numerics.md.
// `tilewright verify moe`: layers of experts.
#include <fmt/format.h>
#include <tilewright/ranks.h>

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>

#include "base/threads.h"
#include "cli/backends.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "cli/words.h"
#include "output/file.h"
#include "output/json.h"
#include "output/streams.h"
#include "output/table.h"
#include "verify/choices.h"
#include "verify/moe.h"
#include "verify/moe_ranks.h"
#include "verify/quantizers.h"
#include "verify/row.h"

namespace tilewright::cli {
namespace {

using nlohmann::ordered_json;

struct VerifyArguments {
    bool layers = false;  // of experts, in place of products and quantizers
    int ranks = 0;        // layers over this number of ranks; 0: one
    bool quick = false;
    std::string filter;
    std::string arithmetic = "both";
    std::string backend = "automatic";
    std::string device;
    std::string json_path;
};

struct Totals {
    std::int64_t rows = 0;
    std::int64_t cases = 0;
    std::int64_t combinations = 0;
    std::int64_t refused = 0;
    std::int64_t unshipped = 0;
    std::int64_t failed = 0;

    void add(const verify::RowResult& row) {
        ++rows;
        cases += row.cases;
        combinations += row.combinations;
        refused += row.refused;
        unshipped += row.unshipped;
        failed += row.failed;
    }
};

/// A row of the table.
struct Row {
    std::string operation;
    std::string recipe;
    std::vector<std::string> variants;
    std::int64_t cases = 0;
    std::function<verify::RowResult(const std::function<void()>& progress)> run;

    std::string label() const { return operation + " " + recipe; }
};

/// The products, then the quantizers. The settings outlive them.
std::vector<Row> all_rows(const verify::VerifySettings& settings) {
    std::vector<Row> rows;
    for (const verify::Family& family : verify::all_families()) {
        std::vector<std::string> variants;
        for (const Recipe& recipe : family.recipes) variants.push_back(name(recipe));
        rows.push_back({std::string(name(family.grouping)), family.recipe_name(), variants,
                        verify::count_cases(family, settings),
                        [&settings, family](const auto& progress) { return run_row(family, settings, progress); }});
    }
    for (const verify::Quantizer& quantizer : verify::all_quantizers()) {
        rows.push_back(
            {"quantize", std::string(quantizer.name), {}, verify::count_cases(settings), [&](const auto& progress) {
                 return run_quantizer(quantizer, settings, progress);
             }});
    }
    return rows;
}

std::vector<std::string> variants_of(const verify::MoeFamily& family) {
    std::vector<std::string> variants;
    for (const Recipe& recipe : family.recipes) variants.push_back(name(recipe));
    return variants;
}

std::vector<Row> layer_rows(const verify::VerifySettings& settings) {
    std::vector<Row> rows;
    for (const verify::MoeFamily& family : verify::all_moe_families()) {
        rows.push_back({"moe", family.name, variants_of(family), verify::count_cases(family, settings),
                        [&settings, family](const auto& progress) { return run_moe(family, settings, progress); }});
    }
    return rows;
}

std::vector<Row> ranked_layer_rows(const verify::VerifySettings& settings, int ranks) {
    std::vector<Row> rows;
    for (const verify::MoeFamily& family : verify::ranked_moe_families()) {
        rows.push_back({fmt::format("moe over {} ranks", ranks), family.name, variants_of(family),
                        std::ssize(verify::ranked_cases_of(family, ranks, settings.quick)),
                        [&settings, family, ranks](const auto& progress) {
                            return run_ranked_moe(family, ranks, settings, progress);
                        }});
    }
    return rows;
}

std::vector<Row> chosen_rows(const VerifyArguments& arguments, const verify::VerifySettings& settings) {
    const std::string& filter = arguments.filter;
    std::vector<Row> rows = arguments.ranks > 0 ? ranked_layer_rows(settings, arguments.ranks)
                            : arguments.layers  ? layer_rows(settings)
                                                : all_rows(settings);
    const std::string first = rows.front().label();
    const std::regex pattern(filter);
    std::erase_if(rows, [&](const Row& row) { return !std::regex_search(row.label(), pattern); });
    if (!rows.empty()) return rows;
    throw UsageError(fmt::format(
        "verify: --filter: got '{}', which matches no row; expected a match of names such as '{}'", filter, first));
}

bool is_pattern(const std::string& text) {
    try {
        const std::regex pattern(text);
        return true;
    } catch (const std::regex_error&) {
        return false;
    }
}

std::string backends_text(const verify::RowResult& row) {
    if (row.cpu_only == row.cases) return "cpu only";
    return row.cpu_only == 0 ? "all" : fmt::format("{} of {} cpu only", row.cpu_only, row.cases);
}

const output::Table& table() {
    static const output::Table columns({{.title = "operation", .width = 25},
                                        {.title = "recipe", .width = 16},
                                        {.title = "cases", .right = true, .width = 5},
                                        {.title = "worst error", .right = true, .width = 11},
                                        {.title = "its bound", .right = true, .width = 9},
                                        {.title = "ratio", .right = true, .width = 5},
                                        {.title = "result", .width = 6},
                                        {.title = "time", .right = true, .width = 8},
                                        {.title = "backends"}});
    return columns;
}

void print_row(const Row& which, const verify::RowResult& row) {
    output::print(
        "{}", table().line({which.operation, which.recipe, std::to_string(row.cases), output::format_number(row.error),
                            output::format_number(row.bound), fmt::format("{:.2f}", row.ratio), row.result(),
                            output::format_duration(row.seconds), backends_text(row)}));
    for (const std::string& failure : row.failures) output::print("    {}\n", failure);
}

ordered_json row_report(const Row& which, const verify::RowResult& row) {
    return {{"operation", which.operation},
            {"recipe", which.recipe},
            {"variants", which.variants},
            {"cases", row.cases},
            {"failed", row.failed},
            {"error", row.error},
            {"bound", row.bound},
            {"ratio", row.ratio},
            {"refused", row.refused},
            {"unshipped", row.unshipped},
            {"result", row.result()},
            {"seconds", row.seconds},
            {"backends", backends_text(row)},
            {"failures", row.failures}};
}

/// The part that was left out because the user asked for it; empty for a whole run.
std::string restriction(const VerifyArguments& arguments) {
    std::vector<std::string> options;
    if (arguments.quick) options.emplace_back("--quick");
    if (!arguments.filter.empty()) options.emplace_back("--filter");
    if (arguments.arithmetic != "both") options.emplace_back("--arithmetic");
    return output::joined(options);
}

std::string coverage_text(const Totals& totals, std::int64_t accepted, const std::string& restricted) {
    const std::int64_t left_out = accepted - totals.combinations - totals.refused;
    if (left_out == 0 && totals.refused > 0) {
        return fmt::format("not run: {} of {} accepted combinations, which only the CPU backend supports",
                           totals.refused, accepted);
    }
    if (left_out == 0) {
        return fmt::format(
            "not run: nothing; all {} accepted combinations of operation, recipe, layout, output and "
            "arithmetic were",
            accepted);
    }
    return fmt::format("not run: {} of {} accepted combinations of operation, recipe, layout, output and arithmetic{}",
                       left_out, accepted,
                       restricted.empty() ? ", which is a mistake of this program" : " (" + restricted + ")");
}

Totals run_rows(const std::vector<Row>& chosen, const verify::VerifySettings& settings, ordered_json& rows) {
    std::int64_t cases = 0;
    for (const Row& row : chosen) cases += row.cases;
    Progress progress("verifying", static_cast<std::uint64_t>(cases));
    Totals totals;
    const auto one_more = [&](const Row& row) {
#pragma omp critical(tilewright_verify_progress)
        progress.advance(1, row.label());
    };
    const auto show = [&](const Row& which, const verify::RowResult& row) {
#pragma omp critical(tilewright_verify_progress)
        progress.clear();
        if (row.cases > 0 || row.failed > 0) print_row(which, row);
        rows.push_back(row_report(which, row));
        totals.add(row);
    };
    FirstError error;
    const auto count = static_cast<std::int64_t>(chosen.size());
    // Rows side by side, a thread each (one GPU: one thread); they are printed in their order.
#pragma omp parallel for schedule(dynamic) ordered if (settings.gpu == nullptr)
    for (std::int64_t i = 0; i < count; ++i) {
        const Row& which = chosen[static_cast<std::size_t>(i)];
        verify::RowResult row;
        error.keep([&] { row = which.run([&] { one_more(which); }); });
#pragma omp ordered
        error.keep([&] { show(which, row); });
    }
    error.rethrow();
    return totals;
}

void verify_command(const VerifyArguments& arguments) {
    const auto begin = std::chrono::steady_clock::now();
    const BackendStatus backend = chosen_backend(arguments.backend);
    verify::VerifySettings settings{
        .backend = backend.backend, .arithmetics = verify::all_arithmetics(), .quick = arguments.quick};
    if (arguments.arithmetic != "both") settings.arithmetics = {parse_arithmetic(arguments.arithmetic).value()};
    std::optional<DeviceDescription> device;
    if (!arguments.device.empty()) settings.device = &device.emplace(device_of(arguments.device));
    std::optional<measure::Device> gpu;
    if (backend.backend == Backend::hopper) {
        if (arguments.arithmetic == "fast")
            throw UsageError("verify: --arithmetic: got fast; expected bit_exact on a GPU");
        settings.arithmetics = {Arithmetic::bit_exact};
        settings.gpu = &gpu.emplace();
    }
    const std::vector<Row> chosen = chosen_rows(arguments, settings);
    require_file(arguments.json_path);

    output::print("backend {}: {}\n\n{}", name(backend.backend), backend.device, table().header());
    ordered_json rows = ordered_json::array();
    const Totals totals = run_rows(chosen, settings, rows);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    const std::int64_t accepted =
        verify::accepted_combinations(settings.gpu == nullptr ? verify::all_arithmetics() : settings.arithmetics);
    output::print("\n{} cases, {} failed; {} rows in {}\n", totals.cases, totals.failed, totals.rows,
                  output::format_duration(time.count()));
    if (!arguments.layers) output::print("{}\n", coverage_text(totals, accepted, restriction(arguments)));
    if (totals.unshipped > 0) {
        output::print("skipped: {} cases whose kernels are compiled on first use; omit --quick to run them\n",
                      totals.unshipped);
    }
    if (!arguments.json_path.empty()) {
        const ordered_json report{{"version", TILEWRIGHT_VERSION},     {"backend", name(backend.backend)},
                                  {"device", backend.device},          {"cases", totals.cases},
                                  {"failed", totals.failed},           {"combinations_run", totals.combinations},
                                  {"combinations_accepted", accepted}, {"combinations_refused", totals.refused},
                                  {"unshipped", totals.unshipped},     {"restricted_by", restriction(arguments)},
                                  {"seconds", time.count()},           {"rows", rows}};
        output::write_text(arguments.json_path, output::json_text(report, 2) + "\n");
    }
    const bool incomplete =
        !arguments.layers && totals.combinations + totals.refused != accepted && restriction(arguments).empty();
    if (totals.failed > 0 || incomplete) throw Reported{};
}

void add_common_options(CLI::App& command, VerifyArguments& arguments) {
    command
        .add_option("--filter", arguments.filter,
                    "Run only rows (\"operation recipe\") that match this regular expression")
        ->check(known_by("regular expression", is_pattern, "ECMAScript's, e.g. 'dense row:.*'"));
    std::vector<std::string> arithmetics = arithmetic_words();
    arithmetics.emplace_back("both");
    command.add_option("--arithmetic", arguments.arithmetic, "CPU: fast, bit_exact or both")
        ->check(one_of("arithmetic", arithmetics))
        ->transform(arithmetic_word)
        ->capture_default_str();
    command.add_option("--backend", arguments.backend, "automatic, cpu or hopper")
        ->check(one_of("backend", backend_words()))
        ->capture_default_str();
    command
        .add_option(
            "--device", arguments.device,
            "Reproduce the bits of this device, whose plans decide where k is split: a name or a device file (default: "
            "this GPU, or h200)")
        ->check(known_device());
    command.add_option("--json", arguments.json_path, "Also write the table to this file as JSON");
}

}  // namespace

void add_verify(CLI::App& program) {
    CLI::App* command = program.add_subcommand("verify", "Check every operation and recipe on this machine");
    command->footer(
        "Each row is an operation with a pair of scale granularities. Its cases cover all value and scale "
        "formats,\nlayouts, outputs and arithmetics on small sizes, and the sizes of a real model. The quantizers come "
        "last. The error is that of the\nelement closest to its bound. The bound is what the arithmetic of its sum can "
        "lose; ratio: error /\nbound. Exit code 1 when a case fails.\n\nExample:\n  "
        "tilewright verify\n  tilewright verify --quick --filter 'm_grouped.* 1x128:128x128'");
    const auto arguments = std::make_shared<VerifyArguments>();
    command->add_flag("--quick", arguments->quick,
                      "One layout and output per recipe; real sizes only for dense; on a GPU only precompiled kernels");
    add_common_options(*command, *arguments);
    add_verify_moe(*command);
    run_without_subcommand(*command, {}, [arguments] { verify_command(*arguments); });
}

void add_verify_moe(CLI::App& verify) {
    CLI::App* command = verify.add_subcommand("moe", "Check layers of experts with every recipe on this machine");
    command->footer(
        "Each row is a pair of scale granularities. Its cases are layers of tokens and of rows, with each unit and "
        "place "
        "of\nthe routing weights. On the CPU the error is that of the element closest to its bound from float64. A "
        "GPU's "
        "bytes are\ncompared with the CPU's bit_exact ones. With --ranks a case is a layer of tokens with invariant "
        "products, whose results\nare sent as rows, by addresses and by collectives. It must have the bytes of "
        "one rank. Another layer sends sums\nin bf16 and in f32. It must have the bytes of their definition. Exit code "
        "1 when a case\nfails.\n\nExample:\n  tilewright verify moe --quick\n  tilewright verify "
        "moe --filter '1x128:.*' --backend hopper\n  tilewright verify moe --ranks 4");
    const auto arguments = std::make_shared<VerifyArguments>();
    arguments->layers = true;
    command->add_flag("--quick", arguments->quick, "A case per recipe; on a GPU only precompiled products");
    command
        ->add_option("--ranks", arguments->ranks,
                     "Compare the bytes of this number of ranks with those of one. Ranks are threads that share the "
                     "device")
        ->check(whole_number(1, most_ranks_with_addresses));
    add_common_options(*command, *arguments);
    command->callback([arguments] { verify_command(*arguments); });
}

}  // namespace tilewright::cli
