#include "cli/bench_gpu_run.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace tilewright::cli {
namespace {

void print_head(const GpuRun& run, const std::vector<BenchShape>& shapes) {
    fmt::print("{}; at most {:.0f} TFLOP/s and {:.2f} TB/s ({})\n", run.device, run.peaks.flops_per_second * 1e-12,
               run.peaks.bytes_per_second * 1e-12, run.peaks.source);
    fmt::print("{}, device time of one call, median of {}; ratio: time / floor\n", recipe_text(run.settings),
               run.settings.repeats);
    if (run.settings.overlap) {
        fmt::print(
            "chain: {} calls in a row, from the first kernel's start to the last one's end, over {}; overlap: the same "
            "with programmatic dependent launch; L2 is not flushed between them\n",
            measure::chain_calls, measure::chain_calls);
    }
    if (run.settings.peers) {
        const char* rival_name = rival(run.settings.recipe, shapes.front().grouping);
        fmt::print(
            "cuBLASLt {}: live, per tensor; {}: benchmarks/peers; x {}: both times in units of cuBLASLt's in the same "
            "run\n",
            run.blas_version, rival_name, rival_name);
    }
    fmt::print("\n{}", gpu_table(shapes, run.settings).header());
}

void print_failure(const GpuResult& result) {
    fmt::print(stderr, "tilewright: bench: [{}] with {}: wrong result, not timed: {}\n",
               fmt::join(shape_key(result.shape), ", "), name(result.tile), result.failure);
}

}  // namespace

void append_text(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::app | std::ios::binary);
    file << text;
    file.close();
    if (!file) throw std::runtime_error(path + ": cannot be written");
}

bool run_on_gpu(GpuBench& bench, const std::vector<BenchShape>& shapes, const GpuRun& run,
                const std::string& json_path) {
    const bool json_only = json_path == "-";
    if (!json_only) print_head(run, shapes);
    const Table table = gpu_table(shapes, run.settings);
    Progress progress("timing", shapes.size());
    std::vector<GpuResult> results;
    std::string note;
    bool right = true;
    for (const BenchShape& shape : shapes) {
        progress.advance(0, fmt::format("[{}]", fmt::join(shape_key(shape), ", ")));
        const GpuResult result = bench.run(shape, run.settings);
        progress.clear();
        if (!json_only) fmt::print("{}", gpu_line(table, result, run));
        std::string lines;
        for (const auto& line : gpu_json(result, run)) lines += line.dump() + "\n";
        if (json_only) fmt::print("{}", lines);
        if (!json_only && !json_path.empty()) append_text(json_path, lines);
        std::fflush(stdout);
        if (!result.failure.empty()) {
            right = false;
            print_failure(result);
        }
        if (!result.note.empty()) note = result.note;
        results.push_back(result);
        progress.advance(1);
    }
    if (!json_only) fmt::print("\n{}", gpu_summary(results, run));
    if (!note.empty()) fmt::print(stderr, "tilewright: bench: no peer: {}\n", note);
    return right;
}

}  // namespace tilewright::cli
