#include "cli/bench_session.h"

#include <fmt/format.h>

#include "bench/record.h"
#include "bench/report.h"
#include "cli/terminal.h"
#include "output/streams.h"

namespace tilewright::cli {
namespace {

void print_sustained_head(const bench::Run& run, const std::string& power_source) {
    output::print(
        "{}, continuous load: {} s of calls back to back, after as much to warm up; L2 is not flushed; power: {}\n",
        bench::recipe_text(run.settings), output::format_number(run.settings.seconds), power_source);
    if (run.settings.peers) output::print("cuBLASLt {}: per tensor, likewise\n", run.blas_version);
    output::print("\n");
}

}  // namespace

void print_cpu_head(const bench::Run& run) {
    output::print("{}; at most {} GFLOP/s and {} GB/s ({})\n", run.device,
                  output::format_number(run.peaks.flops_per_second * 1e-9),
                  output::format_number(run.peaks.bytes_per_second * 1e-9), run.peaks.source);
    output::print("floor: the larger of flops and bytes over these; ratio: time / floor, 1 is the best there is\n\n");
}

void print_gpu_head(const bench::Run& run, const std::string& power_source) {
    output::print("{}; at most {:.0f} TFLOP/s and {:.2f} TB/s ({})\n", run.device, run.peaks.flops_per_second * 1e-12,
                  run.peaks.bytes_per_second * 1e-12, run.peaks.source);
    if (run.settings.sustained) return print_sustained_head(run, power_source);
    output::print("{}, device time of one call, median of {}; ratio: time / floor\n", bench::recipe_text(run.settings),
                  run.settings.repeats);
    if (run.settings.overlap) {
        output::print(
            "in turn: {} calls in a row, from the first kernel's start to the last one's end, over {}; overlap: the "
            "same with programmatic dependent launch; L2 is not flushed between them\n",
            measure::sequence_calls, measure::sequence_calls);
    }
    if (run.settings.peers) {
        output::print("cuBLASLt {}: in the same run; x cuBLASLt: its time with one scale per tensor / ours\n",
                      run.blas_version);
    }
    output::print("\n");
}

std::vector<bench::Result> Session::run(const std::vector<bench::Run>& runs) {
    const output::Table table = bench::result_table(shapes_, runs.front());
    if (tables_) output::print("{}", table.header());
    Progress progress("timing", shapes_.size() * runs.size());
    std::vector<bench::Result> results;
    for (const bench::BenchShape& shape : shapes_) {
        for (const bench::Run& run : runs) {
            progress.advance(0, fmt::format("{} {}", name(shape.grouping), bench::shape_text(shape)));
            results.push_back(run_one_(shape, run.settings));
            progress.clear();
            show(table, results.back(), run);
            progress.advance(1);
        }
    }
    return results;
}

void Session::show(const output::Table& table, const bench::Result& result, const bench::Run& run) {
    if (tables_) output::print("{}", bench::result_lines(table, result, run));
    records_(bench::result_records(result, run));
    if (!result.note.empty()) output::complain("tilewright: bench: no peer: {}\n", result.note);
    if (result.failure.empty()) return;
    wrong_ = true;
    output::complain("tilewright: bench: {} {} {}{}: wrong result, not timed: {}\n", name(result.shape.grouping),
                     bench::shape_text(result.shape), name(run.settings.recipe),
                     result.tile ? " with " + name(*result.tile) : "", result.failure);
}

}  // namespace tilewright::cli
