// The mainloop of scales that change with each step of 32 k-elements, which is one wgmma of fp8 or two of bf16. It has
// two partial accumulators, so that the tensor core multiplies the next step while this step is promoted. Weights with
// wide rows take each k-block window by window (windows.h), and the four steps of a window one after the other. A
// warpgroup has 64 rows of mma A that are packed weights, decoded step by step, or 128 rows in shared memory. Its
// columns form one subtile or several.
#pragma once

#include "hopper/multiply/feed.h"
#include "hopper/multiply/feed_bf16.h"
#include "hopper/multiply/feed_packed.h"
#include "hopper/multiply/windows.h"

namespace tilewright::hopper {

/// Scales for decoding the values of one window; other values become 0.
struct WindowScales {
    TILEWRIGHT_DEVICE DecodedWord decode(u32 word, int row, int step) const {
        const u32 mask = top_bit_mask(steps_in_window(scales.rows[row], window), step);
        return decode_word(word, without_windows(scales).of_step(row, step), mask);
    }

    const CodeScales& scales;
    int window;
};

/// The feed of the loop. Packed weights: the values of a k-block, and the fragments of two of its steps.
template <Design design, FeedKind kind = design.feed>
struct StepFeed {
    static constexpr bool windowed = design.feed == FeedKind::windowed;

    /// Loads the values of the stage `c.ring`.
    TILEWRIGHT_DEVICE void begin_k_block(const Consumer<design>& c) {
        rows = staged_weights(c, 0);
        if constexpr (windowed) last_window_ = last_window(window_count(rows));
        window = 0;
        codes_ = staged_codes(c, rows);
        scales_ = CodeScales::load(c, rows);
    }

    /// False ahead of the first k-block.
    TILEWRIGHT_DEVICE bool has_further_window() const { return windowed && window < last_window_; }
    TILEWRIGHT_DEVICE void begin_window() { ++window; }

    /// Issues the products of one subtile and step. The subtiles of a step share its fragment.
    template <int step>
    TILEWRIGHT_DEVICE void issue(Consumer<design>& c, Partial<design>& partial, int subtile) {
        if (subtile == 0) decode(step);
        pin(partial);
        wgmma_fence();
        const MatrixDescriptor b = mma_b_rows(c, subtile) + step * (wgmma_k_bytes / descriptor_bytes);
        wgmma<design.wgmma_n, design.mma_a.side.values, design.mma_b.side.values>(partial, fragments_[step % 2], b,
                                                                                  false);
        wgmma_commit();
    }

    /// A step has been multiplied. Its fragment must keep its value up to this call.
    TILEWRIGHT_DEVICE void complete(int step) { pin(fragments_[step % 2]); }

    StagedWeights rows;
    int window = 0;

private:
    TILEWRIGHT_DEVICE void decode(int step) {
        if constexpr (windowed) {
            decode_step(fragments_[step % 2], codes_, WindowScales{scales_, window}, step);
        } else {
            decode_step(fragments_[step % 2], codes_, scales_, step);
        }
    }

    int last_window_ = 0;
    StagedCodes<false> codes_;
    CodeScales scales_;
    u32 fragments_[2][fragment_words];
};

/// Both operands from shared memory.
template <Design design>
struct StepFeed<design, FeedKind::shared> {
    TILEWRIGHT_DEVICE void begin_k_block(const Consumer<design>& /*consumer*/) {}
    TILEWRIGHT_DEVICE bool has_further_window() const { return false; }
    TILEWRIGHT_DEVICE void begin_window() {}

    template <int step>
    TILEWRIGHT_DEVICE void issue(Consumer<design>& c, Partial<design>& partial, int subtile) {
        constexpr int wgmmas = design.order.step == StepKind::bf16 ? 2 : 1, begin = step * wgmmas;
        const MatrixDescriptor a = mma_a_rows(c, subtile);
        pin(partial);
        wgmma_fence();
        const MatrixDescriptor b = mma_b_rows(c, subtile);
#pragma unroll
        for (int i = 0; i < wgmmas; ++i) {
            const int at = (begin + i) * (wgmma_k_bytes / descriptor_bytes);
            wgmma<design.wgmma_n, design.mma_a.side.values, design.mma_b.side.values>(partial, a + at, b + at, i > 0);
        }
        wgmma_commit();
    }

    TILEWRIGHT_DEVICE void complete(int /*step*/) {}
};

/// Weights that are packed for bf16: the values of a box of k, and the fragments of its two steps.
template <Design design>
struct StepFeed<design, FeedKind::decoded_to_bf16> {
    TILEWRIGHT_DEVICE void begin_k_block(const Consumer<design>& /*consumer*/) {}
    TILEWRIGHT_DEVICE bool has_further_window() const { return false; }
    TILEWRIGHT_DEVICE void begin_window() {}

