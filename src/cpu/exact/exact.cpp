#include "cpu/exact/exact.h"

#include "base/region.h"
#include "cpu/exact/tile.h"
#include "problem/canonical_order.h"

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace tilewright::cpu {
namespace {

/// With fewer multiply-adds, a second thread costs more time than it saves.
constexpr std::int64_t products_for_threads = 1 << 20;

std::vector<TilePlace> tiles_of(const std::vector<GroupGemm>& list, std::int64_t n) {
    std::vector<TilePlace> tiles;
    for (const GroupGemm& gemm : list) {
        for (std::int64_t column = 0; column < n; column += tile_columns) {
            for (std::int64_t row = 0; row < gemm.rows; row += tile_rows) {
                tiles.push_back({.gemm = gemm,
                                 .row = row,
                                 .rows = std::min(tile_rows, gemm.rows - row),
                                 .column = column,
                                 .columns = std::min(tile_columns, n - column)});
            }
        }
    }
    return tiles;
}

int threads_for(const std::vector<GroupGemm>& list, std::int64_t n, std::int64_t tiles, int wanted) {
    double products = 0;
    for (const GroupGemm& gemm : list) {
        products += static_cast<double>(gemm.rows) * static_cast<double>(n) * static_cast<double>(gemm.k_count);
    }
    if (products < products_for_threads || tiles < 2) return 1;
    return region_threads(wanted, tiles);
}

ExactCall call_of(const Geometry& g, const ExactOptions& options, Cancellation& cancellation) {
    const Recipe recipe{g.a.recipe, g.b.recipe};
    const std::optional<CanonicalOrder> order = canonical_order(recipe, g.accumulation);
    if (!order) {
        throw std::invalid_argument("recipe " + name(recipe) +
                                    ": arithmetic `bit_exact` multiplies fp8, fp4 and bf16 operands; use `fast`");
    }
    const ExactKernels& kernels = exact_kernels(options.isa.value_or(best_isa()));
    const bool fp4 = g.a.recipe.values == Format::e2m1 && g.b.recipe.values == Format::e2m1;
    return {.geometry = g,
            .kernels = kernels,
            .k_splits = options.k_splits,
            .order = *order,
            .a_layout = rows_layout(order->step, kernels),
            .b_layout = panels_layout(order->step, kernels),
            .exact_products = fp4 && order->step == StepKind::fp8,
            .cancellation = cancellation};
}

}  // namespace

const ExactKernels& exact_kernels(Isa isa) {
#if defined(__x86_64__)
    if (isa == Isa::avx512) return avx512::exact_kernels();
    if (isa == Isa::avx2) return avx2::exact_kernels();
#endif
    static_cast<void>(isa);
    return baseline::exact_kernels();
}

void run_exact(const Geometry& g, const ExactOptions& options) {
    Cancellation cancellation(options.cancelled);
    const ExactCall call = call_of(g, options, cancellation);
    const std::vector<GroupGemm> list = group_gemms(g);
    const std::vector<TilePlace> tiles = tiles_of(list, g.n);
    const auto count = static_cast<std::int64_t>(tiles.size());
    const int threads = threads_for(list, g.n, count, options.threads);
    std::vector<TileWorkspace> workspaces(static_cast<std::size_t>(threads), TileWorkspace(call));
    open_region(threads, cancellation, [&] {
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
        for (std::int64_t i = 0; i < count; ++i) {
            compute_tile(call, tiles[i], workspaces[static_cast<std::size_t>(omp_get_thread_num())]);
        }
    });
    cancellation.check();
}

}  // namespace tilewright::cpu
