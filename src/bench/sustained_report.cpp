#include "bench/sustained_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace tilewright::bench {
namespace {

void add_columns(std::vector<output::Column>& columns, const std::string& who) {
    columns.push_back({.title = who + "us", .right = true, .width = 8});
    columns.push_back({.title = "GHz", .right = true, .width = 4});
    columns.push_back({.title = "TFLOP/s", .right = true, .width = 7});
    columns.push_back({.title = "W", .right = true, .width = 5});
    columns.push_back({.title = "pJ/FLOP", .right = true, .width = 7});
}

/// Empty cells for a baseline that was not timed, and for watts that were not measured.
void add_cells(std::vector<std::string>& cells, const Timing* timing, double flops) {
    if (timing == nullptr) {
        cells.insert(cells.end(), 5, "");
        return;
    }
    const bool measured = timing->watts > 0;
    cells.push_back(fmt::format("{:.2f}", timing->seconds * 1e6));
    cells.push_back(fmt::format("{:.2f}", timing->hertz * 1e-9));
    cells.push_back(fmt::format("{:.0f}", flops / timing->seconds * 1e-12));
    cells.push_back(measured ? fmt::format("{:.0f}", timing->watts) : "");
    cells.push_back(measured ? fmt::format("{:.3f}", timing->picojoules(flops)) : "");
}

}  // namespace

output::Table sustained_table(const std::vector<BenchShape>& shapes, const Run& run) {
    std::size_t width = 0;
    for (const BenchShape& shape : shapes) width = std::max(width, shape_text(shape).size());
    std::vector<output::Column> columns{{.title = "shape", .width = width}, {.title = "tile", .width = 34}};
    add_columns(columns, "");
    if (run.settings.peers) add_columns(columns, "cuBLASLt ");
    return output::Table(std::move(columns));
}

std::string sustained_line(const output::Table& table, const Result& result, const Run& run) {
    std::vector<std::string> cells{shape_text(result.shape), result.tile ? name(*result.tile) : ""};
    if (!result.failure.empty()) {
        cells.emplace_back("WRONG");
        return table.line(cells);
    }
    add_cells(cells, &result.ours(), result.work.flops);
    if (run.settings.peers) add_cells(cells, result.of(Peer::blas_tensor), result.work.flops);
    return table.line(cells);
}

}  // namespace tilewright::bench
