// `tilewright inspect`: the contents of a checkpoint.
#include "safetensors/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "output/streams.h"
#include "output/table.h"
#include "safetensors/engines.h"
#include "safetensors/quantization_config.h"

namespace tilewright::cli {
namespace {

using safetensors::Checkpoint;
using safetensors::ExponentStatistics;
using safetensors::InspectedClass;
using safetensors::InspectedMatrix;

struct InspectArguments {
    std::string path;
    bool each = false;
};

/// "all uniform", "all uniform for bf16, 12 of 5760 wide for fp8".
std::string rows_text(const ExponentStatistics& s) {
    std::string text = "all uniform";
    if (s.wide_for_fp8 != 0) text = fmt::format("{} of {} wide for fp8", s.wide_for_fp8, s.rows);
    if (s.wide_for_bf16 != 0) text += fmt::format(", {} for bf16", s.wide_for_bf16);
    if (s.nan != 0) text += fmt::format(", {} NaN", s.nan);
    return text;
}

void add_line(const InspectedClass& one, output::Table& table) {
    const safetensors::StoredMatrix& matrix = one.first.matrix;
    const bool has = one.first.has_exponents;
    table.add({one.pattern, std::to_string(one.count), matrix.scheme, matrix.format(), to_string(matrix.shape()),
               output::format_bytes(static_cast<double>(one.bytes)),
               has ? std::to_string(one.exponents.row_difference) : "",
               has ? std::to_string(one.exponents.block_difference) : "", has ? rows_text(one.exponents) : "",
               safetensors::tensor_words(matrix)});
}

/// Prints what config.json and the index declare, in their words.
void print_words(const Checkpoint& checkpoint, bool each) {
    constexpr std::size_t most_lines = 4;
    const std::string words = safetensors::quantization_config(checkpoint).words;
    if (!words.empty()) output::print("quantization_config: {}\n", words);
    for (const std::string& file : checkpoint.unlisted())
        output::print("{}: not read, because the index does not name it\n", file);
    const std::vector<std::string>& overridden = checkpoint.overridden();
    const std::size_t lines = each ? overridden.size() : std::min(overridden.size(), most_lines);
    for (std::size_t i = 0; i < lines; ++i) output::print("{}\n", overridden[i]);
    if (lines < overridden.size()) output::print("... and {} more tensors\n", overridden.size() - lines);
}

std::vector<InspectedClass> classes_of(const std::vector<InspectedMatrix>& matrices, bool each) {
    if (!each) return safetensors::inspected_classes(matrices);
    std::vector<InspectedClass> classes;
    classes.reserve(matrices.size());
    for (const InspectedMatrix& matrix : matrices) {
        classes.push_back({.pattern = matrix.matrix.name,
                           .count = 1,
                           .bytes = matrix.matrix.bytes(),
                           .first = matrix,
                           .exponents = matrix.exponents});
    }
    return classes;
}

void inspect_command(const InspectArguments& arguments) {
    const Checkpoint checkpoint(arguments.path);
    const safetensors::StoredMatrices found = stored_matrices(checkpoint);
    std::vector<InspectedMatrix> matrices;
    {
        Progress progress("reading", std::max<std::size_t>(found.matrices.size(), 1));
        for (const safetensors::StoredMatrix& matrix : found.matrices) {
            matrices.push_back(inspect_matrix(checkpoint, matrix));
            progress.advance(1, matrix.name);
        }
    }
    output::Table table({{.title = "matrix"},
                         {.title = "count", .right = true},
                         {.title = "names of"},
                         {.title = "format"},
                         {.title = "shape"},
                         {.title = "size", .right = true},
                         {.title = "row", .right = true},
                         {.title = "128", .right = true},
                         {.title = "rows"},
                         {.title = "tensors"}});
    for (const InspectedClass& one : classes_of(matrices, arguments.each)) add_line(one, table);
    std::uint64_t other_bytes = 0;
    for (const std::string& name : found.others) other_bytes += checkpoint.find(name)->stored.bytes();
    output::print("{}\n{} files, {} matrices, {} other tensors ({})\n", table.text(), checkpoint.shards().size(),
                  matrices.size(), found.others.size(), output::format_bytes(static_cast<double>(other_bytes)));
    print_words(checkpoint, arguments.each);
    output::print("engines with Tilewright: {}\n", safetensors::engine_words(checkpoint, found));
    if (found.unreadable.empty()) return;
    output::print("\nwarning: {} matrices cannot be read; their tensors are among the others:\n",
                  found.unreadable.size());
    for (const std::string& line : unreadable_lines(found, arguments.each)) output::print("  {}\n", line);
}

}  // namespace

void add_inspect(CLI::App& program) {
    CLI::App* command = program.add_subcommand("inspect", "List the formats, shapes and exponents of a checkpoint");
    command->footer(
        "For MXFP4 weights, the columns `row` and `128` show the largest difference of two exponents in a row, and in "
        "128 along k in\na row, without blocks of zeros. A row is uniform for fp8 up to 11, for bf16 up to 120: one "
        "reference exponent is\nenough. Wide rows take more time on a GPU; their results are as exact.\n\nExample:\n  "
        "tilewright inspect openai/gpt-oss-20b");
    const auto arguments = std::make_shared<InspectArguments>();
    command
        ->add_option("path", arguments->path,
                     "A safetensors file, or a folder with one or with model.safetensors.index.json")
        ->required();
    command->add_flag("--each", arguments->each, "Print one line per matrix instead of one per kind");
    command->callback([arguments] { inspect_command(*arguments); });
}

}  // namespace tilewright::cli
