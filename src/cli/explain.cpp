// `tilewright explain`: which kernel a Hopper GPU would run for a problem, how long it should take, and why not another
// one. Asks only the planner, so it needs no GPU.
#include <tilewright/run.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "cli/commands.h"
#include "cli/explain_report.h"
#include "cli/words.h"
#include "output/json.h"
#include "output/streams.h"
#include "output/table.h"
#include "problem/packed_problem.h"

namespace tilewright::cli {
namespace {

struct ExplainArguments {
    std::string grouping = "dense";
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    std::int64_t groups = 1;
    std::int64_t expected_m = 0;
    int sms = 0;
    std::string recipe = "1x128:128x128";
    std::string layout = "nt";
    std::string output = "bf16";
    std::string device;  // empty: default_device()
    bool unpromoted = false;
    bool invariant = false;
    bool with_c = false;
    bool with_bias = false;
    int wide_rows = 0;
    bool unpacked = false;
    bool all = false;
    bool json = false;
};

bool is_recipe(const std::string& text) { return is_known_recipe(full_recipe(text)); }

/// The recipes with the usual formats; `docs/numerics.md` has them all.
std::string usual_recipes() {
    return "tensor:tensor, row:row, 1x128:128x128, 1x128:1x128, 128x128:128x128, 1x128:row, 1x128:tensor, each of "
           "these for a with e4m3 (no scales) for b, bf16:bf16, f16:f16, f32:f32, mxfp8, mxfp4 or nvfp4 with any "
           "recipe, or other formats, e.g. e5m2.row:row or 1x128.ue8m0:128x128.ue8m0";
}

ProblemSizes sizes_of(const ExplainArguments& arguments) {
    return {.grouping = parse_grouping(arguments.grouping).value(),
            .recipe = parse_recipe(full_recipe(arguments.recipe)).value(),
            .layout = parse_layout(arguments.layout).value(),
            .output = parse_format(arguments.output).value(),
            .m = arguments.m,
            .n = arguments.n,
            .k = arguments.k,
            .groups = arguments.groups,
            .expected_m = arguments.expected_m,
            .sm_limit = arguments.sms,
            .with_c = arguments.with_c,
            .with_bias = arguments.with_bias,
            .accumulation = arguments.unpromoted ? Accumulation::unpromoted : Accumulation::promoted,
            .reproducibility = arguments.invariant ? Reproducibility::invariant : Reproducibility::repeatable,
            .wide_rows = arguments.wide_rows};
}

void explain_command(const ExplainArguments& arguments) {
    const ProblemSizes sizes = sizes_of(arguments);
    Problem problem = problem_of(sizes);
    const std::vector<Finding> findings = validate(problem, Backend::automatic, Check::shapes);
    if (!findings.empty()) {
        std::vector<std::string> messages;
        std::transform(findings.begin(), findings.end(), std::back_inserter(messages),
                       [](const Finding& finding) { return finding.message(); });
        throw UsageError(output::joined(messages, "\n            "));
    }
    if (takes_packed_weights(problem) && !arguments.unpacked) {
        problem = with_packed_shape(problem, sizes);
    }
    const DeviceDescription device = arguments.device.empty() ? default_device() : device_of(arguments.device);
    const ExplainedProblem explained{sizes, device, explain(problem, device)};
    if (arguments.json) {
        output::print("{}\n", output::json_text(explanation_json(explained), 2));
    } else {
        output::print("{}", explanation_text(explained, arguments.all));
        for (const Finding& finding : validate(problem, Backend::hopper, Check::shapes)) {
            output::print("\ncannot run yet: {}\n", finding.message());
        }
    }
}

void add_size_options(CLI::App& command, ExplainArguments& arguments) {
    const CLI::Validator not_negative = whole_number(0);
    command.add_option("--m", arguments.m, "Rows of D; batched and masked: rows per group")->check(not_negative);
    command.add_option("--n", arguments.n, "Columns of D")->check(not_negative);
    command.add_option("--k", arguments.k, "Contraction size; k-grouped: the sum over groups")->check(not_negative);
    command.add_option("--groups", arguments.groups, "Number of groups (experts, matrices of a batch)")
        ->check(not_negative)
        ->capture_default_str();
    command.add_option("--expected-m", arguments.expected_m, "Masked: typical rows per group (0: --m)")
        ->check(not_negative);
    command.add_option("--sms", arguments.sms, "Number of SMs that the call may use (0: all)")
        ->check(whole_number(0, most_int));
}

void add_kind_options(CLI::App& command, ExplainArguments& arguments) {
    command.add_option("grouping", arguments.grouping, output::joined(grouping_words()))
        ->check(one_of("grouping", grouping_words()))
        ->capture_default_str();
    command
        .add_option("--recipe", arguments.recipe,
                    "Formats and scales of a and b; 1d2d, 1d1d, tensor and row abbreviate common recipes")
        ->check(known_by("recipe", is_recipe, usual_recipes()))
        ->capture_default_str();
    command.add_option("--layout", arguments.layout, output::joined(layout_words()))
        ->check(one_of("layout", layout_words()))
        ->capture_default_str();
    command.add_option("--output", arguments.output, output::joined(output_words()))
        ->check(one_of("output", output_words()))
        ->capture_default_str();
    command
        .add_option("--device", arguments.device,
                    output::joined(device_words()) + " or a device file; default: this machine's GPU, or h200")
        ->check(known_device());
    command.add_flag("--unpromoted", arguments.unpromoted, "Sum all of k in the tensor core (tensor and row scales)");
    command.add_flag("--invariant", arguments.invariant,
                     "Make the bits of an element depend only on its row and column");
    command.add_flag("--with-c", arguments.with_c, "D = C + A B");
    command.add_flag("--with-bias", arguments.with_bias, "D = bias + A B, with a bf16 bias per column and group");
    command
        .add_option("--wide-rows", arguments.wide_rows,
                    "MXFP4 weights: one row in N has scales that differ by more than 2^11 (by more than 2^120 with "
                    "bf16 and NVFP4 activations); 0: none")
        ->check(whole_number(0, most_int));
    command.add_flag("--unpacked", arguments.unpacked,
                     "MXFP4 weights are packed on each call (default: packed in advance)");
}

}  // namespace

void add_explain(CLI::App& program) {
    CLI::App* command = program.add_subcommand(
        "explain", "Show which kernel runs a problem on a Hopper GPU, its predicted time and the alternatives");
    command->footer(
        "Needs no GPU. Assumes rows spread evenly over the groups, as the planner does.\n\nExamples:\n  tilewright "
        "explain dense --m 4096 --n 7168 --k 2048 --recipe 1x128:128x128\n  tilewright explain m_grouped_masked --m "
        "1024 --expected-m 192 --n 4096 --k 7168 --groups 32 --json");
    const auto arguments = std::make_shared<ExplainArguments>();
    add_kind_options(*command, *arguments);
    add_size_options(*command, *arguments);
    command->add_flag("--all", arguments->all, "Print every reason for rejected candidates, not just a few");
    command->add_flag("--json", arguments->json, "Print everything as JSON");
    add_explain_moe(*command);
    run_without_subcommand(*command, {"--m", "--n", "--k"}, [arguments] { explain_command(*arguments); });
}

}  // namespace tilewright::cli
