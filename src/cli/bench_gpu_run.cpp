#include "cli/bench_gpu_run.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/terminal.h"
#include "output/file.h"
#include "output/table.h"

namespace tilewright::cli {
namespace {

void print_head(const bench::GpuRun& run, const std::vector<bench::BenchShape>& shapes) {
    fmt::print("{}; at most {:.0f} TFLOP/s and {:.2f} TB/s ({})\n", run.device, run.peaks.flops_per_second * 1e-12,
               run.peaks.bytes_per_second * 1e-12, run.peaks.source);
    fmt::print("{}, device time of one call, median of {}; ratio: time / floor\n", bench::recipe_text(run.settings),
               run.settings.repeats);
    if (run.settings.overlap) {
        fmt::print(
            "chain: {} calls in a row, from the first kernel's start to the last one's end, over {}; overlap: the same "
            "with programmatic dependent launch; L2 is not flushed between them\n",
            measure::chain_calls, measure::chain_calls);
    }
    if (run.settings.peers) {
        const char* rival_name = bench::rival(run.settings.recipe, shapes.front().grouping);
        fmt::print(
            "cuBLASLt {}: live, per tensor; {}: benchmarks/peers; x {}: both times in units of cuBLASLt's in the same "
            "run\n",
            run.blas_version, rival_name, rival_name);
    }
    fmt::print("\n{}", bench::gpu_table(shapes, run.settings).header());
}

void print_failure(const bench::GpuResult& result) {
    fmt::print(stderr, "tilewright: bench: [{}] with {}: wrong result, not timed: {}\n",
               fmt::join(bench::shape_key(result.shape), ", "), name(result.tile), result.failure);
}

}  // namespace

bool run_on_gpu(bench::GpuBench& bench, const std::vector<bench::BenchShape>& shapes, const bench::GpuRun& run,
                const std::string& json_path) {
    const bool json_only = json_path == "-";
    if (!json_only) print_head(run, shapes);
    const output::Table table = bench::gpu_table(shapes, run.settings);
    Progress progress("timing", shapes.size());
    std::vector<bench::GpuResult> results;
    std::string note;
    bool right = true;
    for (const bench::BenchShape& shape : shapes) {
        progress.advance(0, fmt::format("[{}]", fmt::join(bench::shape_key(shape), ", ")));
        const bench::GpuResult result = bench.run(shape, run.settings);
        progress.clear();
        if (!json_only) fmt::print("{}", bench::gpu_line(table, result, run));
        std::string lines;
        for (const auto& line : bench::gpu_json(result, run)) lines += line.dump() + "\n";
        if (json_only) fmt::print("{}", lines);
        if (!json_only && !json_path.empty()) output::append_text(json_path, lines);
        std::fflush(stdout);
        if (!result.failure.empty()) {
            right = false;
            print_failure(result);
        }
        if (!result.note.empty()) note = result.note;
        results.push_back(result);
        progress.advance(1);
    }
    if (!json_only) fmt::print("\n{}", bench::gpu_summary(results, run));
    if (!note.empty()) fmt::print(stderr, "tilewright: bench: no peer: {}\n", note);
    return right;
}

}  // namespace tilewright::cli
