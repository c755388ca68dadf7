// The mainloop of scales that change with each wgmma, every 32 of k: two partial accumulators, so that the tensor core
// multiplies the next step while this one is promoted. Weights with wide rows take each k-block window by window
// (windows.h), the four steps of a window one after the other. A warpgroup has 64 rows of mma A, of packed weights
// decoded step by step, or 128 of an operand in shared memory, and its columns in one subtile or several.
#pragma once

#include "hopper/mainloop/feed.h"
#include "hopper/mainloop/windows.h"

namespace tilewright::hopper {

/// What a loop asks of its feed. Packed weights: the codes of a k-block, and the fragments of two of its steps.
template <Tile tile, FeedKind kind = feed_of(tile)>
struct StepFeed {
    static constexpr bool windowed = has_windows(tile);

    /// Those of the stage `c.ring`.
    TILEWRIGHT_DEVICE void begin_k_block(const Consumer<tile>& c) {
        const u8* from = c.shared.mma_a_values[c.ring.stage];
        if constexpr (windowed) {
            rows = {c, 0};
            windows_ = rows.windows;
            from = rows.codes;
        } else {
            from += c.first_row() / packed_tile_rows * packed_tile_bytes(tile.b.storage);
        }
        window = 0;
        const WordQuad* const codes = reinterpret_cast<const WordQuad*>(from) + c.warp * (2 * warp_threads) + c.lane;
        halves_[0] = load_shared(codes[0]);
        halves_[1] = load_shared(codes[warp_threads]);
        const WordPair* const pairs = reinterpret_cast<const WordPair*>(from + packed_code_bytes);
        scales_ = load_shared(pairs[c.warp * (warp_rows / 2) + c.lane / 4]);
    }

    /// Before the first k-block there is none.
    TILEWRIGHT_DEVICE bool has_further_window() const { return windowed && window + 1 < windows_; }
    TILEWRIGHT_DEVICE void begin_window() { ++window; }

    /// Issues the products of one subtile and step. The subtiles of a step share its fragment.
    template <int step>
    TILEWRIGHT_DEVICE void issue(Consumer<tile>& c, Partial<tile>& partial, int subtile) {
        if (subtile == 0) decode(step);
        pin(partial);
        wgmma_fence();
        const MatrixDescriptor b = mma_b_rows(c, subtile) + step * (wgmma_k_bytes / descriptor_bytes);
        wgmma<wgmma_n(tile), mma_a(tile).multiplied_as(), mma_b(tile).multiplied_as()>(partial, fragments_[step % 2], b,
                                                                                       false);
        wgmma_commit();
    }

    /// A step has been multiplied: up to here its fragment lasts.
    TILEWRIGHT_DEVICE void complete(int step) { pin(fragments_[step % 2]); }

    PackedRows<tile> rows;
    u32 window = 0;

private:
    TILEWRIGHT_DEVICE void decode(int step) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {  // the lane's row, and the one eight further
            const u32 byte = multiply_bytes(scales_.values[i], 1U << step * 8);
            u32 word = halves_[step / 2].values[step % 2 * 2 + i];
            if constexpr (windowed) word = byte >> 4 == window ? word : 0;
            const DecodedWord decoded = decode_word(word, windowed ? byte & 15 : byte);
            fragments_[step % 2][i] = decoded.values[0];
            fragments_[step % 2][2 + i] = decoded.values[1];
        }
    }

    u32 windows_ = 0;
    WordQuad halves_[2];
    WordPair scales_;
    u32 fragments_[2][fragment_words];
};

/// Both operands from shared memory.
template <Tile tile>
struct StepFeed<tile, FeedKind::shared> {
    TILEWRIGHT_DEVICE void begin_k_block(const Consumer<tile>& /*consumer*/) {}
    TILEWRIGHT_DEVICE bool has_further_window() const { return false; }
    TILEWRIGHT_DEVICE void begin_window() {}

    template <int step>
    TILEWRIGHT_DEVICE void issue(Consumer<tile>& c, Partial<tile>& partial, int subtile) {
        constexpr int begin = step * (wgmma_k_bytes / descriptor_bytes);
        const int rows = subtile / subtiles_along_n<tile> * wgmma_m;
        const MatrixDescriptor a =
            c.mma_a_descriptor + (c.ring.stage * tile.shape.m + rows) * (row_bytes / descriptor_bytes);
        pin(partial);
        wgmma_fence();
        wgmma<wgmma_n(tile), mma_a(tile).multiplied_as(), mma_b(tile).multiplied_as()>(
            partial, a + begin, mma_b_rows(c, subtile) + begin, false);
        wgmma_commit();
    }

