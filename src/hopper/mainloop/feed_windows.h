// The operand feed of packed MXFP4 weights with wide rows: as that of the others, but for the codes of one window of
// exponents at a time; all other codes are 0 then. src/formats/packed_layout.h has the order of codes, scales and
// windows.
#pragma once

#include "hopper/mainloop/feed_packed.h"

namespace tilewright::hopper {

/// What multiplies the sums of a row in a window: acc = fma(p * of_sum, scale of the other side * of_scale, acc).
struct WindowFactors {
    bool given;  // else the row takes no part, whatever the other side's scale is
    float of_sum;
    float of_scale;
};

/// 2^exponent, a normal number.
TILEWRIGHT_DEVICE float normal_power(int exponent) { return __builtin_bit_cast(float, u32(exponent + 127) << 23); }

/// `exponent`: the largest of the window. Half of the factor on either side keeps both in fp32.
TILEWRIGHT_DEVICE WindowFactors window_factors(int exponent) {
    constexpr int top = 6, none = -128;  // fp8_top_exponent, no_window
    const int power = exponent - top, half = power >> 1;
    return {exponent != none, normal_power(half), normal_power(power - half)};
}

/// The 64 rows of weights of a subtile, at the stage `c.ring`, as a lane sees them.
template <Tile tile>
struct PackedRows : StagedWeights {
    PackedRows() = default;
    TILEWRIGHT_DEVICE PackedRows(const Consumer<tile>& c, int subtile)
        : StagedWeights(staged_weights<tile>(c, subtile)) {
        const WordQuad head = load_shared(*reinterpret_cast<const WordQuad*>(scales + head_at));
        // Tiles behind the last of B are not loaded: anything may be there.
        windows = min(u32(same_in_warp(int(head.values[0]))), u32(most_windows));
        any_wide = ((head.values[2] | head.values[3]) >> c.warp * (warp_rows / 2) & 0xFF) != 0;
        pair = c.warp * (warp_rows / 2) + c.lane / 4;
        wide = (head.values[2] >> pair & 1) | (head.values[3] >> pair & 1) << 1;
        first = exponents_of(0);
    }

    /// The factors of the lane's two rows. Those of the first window are known without the stage.
    TILEWRIGHT_DEVICE void read_factors(WindowFactors (&rows)[2], u32 window) const {
        const int word = window == 0 ? first : exponents_of(window);
        rows[0] = window_factors(int(u32(word) << 24) >> 24);
        rows[1] = window_factors(int(u32(word) << 16) >> 24);
    }

    u32 windows;    // the same in all warps of a warpgroup; at least 1, but for rows that do not exist
    bool any_wide;  // of the warp's rows; else they have one window, and no factor but 1
    int pair;
    u32 wide;  // bits 0, 1: the lane's first and second row

private:
    static constexpr int head_at = packed_tile_rows * packed_scales(tile.b.storage);

    /// Two pairs of rows share a word.
    TILEWRIGHT_DEVICE int exponents_of(u32 window) const {
        const u8* const exponents = scales + head_at + sizeof(WordQuad) + window * packed_window_bytes;
        return load_shared(reinterpret_cast<const int*>(exponents)[pair / 2]) >> pair % 2 * 16;
    }

    int first;  // exponents of the first window
};

template <Tile tile>
struct Feed<tile, FeedKind::windowed> : DecodedFragments<tile> {
    TILEWRIGHT_DEVICE explicit Feed(const Consumer<tile>& /*consumer*/) {}

    /// The first window. Further ones leave other codes behind, so that the next subtile of these rows decodes again.
    TILEWRIGHT_DEVICE void issue(Consumer<tile>& c, float (&d)[subtile_registers<tile>], int subtile, bool accumulate) {
        const bool new_rows = subtile % subtiles_along_n<tile> == 0;
        if (new_rows) rows = {c, subtile};
        if (new_rows || rows.windows > 1) load_window(c, subtile, 0);
        Fragments<tile>::issue(c, d, subtile, accumulate);
    }

    /// One of the others: zeros in warps that have no wide row.
    TILEWRIGHT_DEVICE void issue_further(Consumer<tile>& c, float (&d)[subtile_registers<tile>], int subtile,
                                         u32 window) {
        if (rows.any_wide) {
            load_window(c, subtile, window);
        } else {
            clear(subtile);
        }
        Fragments<tile>::issue(c, d, subtile, false);
    }

    PackedRows<tile> rows;

private:
    /// Decodes the codes of one window.
    TILEWRIGHT_DEVICE void load_window(const Consumer<tile>& c, int subtile, u32 window) {
        this->load(c, rows, subtile, [window](const auto& word, u32 byte) {
            return decode_word(only_if(byte >> 4 == window, word), byte & 15);
        });
    }

    TILEWRIGHT_DEVICE void clear(int subtile) {
#pragma unroll
        for (int i = 0; i < wgmma_steps * fragment_words; ++i) {
            this->words[Fragments<tile>::held(subtile)][i / fragment_words][i % fragment_words] = 0;
        }
    }
};

}  // namespace tilewright::hopper
