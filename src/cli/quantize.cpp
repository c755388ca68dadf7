// `tilewright quantize`: reads a safetensors file and writes a quantized one.
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/name_filter.h"
#include "cli/terminal.h"
#include "output/streams.h"
#include "output/table.h"
#include "safetensors/inspect.h"
#include "safetensors/quantize_file.h"

namespace tilewright::cli {
namespace {

struct QuantizeArguments {
    std::string input;
    std::string output;
    std::string recipe = "1x128";
    std::string include;
    std::string exclude;
    bool round_up = false;
};

bool is_quantised_recipe(const std::string& text) {
    const std::optional<OperandRecipe> recipe = parse_operand_recipe(text);
    return recipe && is_accepted(*recipe) && recipe->granularity != Granularity::none;
}

/// A line for each kind of tensor. Tensors whose names differ only in numbers are of one kind.
std::vector<std::string> kept_lines(const std::vector<safetensors::Kept>& all) {
    std::map<std::string, std::pair<std::string, int>> kinds;
    for (const safetensors::Kept& kept : all) {
        const std::string line = fmt::format("kept unchanged: {}: {}", kept.name, kept.reason);
        std::string kind;
        std::istringstream words(line);
        for (std::string word; words >> word;) kind += " " + safetensors::name_pattern(word);
        auto& [first, count] = kinds[kind];
        if (count++ == 0) first = line;
    }
    std::vector<std::string> lines;
    for (const auto& [kind, line] : kinds) {
        const auto& [first, count] = line;
        lines.push_back(count == 1 ? first : fmt::format("{} (and {} more)", first, count - 1));
    }
    return lines;
}

void quantize_command(const QuantizeArguments& arguments) {
    const auto begin = std::chrono::steady_clock::now();
    Progress progress("quantizing", 1000);
    safetensors::QuantizeJob job{
        .input = arguments.input,
        .output = arguments.output,
        .options = {.recipe = parse_operand_recipe(arguments.recipe).value(), .round_up = arguments.round_up},
        .wanted = name_filter(arguments.include, arguments.exclude),
        .version = TILEWRIGHT_VERSION,
        .progress = [&](std::uint64_t done, std::uint64_t total, const std::string& tensor) {
            progress.set(done * 1000 / std::max<std::uint64_t>(total, 1), tensor);
        }};
    const safetensors::QuantizeResult result = safetensors::quantize_file(job);
    progress.clear();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    for (const std::string& line : kept_lines(result.kept)) output::print("{}\n", line);
    output::print(
        "{}: {} tensors quantized ({}), {} copied; {} -> {} in {}\n", arguments.output, result.quantized,
        name(job.options.recipe), result.copied, output::format_bytes(static_cast<double>(result.input_bytes)),
        output::format_bytes(static_cast<double>(result.output_bytes)), output::format_duration(time.count()));
}

}  // namespace

void add_quantize(CLI::App& program) {
    CLI::App* command = program.add_subcommand("quantize", "Quantize a safetensors file");
    command->footer(
        "Quantizes 2-D and 3-D tensors of F32, BF16 and F16 along their last dimension: X becomes X "
        "(values),\nX.scales and, for nvfp4, X.tensor_scale. Copies everything else, also tensors that are already "
        "quantized.\nThe output appears when it is complete.\n\nExample:\n  tilewright quantize model.safetensors "
        "model-fp8.safetensors --recipe 128x128 --exclude 'embed|norm'");
    const auto arguments = std::make_shared<QuantizeArguments>();
    command->add_option("input", arguments->input, "The file to read")->required();
    command->add_option("output", arguments->output, "The file to write")->required();
    command
        ->add_option("--recipe", arguments->recipe,
                     "Recipe: tensor, row, 1x128, 128x128, mxfp8, mxfp4, nvfp4, or with formats, e.g. e5m2.1x128.ue8m0")
        ->check(known_by("recipe of one operand", is_quantised_recipe,
                         "tensor, row, 1x128, 128x128, mxfp8, mxfp4, nvfp4, or with formats, e.g. e5m2.1x128.ue8m0"))
        ->capture_default_str();
    command->add_option("--include", arguments->include,
                        "Quantize only tensors whose name matches this regular expression");
    command->add_option("--exclude", arguments->exclude, "Skip tensors whose name matches this regular expression");
    command->add_flag("--round-up", arguments->round_up, "Round scales up to powers of two");
    command->callback([arguments] { quantize_command(*arguments); });
}

}  // namespace tilewright::cli