    TILEWRIGHT_DEVICE void complete(int /*step*/) {}
};

/// By what sums of a window are promoted, once it is known which window that is.
template <Tile tile>
struct StepPromotion {
    /// The feed's window, while its stage is there.
    TILEWRIGHT_DEVICE void take(const StepFeed<tile>& feed) {
        if constexpr (has_windows(tile)) {
            any_wide_ = feed.rows.any_wide;
            counts_ = any_wide_ || feed.window == 0;
            if (any_wide_) feed.rows.read_factors(factors_, feed.window);
        }
    }

    TILEWRIGHT_DEVICE void operator()(const Consumer<tile>& c, float (&accumulator)[subtile_registers<tile>],
                                      const Partial<tile>& partial, const PromotionScales<tile>& scales,
                                      int subtile) const {
        if constexpr (has_windows(tile)) {
            if (any_wide_) {
                promote_window<tile>(c, accumulator, factors_, 0, partial, scales, subtile);
            } else if (counts_) {
                promote<tile>(accumulator, partial, scales, subtile, {});
            }
            sync_warp();
        } else {
            promote<tile>(accumulator, partial, scales, subtile, {});
        }
    }

private:
    bool any_wide_ = false;  // of the warp's rows
    bool counts_ = true;     // rows that are not wide have the first window alone
    WindowFactors factors_[2];
};

/// All k-blocks of a tile. The last step of a k-block (or of one of its windows) is promoted when the next one's first
/// has been issued, but has been waited for: where a wgmma is under way at the end of a loop, ptxas serialises all.
template <Tile tile>
class StepwiseLoop {
public:
    TILEWRIGHT_DEVICE StepwiseLoop(Consumer<tile>& c, Accumulators<tile>& accumulators)
        : c_(c), accumulators_(accumulators) {}

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
            promotion_.take(feed_);
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
    /// The wgmmas of a k-block are numbered in their order: of each step all subtiles, and of those the two that have
    /// the same columns of 128 rows one after the other.
    static constexpr int last = wgmma_steps * subtiles<tile> - 1;
    static constexpr int step_of(int i) { return i / subtiles<tile>; }
    static constexpr int subtile_of(int i) {
        constexpr int halves = subtiles<tile> / subtiles_along_n<tile>;
        return i % halves * subtiles_along_n<tile> + i % subtiles<tile> / halves;
    }

    /// The first time there is nothing to promote: zeros.
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

    /// Issues the i-th and promotes the one before, and so on.
    template <int i>
    TILEWRIGHT_DEVICE void finish_from() {
        if constexpr (i <= last) {
            issue<i>();
            read_and_promote<i, i == last ? 0 : 1>();
            finish_from<i + 1>();
        }
    }

    /// Reads the scales of the i-th and promotes the one before meanwhile, or first where there are too few registers.
    /// At most `pending` wgmmas then run on.
    template <int i, int pending>
    TILEWRIGHT_DEVICE void read_and_promote() {
        const PromotionScales<tile> before = scales_;
        if (reads_scales_ahead(tile)) scales_.read_step(c_, c_.ring.stage, step_of(i), subtile_of(i));
        wgmma_wait<pending>();
        promote_wgmma<i == 0 ? last : i - 1>(before);
        if (!reads_scales_ahead(tile)) scales_.read_step(c_, c_.ring.stage, step_of(i), subtile_of(i));
    }

    /// The i-th, which is complete.
    template <int i>
    TILEWRIGHT_DEVICE void promote_wgmma(const PromotionScales<tile>& scales) {
        constexpr int subtile = subtile_of(i);
        pin(partials_[i % 2]);
        if (subtile == subtiles<tile> - 1) feed_.complete(step_of(i));
        promotion_(c_, accumulators_[subtile], partials_[i % 2], scales, subtile);
    }

    Consumer<tile>& c_;
    Accumulators<tile>& accumulators_;
    StepFeed<tile> feed_;
    StepPromotion<tile> promotion_;
    PromotionScales<tile> scales_;
    Partial<tile> partials_[2];
};

/// All k-blocks of a tile.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_stepwise(Consumer<tile>& c, Accumulators<tile>& accumulators) {
    clear<tile>(accumulators);
    if (c.k_blocks > 0) StepwiseLoop<tile>(c, accumulators).run();
    sync_warp();
}

}  // namespace tilewright::hopper