    template <int step>
    TILEWRIGHT_DEVICE void issue(Consumer<design>& c, Partial<design>& partial, int subtile) {
        constexpr int box = step / steps, in_box = step % steps, wgmmas = 2;
        if (subtile == 0) decode(c, box, in_box);
        pin(partial);
        wgmma_fence();
        const auto b = fragments_mma_b(c, subtile, box);
#pragma unroll
        for (int i = 0; i < wgmmas; ++i) {
            const int at = (in_box * wgmmas + i) * (wgmma_k_bytes / descriptor_bytes);
            wgmma<design.wgmma_n, ValueFormat::bf16, ValueFormat::bf16>(partial, fragments_[in_box][i], b + at, i > 0);
        }
        wgmma_commit();
    }

    TILEWRIGHT_DEVICE void complete(int step) {
        pin(fragments_[step % steps][0]);
        pin(fragments_[step % steps][1]);
    }

private:
    static constexpr int steps = design.stage_k / step_k / design.k_boxes;

    TILEWRIGHT_DEVICE void decode(const Consumer<design>& c, int box, int in_box) {
        using Scales = TileScales<design.b.scale_k>;
        if (in_box == 0) {
            const u8* const from = staged_bf16_tile(c, 0);
            codes_ = codes_of_box(c, from, box);
            words_ = Scales::words(from + packed_code_bytes, pair_of_rows(c), box);
        }
        decode_step_to_bf16(fragments_[in_box], codes_, Bf16Scales<design.b.scale_k>(words_, box), in_box);
    }

    WordQuad codes_;
    ScaleWords words_;
    u32 fragments_[steps][2][fragment_words];
};

/// The factors that promote sums. The sums of wide rows are also promoted by the factors of a window, once the window
/// is known.
template <Design design, bool deferring, bool windowed = design.feed == FeedKind::windowed>
struct StepPromotion {
    TILEWRIGHT_DEVICE explicit StepPromotion(const Consumer<design>& /*consumer*/) {}

    TILEWRIGHT_DEVICE void take(const Consumer<design>& /*consumer*/, const StepFeed<design>& /*feed*/) {}

    TILEWRIGHT_DEVICE void operator()(const Consumer<design>& /*consumer*/, float (&sums)[design.wgmma_n / 2],
                                      const Partial<design>& partial, const PromotionScales<design>& scales,
                                      int subtile) const {
        promote<design>(sums, partial, scales, subtile, {});
    }
};

template <Design design, bool deferring>
struct StepPromotion<design, deferring, true> {
    /// Waits for the epilogue scales.
    TILEWRIGHT_DEVICE explicit StepPromotion(Consumer<design>& c) {
        wait_epilogue_scales<design>(c);
        const WideRows<design> wide(c);
        any_wide_ = wide.in_warp(0);
        wide_rows_ = wide.of_lane[0];
    }

    /// Takes the feed's window while its stage is still in the ring.
    TILEWRIGHT_DEVICE void take(const Consumer<design>& c, const StepFeed<design>& feed) {
        counts_ = any_wide_ || feed.window == 0;
        if (any_wide_) exponents_ = window_exponents(c, feed.rows, feed.window);
    }

    TILEWRIGHT_DEVICE void operator()(const Consumer<design>& c, float (&sums)[design.wgmma_n / 2],
                                      const Partial<design>& partial, const PromotionScales<design>& scales,
                                      int subtile) const {
        if (!any_wide_ && !counts_) return sync_warp();
        if constexpr (deferring) {
            const auto scale = [&](int i) { return scales.column[i]; };
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                const WindowFactors factors = any_wide_ ? exponents_.of_row(row) : WindowFactors{true, 1, 1};
                promote_deferring<design>(c, sums, partial, factors, scale, subtile, row, (wide_rows_ >> row & 1) != 0);
            }
        } else if (any_wide_) {
            const TokenScales<design> tokens(c, scales, subtile);
#pragma unroll
            for (int row = 0; row < 2; ++row)
                promote_window<design>(sums, partial, exponents_.of_row(row), tokens, row);
        } else {
            promote<design>(sums, partial, scales, subtile, {});
        }
        sync_warp();
    }

private:
    bool any_wide_;       // of the warp's rows
    u32 wide_rows_;       // of the lane's
    bool counts_ = true;  // rows that are not wide have only the first window
    WindowExponents exponents_{};
};

