#include "cpu/exact/tile.h"

#include "base/math.h"
#include "cpu/exact/folded.h"
#include "formats/codec.h"

#include <algorithm>
#include <cstddef>

namespace tilewright::cpu {
namespace {

/// Computes one tile of D.
class Tile {
public:
    Tile(const ExactCall& call, const TilePlace& place, TileWorkspace& work)
        : call_(call),
          place_(place),
          work_(work),
          panels_(ceil_div<std::int64_t>(place.columns, call.b_layout.panel)),
          sums_(panels_ * call.b_layout.panel * place.rows) {}

    void compute() {
        if (call_.order.folded == Folded::none) return compute_pass();
        const bool is_a = call_.order.folded == Folded::a;
        const std::int64_t k = place_.gemm.k_count;
        folded_ = folded_rows(is_a ? a_range(0, k) : b_range(0, k), call_.order.step);
        for (const bool wide : {false, true}) {
            if (std::ranges::none_of(folded_, [=](const FoldedRow& row) { return row.wide == wide; })) continue;
            wide_ = wide;
            order_ = wide ? wide_order(call_.order) : call_.order;
            compute_pass();
        }
    }

private:
    /// One pass: all rows, or only the wide rows of the folded side, or only its other rows.
    void compute_pass() {
        const std::int64_t k = place_.gemm.k_count;
        deferred_.clear();
        if (order_.defers) find_deferred();
        std::int64_t begin = 0;
        for (const std::int64_t cut : call_.k_splits) {
            if (cut <= begin || cut >= k) continue;
            add_slice(begin, cut);
            begin = cut;
        }
        add_slice(begin, k);
        if (call_.cancellation.requested()) return;
        load_scales(0, ScaleUse::end);
        if (order_.defers) {
            if (order_.a == ScaleUse::chains) std::ranges::copy(deferred_, work_.a_scales.begin());
            if (order_.b == ScaleUse::chains) std::ranges::copy(deferred_, work_.b_scales.begin());
        }
        write_outputs({.geometry = call_.geometry,
                       .place = place_,
                       .sums = work_.total.data(),
                       .panel = call_.b_layout.panel,
                       .a_scales = work_.a_scales.data(),
                       .b_scales = work_.b_scales.data(),
                       .order = order_,
                       .folded = folded_,
                       .folded_is_a = call_.order.folded == Folded::a,
                       .wide = wide_});
    }

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

    /// All chains and parts of chains in k .. k + count, at most tile_k; wide rows in fp8 window by window.
    void multiply(std::int64_t k, std::int64_t count, std::int64_t slice_end) {
        int windows = 1;
        for (window_ = 0; window_ < windows; ++window_) {
            const FoldPass pass{.rows = folded_, .wide = wide_, .window = window_};
            decode_tile(a_range(k, count), call_.a_layout, order_.folded == Folded::a ? &pass : nullptr, work_.a);
            decode_tile(b_range(k, count), call_.b_layout, order_.folded == Folded::b ? &pass : nullptr, work_.b);
            if (has_windows()) windows = folded_tile().windows;
            multiply_decoded(k, count, slice_end);
        }
    }

    bool has_windows() const { return wide_ && order_.folded != Folded::none; }
    const DecodedTile& folded_tile() const { return order_.folded == Folded::a ? work_.a : work_.b; }

