#include "cpu/exact/exact.h"

#include "base/threads.h"
#include "cpu/exact/decode.h"
#include "cpu/exact/kernels.h"
#include "cpu/exact/output.h"
#include "problem/canonical_order.h"

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace tilewright::cpu {
namespace {

/// Multiply-adds below which a second thread costs more time than it saves.
constexpr std::int64_t products_for_threads = 1 << 20;

/// Outputs of one tile: large enough that decoding costs little compared with multiplying, small enough for a core's
/// L2.
constexpr std::int64_t tile_rows = 128;
constexpr std::int64_t tile_columns = 128;

struct Call {
    const Geometry& geometry;
    const ExactKernels& kernels;
    std::span<const std::int64_t> k_splits;
    CanonicalOrder order;
    TileLayout a_layout;
    TileLayout b_layout;
    bool exact_products;  // no product of a step is ever cut
    Cancellation& cancellation;
};

/// One thread's memory: decoded operands, and a tile of accumulators in panels of columns ([panels, rows, panel]).
struct Workspace {
    DecodedTile a;
    DecodedTile b;
    std::vector<float> chain;  // the tensor core's
    std::vector<float> slice;  // the sum of chains
    std::vector<float> total;  // the sum of slices
    std::vector<float> a_scales;
    std::vector<float> b_scales;

    explicit Workspace(const Call& call) {
        a.resize(call.a_layout, tile_rows);
        b.resize(call.b_layout, tile_columns);
        for (std::vector<float>* sums : {&chain, &slice, &total}) sums->resize(tile_rows * tile_columns);
        a_scales.resize(tile_rows);
        b_scales.resize(tile_columns);
    }
};

/// Computes one tile of D.
class Tile {
public:
    Tile(const Call& call, const TilePlace& place, Workspace& work)
        : call_(call),
          place_(place),
          work_(work),
          panels_((place.columns + call.b_layout.panel - 1) / call.b_layout.panel),
          sums_(panels_ * call.b_layout.panel * place.rows) {}

    void compute() {
        const std::int64_t k = place_.gemm.k_count;
        std::int64_t begin = 0;
        for (const std::int64_t cut : call_.k_splits) {
            if (cut <= begin || cut >= k) continue;
            add_slice(begin, cut);
            begin = cut;
        }
        add_slice(begin, k);
        if (call_.cancellation.requested()) return;
        const bool at_end = call_.order.has(ScaleUse::end);
        if (at_end) load_scales(0, ScaleUse::end);
        write_outputs({.geometry = call_.geometry,
                       .place = place_,
                       .sums = work_.total.data(),
                       .panel = call_.b_layout.panel,
                       .a_scales = at_end ? work_.a_scales.data() : nullptr,
                       .b_scales = work_.b_scales.data()});
    }

private:
    void add_slice(std::int64_t begin, std::int64_t end) {
        std::fill_n(work_.chain.data(), sums_, 0.0F);
        std::fill_n(work_.slice.data(), sums_, 0.0F);
        general_ = false;
        for (std::int64_t k = begin; k < end && !call_.cancellation.requested(); k += tile_k) {
            multiply(k, std::min<std::int64_t>(tile_k, end - k), end);
        }
        if (begin == 0) {
            std::copy_n(work_.slice.data(), sums_, work_.total.data());
        } else {
            for (std::int64_t i = 0; i < sums_; ++i) work_.total[i] += work_.slice[i];
        }
    }

    OperandRange a_range(std::int64_t k, std::int64_t k_count) const {
        const GroupGemm& gemm = place_.gemm;
        return {.operand = call_.geometry.a,
                .group = gemm.group,
                .row_begin = gemm.row_begin + place_.row,
                .rows = place_.rows,
                .origin = gemm.a,
                .k = k,
                .k_count = k_count};
    }
    OperandRange b_range(std::int64_t k, std::int64_t k_count) const {
        const GroupGemm& gemm = place_.gemm;
        return {.operand = call_.geometry.b,
                .group = gemm.group,
                .row_begin = place_.column,
                .rows = place_.columns,
                .origin = gemm.b,
                .k = k,
                .k_count = k_count};
    }

    /// All chains and parts of chains in k .. k + count, at most tile_k.
    void multiply(std::int64_t k, std::int64_t count, std::int64_t slice_end) {
        decode_tile(a_range(k, count), call_.a_layout, work_.a);
        decode_tile(b_range(k, count), call_.b_layout, work_.b);
        // Infinities and wide exponents stay in the accumulator until its chain ends.
        const bool continues = call_.order.chain == 0 && general_;
        general_ = continues || work_.a.general || work_.b.general;

        const int products = step_products(call_.order.step);
        const std::int64_t chain = call_.order.chain == 0 ? slice_end : call_.order.chain;
        for (std::int64_t at = 0; at < count; at += chain) {
            const std::int64_t end = std::min(count, at + chain);
            for (std::int64_t panel = 0; panel < panels_; ++panel) {
                for (std::int64_t step = at; step < end; step += products) add_step(panel, step);
            }
            const bool ends = call_.order.chain != 0 || k + end == slice_end;
            if (ends) end_chain(k + at);
        }
    }

    void add_step(std::int64_t panel, std::int64_t k) {
        const TileLayout& layout = call_.b_layout;
        const std::int64_t line = panel * tile_k + k;
        const StepArguments arguments{.a = work_.a.values.data() + k,
                                      .a_codes = work_.a.codes.data() + k,
                                      .b = work_.b.values.data() + line * layout.panel,
                                      .b_codes = work_.b.codes.data() + line * layout.lanes,
                                      .c = work_.chain.data() + panel * place_.rows * layout.panel,
                                      .a_stride = tile_k,
                                      .rows = place_.rows};
        if (call_.order.step == StepKind::bf16)
            return (general_ ? call_.kernels.bf16_general : call_.kernels.bf16)(arguments);
        if (general_) return call_.kernels.fp8_general(arguments);
        (call_.exact_products ? call_.kernels.fp8_exact : call_.kernels.fp8)(arguments);
    }

    /// The chain that began at k of the GEMM joins the slice's sum.
    void end_chain(std::int64_t k) {
        const int panel = call_.b_layout.panel;
        const bool scaled = call_.order.has(ScaleUse::chains);
        if (scaled) load_scales(k, ScaleUse::chains);
        for (std::int64_t i = 0; i < panels_; ++i) {
            call_.kernels.combine({.c = work_.chain.data() + i * place_.rows * panel,
                                   .sum = work_.slice.data() + i * place_.rows * panel,
                                   .a_scales = scaled ? work_.a_scales.data() : nullptr,
                                   .b_scales = work_.b_scales.data() + i * panel,
                                   .rows = place_.rows,
                                   .panel = panel});
        }
    }

    /// The scales of this use of the blocks at k of the GEMM; 1 where a side has none.
    void load_scales(std::int64_t k, ScaleUse use) {
        std::ranges::fill(work_.a_scales, 1.0F);
        std::ranges::fill(work_.b_scales, 1.0F);
        if (place_.gemm.k_count == 0) return;
        if (call_.order.a == use) cpu::load_scales(a_range(k, 0), work_.a_scales.data());
        if (call_.order.b == use) cpu::load_scales(b_range(k, 0), work_.b_scales.data());
    }

    const Call& call_;
    const TilePlace& place_;
    Workspace& work_;
    std::int64_t panels_;
    std::int64_t sums_;  // accumulators, columns beyond n included
    bool general_ = false;
};

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

Call call_of(const Geometry& g, const ExactOptions& options, Cancellation& cancellation) {
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
    const Call call = call_of(g, options, cancellation);
    const std::vector<GroupGemm> list = group_gemms(g);
    const std::vector<TilePlace> tiles = tiles_of(list, g.n);
    const auto count = static_cast<std::int64_t>(tiles.size());
    const int threads = threads_for(list, g.n, count, options.threads);
    std::vector<Workspace> workspaces(static_cast<std::size_t>(threads), Workspace(call));
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
    for (std::int64_t i = 0; i < count; ++i) {
        Tile(call, tiles[i], workspaces[static_cast<std::size_t>(omp_get_thread_num())]).compute();
    }
    cancellation.check();
}

}  // namespace tilewright::cpu
