// `tilewright classes`: the table of a record's speeds, class by class of shapes.
#include <fstream>
#include <iterator>
#include <memory>

#include "bench/class_table.h"
#include "cli/commands.h"
#include "output/file.h"
#include "output/streams.h"

namespace tilewright::cli {
namespace {

struct ClassesArguments {
    std::vector<std::string> records;
    std::string json_path;
};

std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(file), {});
    if (!file)
        throw std::runtime_error(path + ": cannot be read; expected a record written by `tilewright bench --json`");
    if (!text.empty() && text.back() != '\n') text += '\n';
    return text;
}

void classes_command(const ClassesArguments& arguments) {
    std::string lines;
    for (const std::string& path : arguments.records) lines += text_of(path);
    const bench::ClassTable table = bench::class_table(lines);
    const bool tables = arguments.json_path != "-";
    if (!arguments.json_path.empty()) output::write_text(arguments.json_path, bench::class_records(table));
    if (tables) {
        output::print(
            "speeds: the other's time, scaled by cuBLASLt's of the two runs, over ours; median of the runs of a "
            "shape, geometric mean and worst of the shapes; slower: below 0.98\n\n{}",
            bench::class_table_text(table));
    }
    for (const std::string& run : table.left_out) output::complain("tilewright: classes: left out: {}\n", run);
    if (table.classes.empty()) output::complain("tilewright: classes: the record has no shape of the peers' tables\n");
    if (table.classes.empty() || !table.left_out.empty()) throw Reported{};
}

}  // namespace

void add_classes(CLI::App& program) {
    CLI::App* command = program.add_subcommand(
        "classes", "Compare a record of `tilewright bench` with other libraries, by class of shapes");
    command->footer(
        "Other libraries' times are those of benchmarks/peers. A run is scaled by one factor, cuBLASLt's time per "
        "tensor on\n4096 x 4096 x 7168 in it and in theirs; a run with a factor outside 0.97 to 1.03 is left out, and "
        "the exit status is 1.\n\nExample:\n  tilewright classes benchmarks/results/h200.jsonl");
    const auto arguments = std::make_shared<ClassesArguments>();
    command->add_option("records", arguments->records, "Files written by `tilewright bench --json`; several are merged")
        ->required();
    command->add_option("--json", arguments->json_path,
                        "Also write one JSON object per class to this file (-: only JSON, to stdout)");
    command->callback([arguments] { classes_command(*arguments); });
}

}  // namespace tilewright::cli