    void multiply_decoded(std::int64_t k, std::int64_t count, std::int64_t slice_end) {
        // Infinities and wide exponents stay in the accumulator until its chain ends.
        const bool continues = order_.chain == 0 && general_;
        general_ = continues || work_.a.general || work_.b.general;

        const int products = step_products(order_.step);
        const std::int64_t chain = order_.chain == 0 ? slice_end : order_.chain;
        for (std::int64_t at = 0; at < count; at += chain) {
            const std::int64_t end = std::min(count, at + chain);
            for (std::int64_t panel = 0; panel < panels_; ++panel) {
                for (std::int64_t step = at; step < end; step += products) add_step(panel, step);
            }
            const bool ends = order_.chain != 0 || k + end == slice_end;
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
        if (order_.step == StepKind::bf16)
            return (general_ ? call_.kernels.bf16_general : call_.kernels.bf16)(arguments);
        if (general_) return call_.kernels.fp8_general(arguments);
        (call_.exact_products ? call_.kernels.fp8_exact : call_.kernels.fp8)(arguments);
    }

    /// The chain that began at k of the GEMM is added to the slice's sum.
    void end_chain(std::int64_t k) {
        const int panel = call_.b_layout.panel;
        const bool scaled = order_.has(ScaleUse::chains) || has_windows();
        if (scaled) load_scales(k, ScaleUse::chains);
        if (has_windows()) apply_window_factors();
        if (window_ > 0) std::copy_n(work_.slice.data(), sums_, work_.kept.data());
        for (std::int64_t i = 0; i < panels_; ++i) {
            call_.kernels.combine({.c = work_.chain.data() + i * place_.rows * panel,
                                   .sum = work_.slice.data() + i * place_.rows * panel,
                                   .a_scales = scaled ? work_.a_scales.data() : nullptr,
                                   .b_scales = work_.b_scales.data() + i * panel,
                                   .rows = place_.rows,
                                   .panel = panel});
        }
        if (window_ > 0) restore_rows_without_window();
    }

    /// Half of each factor is applied to the chain, which is exact, and half to the scales.
    void apply_window_factors() {
        const bool is_a = order_.folded == Folded::a;
        float* const scales = is_a ? work_.a_scales.data() : work_.b_scales.data();
        const std::vector<int>& tops = folded_tile().tops;
        for (std::size_t row = 0; row < tops.size(); ++row) {
            const int top = tops[row] == no_window ? 0 : tops[row];
            scales[row] = formats::power_of_two(top - fold_top(order_.step) - window_half(top));
        }
        for (std::int64_t i = 0; i < place_.rows; ++i) {
            for (std::int64_t j = 0; j < place_.columns; ++j) {
                const int top = tops[static_cast<std::size_t>(is_a ? i : j)];
                if (top != no_window) work_.chain[sum_index(i, j)] *= formats::power_of_two(window_half(top));
            }
        }
    }

    std::size_t sum_index(std::int64_t i, std::int64_t j) const {
        const int panel = call_.b_layout.panel;
        return static_cast<std::size_t>((j / panel * place_.rows + i) * panel + j % panel);
    }

    /// Rows without this window take no part, because adding 0 times an infinite scale would change them.
    void restore_rows_without_window() {
        const bool is_a = order_.folded == Folded::a;
        for (std::int64_t i = 0; i < place_.rows; ++i) {
            for (std::int64_t j = 0; j < place_.columns; ++j) {
                if (folded_tile().tops[static_cast<std::size_t>(is_a ? i : j)] != no_window) continue;
                work_.slice[sum_index(i, j)] = work_.kept[sum_index(i, j)];
            }
        }
    }

    /// The scales of this use, for the blocks at k of the GEMM; 1 for a side without any.
    void load_scales(std::int64_t k, ScaleUse use) {
        std::ranges::fill(work_.a_scales, 1.0F);
        std::ranges::fill(work_.b_scales, 1.0F);
        if (place_.gemm.k_count == 0) return;
        if (order_.a == use) cpu::load_scales(a_range(k, 0), work_.a_scales.data());
        if (order_.b == use) cpu::load_scales(b_range(k, 0), work_.b_scales.data());
        if (use != ScaleUse::chains || !order_.defers) return;
        std::vector<float>& scales = order_.a == use ? work_.a_scales : work_.b_scales;
        for (std::size_t row = 0; row < deferred_.size(); ++row) scales[row] /= deferred_[row];
    }

    /// Per row of the side whose scales are applied to the chains: the power of two that they leave to the epilogue.
    void find_deferred() {
        const bool is_a = order_.a == ScaleUse::chains;
        const OperandRange first = is_a ? a_range(0, 0) : b_range(0, 0);
        deferred_.assign(static_cast<std::size_t>(first.rows), 1.0F);
        if (place_.gemm.k_count == 0) return;
        cpu::load_scales(first, deferred_.data());
        for (float& scale : deferred_) scale = formats::deferred_power(scale);
    }

    const ExactCall& call_;
    const TilePlace& place_;
    TileWorkspace& work_;
    std::int64_t panels_;
    std::int64_t sums_;  // accumulators, including columns beyond n
    bool general_ = false;
    CanonicalOrder order_ = call_.order;  // of the current pass
    std::vector<FoldedRow> folded_;       // the rows of the folded side
    std::vector<float> deferred_;         // per row: what scales of chains leave to the epilogue
    bool wide_ = false;
    int window_ = 0;
};

}  // namespace

void compute_tile(const ExactCall& call, const TilePlace& place, TileWorkspace& work) {
    Tile(call, place, work).compute();
}

}  // namespace tilewright::cpu
