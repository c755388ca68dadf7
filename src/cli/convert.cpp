// `tilewright convert`: reads a quantized checkpoint and writes one of another format.
#include "safetensors/convert.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "cli/commands.h"
#include "cli/name_filter.h"
#include "cli/terminal.h"
#include "output/streams.h"
#include "output/table.h"

namespace tilewright::cli {
namespace {

struct ConvertArguments {
    std::string input;
    std::string output;
    std::string recipe;
    std::string pack;
    std::string published;
    std::string include;
    std::string exclude;
    bool round_up = false;
    bool stack_experts = false;
};

bool is_weight_recipe(const std::string& text) {
    const std::optional<OperandRecipe> recipe = parse_operand_recipe(text);
    return recipe && is_accepted(*recipe) && recipe->granularity != Granularity::none;
}

safetensors::ConvertJob job_of(const ConvertArguments& arguments, Progress& progress) {
    safetensors::ConvertJob job{.input = arguments.input,
                                .output = arguments.output,
                                .round_up = arguments.round_up,
                                .stack_experts = arguments.stack_experts,
                                .wanted = name_filter(arguments.include, arguments.exclude),
                                .include = arguments.include,
                                .exclude = arguments.exclude,
                                .version = TILEWRIGHT_VERSION,
                                .progress = [&](std::uint64_t done, std::uint64_t total, const std::string& what) {
                                    progress.set(done * 1000 / std::max<std::uint64_t>(total, 1), what);
                                }};
    if (!arguments.recipe.empty()) job.recipe = parse_operand_recipe(arguments.recipe);
    if (!arguments.pack.empty()) job.pack = arguments.pack == "fp8" ? PackedFor::fp8 : PackedFor::bf16;
    if (!arguments.published.empty()) {
        job.published =
            arguments.published == "fp8" ? safetensors::PublishedFormat::fp8 : safetensors::PublishedFormat::mxfp4;
        if (job.recipe || job.pack || job.stack_experts) {
            throw UsageError("convert: --as has its own format; expected neither --to, --pack nor --stack-experts");
        }
        return job;
    }
    if (!job.recipe && !job.pack) throw UsageError("convert: expected --to, --pack or both, or --as");
    if (job.pack && job.recipe && job.recipe->values != Format::e2m1) {
        throw UsageError("convert: --pack needs --to mxfp4 or nvfp4, or FP4 weights in the input");
    }
    return job;
}

/// Prints what happened to each file, files of an earlier run included.
void print_files(const safetensors::ConvertResult& result) {
    for (const std::string& file : result.kept_files)
        output::print("{}: already complete, from an earlier run\n", file);
    for (const auto& [file, reason] : result.made_again) output::print("{}: made again: {}\n", file, reason);
    for (const std::string& file : result.removed_files) {
        output::print("{}: removed: an earlier run wrote it, and this run does not\n", file);
    }
    if (!result.copied_files.empty()) output::print("copied: {}\n", fmt::join(result.copied_files, ", "));
    for (const auto& [file, reason] : result.files_not_copied) output::print("not copied: {}: {}\n", file, reason);
}

/// "kept unchanged: experts.*.up_proj.weight (256): F8_E4M3 [64, 96], with experts.*.up_proj.weight_scale: not chosen"
void print_kept(const safetensors::KeptTensors& kept) {
    const std::string count = kept.count > 1 ? fmt::format(" ({})", kept.count) : "";
    const std::string scales = kept.scales.empty() ? "" : fmt::format(", with {}", fmt::join(kept.scales, ", "));
    output::print("kept unchanged: {}{}: {}{}: {}\n", kept.name, count, kept.format, scales, kept.reason);
}

void print(const ConvertArguments& arguments, const safetensors::ConvertResult& result, double seconds) {
    print_files(result);
    output::Table table({{.title = "matrix"}, {.title = "from"}, {.title = "to"}, {.title = "error", .right = true}});
    for (const safetensors::ConvertedMatrix& matrix : result.matrices) {
        table.add(
            {matrix.name, matrix.from, matrix.to, matrix.error == 0 ? "exact" : output::format_number(matrix.error)});
    }
    if (!result.matrices.empty()) output::print("{}", table.text());
    for (const safetensors::KeptTensors& kept : result.kept) print_kept(kept);
    output::print("{}: {} matrices converted, {} tensors copied; {} -> {} in {}\n", arguments.output,
                  result.matrices.size(), result.copied, output::format_bytes(static_cast<double>(result.input_bytes)),
                  output::format_bytes(static_cast<double>(result.output_bytes)), output::format_duration(seconds));
}

void convert_command(const ConvertArguments& arguments) {
    const auto begin = std::chrono::steady_clock::now();
    Progress progress("converting", 1000);
    const safetensors::ConvertResult result = safetensors::convert(job_of(arguments, progress));
    progress.clear();
    print(arguments, result, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

}  // namespace

void add_convert(CLI::App& program) {
    CLI::App* command = program.add_subcommand("convert", "Convert a quantized checkpoint to another format");
    command->footer(
        "Quantized matrices as `tilewright inspect` lists them become X (values), X.scales and, for nvfp4, "
        "X.tensor_scale,\nor X.packed. --as writes the names and the config.json that transformers, vLLM and SGLang "
        "load.\nEverything else is copied, also the files of a folder that are not weights.\n`error` is "
        "||after - before|| / ||before||. A file appears when it is complete, and is kept by the next run of the "
        "same\nconversion.\n\n"
        "Examples:\n  tilewright convert gpt-oss-20b gpt-oss-20b-packed --pack bf16\n"
        "  tilewright convert DeepSeek-R1 DeepSeek-R1-mxfp4 --to mxfp4 --include experts\n"
        "  tilewright convert DeepSeek-V4 DeepSeek-V4-packed --pack fp8 --include experts --stack-experts\n"
        "  tilewright convert Qwen3-30B-A3B-FP8-dynamic Qwen3-30B-A3B-FP8 --as fp8");
    const auto arguments = std::make_shared<ConvertArguments>();
    command
        ->add_option("input", arguments->input,
                     "A safetensors file, or a folder with one or with model.safetensors.index.json")
        ->required();
    command->add_option("output", arguments->output, "The file to write, or the folder if the input is one")
        ->required();
    command
        ->add_option("--to", arguments->recipe,
                     "Format of the output: 128x128, mxfp8, mxfp4, nvfp4, row, ... (default: unchanged)")
        ->check(known_by("recipe of one operand", is_weight_recipe,
                         "tensor, row, 1x128, 128x128, mxfp8, mxfp4, nvfp4, or with formats, e.g. e5m2.1x128.ue8m0"));
    command->add_option("--pack", arguments->pack, "Pack FP4 weights for these activations: fp8 or bf16")
        ->check(one_of("kind of activations", {"fp8", "bf16"}));
    command
        ->add_option("--as", arguments->published,
                     "A published format that engines load: fp8 (DeepSeek's, 128x128) or mxfp4 (gpt-oss's)")
        ->check(one_of("published format", {"fp8", "mxfp4"}));
    command->add_option("--include", arguments->include, "Convert only matrices whose name has a match of this regex");
    command->add_option("--exclude", arguments->exclude, "Skip tensors whose name matches this regular expression");
    command->add_flag("--round-up", arguments->round_up, "Round scales up to powers of two");
    command->add_flag(
        "--stack-experts", arguments->stack_experts,
        "Stack experts stored one by one (P.experts.N.S) into P.experts.S [experts, n, k], for grouped products");
    command->callback([arguments] { convert_command(*arguments); });
}

}  // namespace tilewright::cli
