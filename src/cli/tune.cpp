// `tilewright tune`: measures the planner's best candidates on this GPU and writes the fastest as rows of
// src/plan/tuned.
#include <fmt/format.h>

#include <memory>

#include "bench/record.h"
#include "bench/report.h"
#include "bench/tune_shape.h"
#include "cli/backends.h"
#include "cli/bench_arguments.h"
#include "cli/commands.h"
#include "output/file.h"
#include "output/streams.h"

namespace tilewright::cli {
namespace {

// A tuned row must gain at least this factor over the model's own choice; less is noise.
constexpr double worthwhile = 1.01;

struct TuneArguments {
    BenchArguments bench{};
    bench::Candidates candidates{.most = 12};
    bool all = false;
    int random = 0;
    std::uint64_t seed = 1;
    std::string rows_path;
    std::string json_path;
};

/// False if a tile's result was wrong.
bool tune_one(bench::GpuBench& bench, const bench::BenchShape& shape, const bench::Run& run,
              const TuneArguments& arguments) {
    bench::Candidates candidates = arguments.candidates;
    if (arguments.all) candidates.most = 0;
    const bench::TunedShape tuned = bench::tune_shape(bench, shape, run.settings, candidates);
    if (!tuned.failure.empty()) {
        output::complain("tilewright: tune: {}: wrong result, not timed: {}\n", tuned.key, tuned.failure);
        return false;
    }
    output::print("{}", bench::tried_text(tuned));
    if (!arguments.json_path.empty()) {
        output::append_text(arguments.json_path, bench::tune_records(tuned, run));
    }
    const double gain = tuned.tried.front().measured.seconds / tuned.best().measured.seconds;
    if (gain < worthwhile) {
        output::print("the planner's choice is kept\n\n");
    } else {
        const std::string row = bench::tuned_row(tuned, bench.description().name, run.date, run.command);
        output::print("{:.1f} % faster than the planner's choice: {}\n", (gain - 1) * 100, row);
        if (!arguments.rows_path.empty()) output::append_text(arguments.rows_path, row);
    }
    return true;
}

void tune_command(const TuneArguments& arguments) {
    const BenchArguments& bench_arguments = arguments.bench;
    const std::vector<bench::BenchShape> shapes =
        arguments.random > 0 ? bench::random_shapes(arguments.random, arguments.seed, chosen_groupings(bench_arguments))
                             : chosen_shapes(bench_arguments, "tune");
    require_gpu("tune");
    const std::vector<bench::Settings> all = all_settings(bench_arguments, Backend::hopper);
    bench::GpuBench bench(all.front().flush);
    const std::string started = bench::now();
    bool wrong = false;
    for (const bench::Settings& settings : all) {
        const bench::Run run{.settings = settings,
                             .peaks = bench.peaks(settings.recipe),
                             .device = bench.device().name(),
                             .date = bench::today(),
                             .command = bench::command_line(),
                             .started = started};
        for (const bench::BenchShape& shape : shapes) wrong |= !tune_one(bench, shape, run, arguments);
    }
    if (wrong) throw Reported{};
}

}  // namespace

void add_tune(CLI::App& program) {
    CLI::App* command = program.add_subcommand("tune", "Measure the planner's best candidates on this GPU");
    command->footer(
        "Every tile must return the same bits, and the first one's pass the gates, before anything is timed. A tile "
        "that "
        "is\n"
        "1 % faster than the planner's choice becomes a row, which belongs into src/plan/tuned.\n\n"
        "Example:\n  tilewright tune --suite peers --m 4096 --rows tuned.tsv\n"
        "  tilewright tune --random 60 --seed 7 --op dense,m_grouped_offsets,m_grouped_masked --all --packed --json "
        "random.jsonl\n"
        "  tilewright tune --m 1024 --n 7168 --k 16384 --recipe 1d2d --all --packed --json candidates.jsonl\n"
        "  tilewright tune --m 4096 --n 7168 --k 2048 --recipe tensor --layout tn --rows tuned.tsv");
    const auto arguments = std::make_shared<TuneArguments>();
    add_shape_options(*command, arguments->bench);
    add_group_options(*command, arguments->bench);
    add_operand_options(*command, arguments->bench);
    add_timing_options(*command, arguments->bench);
    add_gpu_options(*command, arguments->bench);
    command->add_option("--candidates", arguments->candidates.most, "Number of candidates to measure")
        ->check(whole_number(1))
        ->capture_default_str();
    command
        ->add_option(
            "--random", arguments->random,
            "Generate N random shapes per --op from --seed instead of a suite or sizes: m from 1 to 4,096, n in steps "
            "of 8, k in steps of 16; 2 to 128 groups, whose rows are what a router of tokens gives them")
        ->check(whole_number(1, most_int))
        ->excludes("--suite", "--m", "--n", "--k", "--groups", "--max-m");
    command->add_option("--seed", arguments->seed, "Seed of --random")->check(whole_number(0))->capture_default_str();
    command->add_flag("--all", arguments->all, "Measure every legal candidate");
    command->add_flag("--packed", arguments->candidates.packed,
                      "Measure only tiles with precompiled kernels; others are compiled, about a second each");
    // Their rows would be those of weights that are packed before and have no wide rows.
    command
        ->add_option("--rows", arguments->rows_path,
                     "Append the rows to this file (not with --unpacked or --wide-rows)")
        ->excludes("--wide-rows", "--unpacked");
    command->add_option("--json", arguments->json_path,
                        "Append every measurement to this file, one JSON object per line");
    command->callback([arguments] { tune_command(*arguments); });
}

}  // namespace tilewright::cli