/// All k-blocks of a tile. The last step of a k-block (or of one of its windows) is promoted after the next k-block's
/// first step has been issued. It has been waited for earlier, because ptxas serialises all wgmmas if one is in flight
/// at the end of a loop. `deferring`: rows leave powers of two to the epilogue (deferred.h).
template <Design design, bool deferring>
class StepwiseLoop {
public:
    TILEWRIGHT_DEVICE StepwiseLoop(Consumer<design>& c, Accumulators<design>& accumulators)
        : c_(c), accumulators_(accumulators), promotion_(c) {}

    TILEWRIGHT_DEVICE void run() {
        begin_with_nothing();
#pragma unroll 1
        for (int left = c_.k_blocks; left > 0;) {
            if (feed_.has_further_window()) {
                feed_.begin_window();
            } else {
                c_.wait_full();
                feed_.begin_k_block(c_);
            }
            issue<0>();
            read_and_promote<0, 1>();
            promotion_.take(c_, feed_);
            finish_from<1>();
            if (feed_.has_further_window()) continue;
            sync_warp();  // all lanes have read their scales
            c_.release(c_.ring.stage);
            c_.advance();
            --left;
        }
        promote_wgmma<last>(scales_);
    }

private:
    /// The products of a subtile and step, one commit group each, are numbered in their order in a k-block. The order
    /// is step by step, with all subtiles of a step. The two subtiles of 128 rows that have the same columns follow
    /// each other.
    static constexpr int last = design.stage_k / step_k * design.subtiles - 1;
    static constexpr int step_of(int i) { return i / design.subtiles; }
    static constexpr int subtile_of(int i) {
        constexpr int halves = design.subtiles / design.wgmmas_along_n;
        return i % halves * design.wgmmas_along_n + i % design.subtiles / halves;
    }

    /// Whether the scales of a product's columns are read while the preceding product is promoted: if there are
    /// registers for the scales of both. Windows leave none.
    static constexpr bool reads_scales_ahead() {
        constexpr int others = design.mma_b.scales_of_row > 0 ? design.wgmma_n / 4 : 0;
        return design.feed != FeedKind::windowed && design.mma_registers + others <= design.mma_register_budget;
    }

    /// At first there is nothing to promote, so it promotes zeros.
    TILEWRIGHT_DEVICE void begin_with_nothing() {
#pragma unroll
        for (float& sum : partials_[last % 2]) sum = 0;
#pragma unroll
        for (float& scale : scales_.column) scale = 0;
#pragma unroll
        for (auto& scale : scales_.row) scale[0] = 0;
    }

    template <int i>
    TILEWRIGHT_DEVICE void issue() {
        feed_.template issue<step_of(i)>(c_, partials_[i % 2], subtile_of(i));
    }

    /// Issues the i-th product and promotes the one that precedes it, and so on.
    template <int i>
    TILEWRIGHT_DEVICE void finish_from() {
        if constexpr (i <= last) {
            issue<i>();
            read_and_promote<i, i == last ? 0 : 1>();
            finish_from<i + 1>();
        }
    }

    /// Reads the i-th product's scales and promotes the preceding product at the same time, or first if there are too
    /// few registers. At most `pending` wgmmas then stay in flight.
    template <int i, int pending>
    TILEWRIGHT_DEVICE void read_and_promote() {
        const PromotionScales<design> before = scales_;
        if (reads_scales_ahead()) read_scales<i>();
        wgmma_wait<pending>();
        promote_wgmma<i == 0 ? last : i - 1>(before);
        if (!reads_scales_ahead()) read_scales<i>();
    }
    template <int i>
    TILEWRIGHT_DEVICE void read_scales() {
        scales_.template read_step<deferring>(c_, c_.ring.stage, step_of(i), subtile_of(i));
    }

    /// Promotes the i-th product, which is complete.
    template <int i>
    TILEWRIGHT_DEVICE void promote_wgmma(const PromotionScales<design>& scales) {
        constexpr int subtile = subtile_of(i);
        pin(partials_[i % 2]);
        if (subtile == design.subtiles - 1) feed_.complete(step_of(i));
        promotion_(c_, accumulators_[subtile], partials_[i % 2], scales, subtile);
    }

    Consumer<design>& c_;
    Accumulators<design>& accumulators_;
    StepFeed<design> feed_;
    StepPromotion<design, deferring> promotion_;
    PromotionScales<design> scales_;
    Partial<design> partials_[2];
};

/// All k-blocks of a tile.
template <Design design, bool deferring = false>
TILEWRIGHT_DEVICE void multiply_stepwise(Consumer<design>& c, Accumulators<design>& accumulators) {
    clear<design>(accumulators);
    if (c.k_blocks > 0) StepwiseLoop<design, deferring>(c, accumulators).run();
    sync_warp();
}

}  // namespace tilewright::hopper
