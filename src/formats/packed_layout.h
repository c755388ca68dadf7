// The bytes of packed weights, layout version 3. Little endian; every section begins at a multiple of 128. The
// sections, in this order:
// - Header, 128 bytes: PackedHeader.
// - Tensor scales, NVFP4 only: f32 [1] or [groups].
// - Rows: PackedRow [groups, n rounded up to 64].
// - Tiles: codes and scales of 64 rows x 128 k, [groups, n / 128, k / 128, 2]. The two row tiles of 128 rows are
//   adjacent, so that 128 rows x 256 k are one run of bytes. The last row tile may be single.
// - The end of each tile, only MXFP4 for fp8 where any row is wide: a PackedWindows, then the largest exponents of as
//   many windows as any tile has. They are [windows, 32, 2] int8: of rows 16 w + g and + 8 at 8 w + g.
// - Kept scales: u32 count, u32 0, then the kept rows in ascending order. Each has u64 its number and the bytes of its
//   scales, rounded up to 8. NVFP4 without kept rows has no such section.
//
// n is rounded up to 64 and k to 128 with zeros. A tile is read as wgmma's A fragments in registers:
// - Warp w of four has the rows 16 w .. 16 w + 15. Its lane 4 g + t has rows 16 w + g and + 8.
// - The lane's 16 bytes of half h (64 k-elements) are at ((2 w + h) * 32 + lane) * 16.
// - They are the words [row, step 2 h] [row + 8, 2 h] [row, 2 h + 1] [row + 8, 2 h + 1]. Each word has eight codes, a
//   step is 32 k-elements. `packed_place` has the place of each code in its word, with the reason.
// - Scales follow the codes, at (8 w + g) times the bytes of two rows. Row 16 w + g has four (MXFP4) or eight (NVFP4)
//   bytes, then row + 8.
//
// A scale byte:
// - MXFP4 for fp8: 12 + exponent - reference, 1 .. 12, the index of the table of decoded codes. Wide rows: 12 +
//   exponent - the largest of the block's window, plus 16 times the number of the window.
// - MXFP4 for bf16: 253 + exponent - reference. It is the exponent field of the bf16 factor 2^(126 + exponent -
//   reference) for codes that were decoded 2^-126 too small. Wide rows: the scale's own code.
// - NVFP4: the ue4m3 code without its top bit, which has no meaning, and 0xFF for NaN (`packed_nvfp4_scale`; any code
//   until 2026-11-24). Rows with a scale of another code are kept.
// - Blocks that do not count have 12, 253 or their own code.
#pragma once

#include "base/math.h"
#include "formats/packed_tile.h"
#include "formats/row_exponents.h"

#include <tilewright/packed.h>

#include <array>
#include <bit>
#include <cstdint>

namespace tilewright::formats {

static_assert(std::endian::native == std::endian::little, "the layout is copied from memory as it is");

inline constexpr std::int64_t packed_alignment = 128;

/// Raw codes: where the scales of 64 rows fit into a GPU's shared memory together (hopper/pack/pack_scales.h).
inline constexpr std::int64_t raw_k_limit = std::int64_t{896} * packed_k;

struct PackedHeader {
    std::array<char, 8> magic{};
    std::int32_t version = 0;
    std::uint8_t recipe = 0;       // 1: MXFP4, 2: NVFP4
    std::uint8_t activations = 0;  // 1: fp8, 2: bf16
    std::uint8_t grouped = 0;
    std::uint8_t zero = 0;
    std::int64_t groups = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    std::int64_t tensor_scales = 0;
    std::int64_t windows = 0;  // The most that a row has in 128 k-elements; 0: no row is wide, or they have no windows.
    std::int64_t kept_at = 0;  // Where the section begins whose size depends on the weights, and where all ends.
    std::int64_t bytes = 0;
    std::int64_t wide_rows = 0;  // MXFP4 for bf16: 1 + the number of the first, of all groups; 0: there is none
    std::array<std::int64_t, 5> zeros{};
};
static_assert(sizeof(PackedHeader) <= packed_header_bytes);
inline constexpr std::array<char, 8> packed_magic{'T', 'W', 'P', 'A', 'C', 'K', 'E', 'D'};

/// The factor of a row's sum at the end, and how the row's scales are stored.
struct PackedRow {
    // A wide row with windows has the number, NaN too, with a minus sign. Only kernels until 2026-12-01 read the sign.
    float end_factor = 0;
    std::int16_t reference = 0;
    std::uint8_t flags = 0;
    std::uint8_t zero = 0;
};
static_assert(sizeof(PackedRow) == 8);

/// The part that follows the scales of a tile if any row of the weights is wide. A row that is not wide has one window,
/// whose factor is 1.
struct PackedWindows {
    std::uint32_t windows = 1;  // of the row with the most windows; the tile takes this number of chains
    std::uint32_t zero = 0;
    std::array<std::uint32_t, 2> wide{};  // bit 8 w + g: the row 16 w + g is wide; the same of row + 8
};
static_assert(sizeof(PackedWindows) == windows_head_bytes);
inline constexpr std::int8_t unit_window = fp8_top_exponent;  // The exponent of a factor of 1.
inline constexpr int packed_window_shift = 4;                 // Place of a block's window in the byte of its scale.

/// Where the sections are.
struct PackedSections {
    std::int64_t groups = 1;
    std::int64_t n = 0;
    std::int64_t k = 0;
    int scale_block = 32;
    std::int64_t tensor_scales = 0;
    std::int64_t windows = 0;
    std::int64_t wide_row = -1;  // no size follows from it
    bool has_codes = true;       // false: the codes stay in place, and tiles have only the parts that follow them

    constexpr std::int64_t row_tiles() const { return ceil_div<std::int64_t>(n, packed_rows); }
    constexpr std::int64_t k_blocks() const { return ceil_div<std::int64_t>(k, packed_k); }
    constexpr std::int64_t scale_columns() const { return ceil_div<std::int64_t>(k, scale_block); }
    constexpr std::int64_t scales_of_row() const { return packed_k / scale_block; }  // in a tile
    /// Where a tile's scales and its PackedWindows are in it.
    constexpr std::int64_t scales_in_tile() const { return has_codes ? packed_code_bytes : 0; }
    constexpr std::int64_t windows_in_tile() const { return scales_in_tile() + packed_rows * scales_of_row(); }
    constexpr std::int64_t tile_bytes() const {
        return packed_tile_bytes(scale_block, static_cast<int>(windows)) - (has_codes ? 0 : packed_code_bytes);
    }

    static constexpr std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, packed_alignment); }
    static constexpr std::int64_t tensor_scales_at() { return packed_header_bytes; }
    constexpr std::int64_t rows_at() const { return tensor_scales_at() + aligned(tensor_scales * 4); }
    constexpr std::int64_t tiles_at() const {
        return rows_at() + groups * row_tiles() * packed_rows * static_cast<std::int64_t>(sizeof(PackedRow));
    }
    constexpr std::int64_t kept_at() const {
        return aligned(tiles_at() + groups * row_tiles() * k_blocks() * tile_bytes());
    }

    constexpr std::int64_t tile_at(std::int64_t group, std::int64_t row_tile, std::int64_t k_block) const {
        const std::int64_t index = packed_tile_index(row_tiles(), k_blocks(), row_tile, k_block);
        return tiles_at() + (group * row_tiles() * k_blocks() + index) * tile_bytes();
    }
    constexpr std::int64_t kept_row_bytes() const { return 8 + round_up<std::int64_t>(scale_columns(), 8); }
    constexpr std::int64_t kept_bytes(std::int64_t rows) const {
        const bool none = scale_block == 16 && rows == 0;
        return none ? 0 : aligned(8 + rows * kept_row_bytes());
    }
};

/// The index of the word of a row's 32 k-elements, in words of four bytes from the tile's beginning. It is that of the
/// lane with t = 0; add 4 t for lane t.
constexpr std::int64_t packed_word(std::int64_t row, std::int64_t step) {
    const std::int64_t warp = row / 16;
    const std::int64_t lane = row % 8 * 4;
    const std::int64_t upper = row % 16 / 8;
    return ((2 * warp + step / 2) * 32 + lane) * 4 + step % 2 * 2 + upper;
}

/// Where the scales of a row begin in a tile.
constexpr std::int64_t packed_scale_at(std::int64_t row, std::int64_t scales_of_row) {
    const std::int64_t pair = row / 16 * 8 + row % 8;
    return packed_code_bytes + (pair * 2 + row % 16 / 8) * scales_of_row;
}

/// Where the exponent of a row's window is in a tile, from that of the first row and window on.
constexpr std::int64_t packed_exponent_at(std::int64_t row, std::int64_t window) {
    return window * packed_window_bytes + (row / 16 * 8 + row % 8) * 2 + row % 16 / 8;
}

/// The bits of one code in its word: where its magnitude's three bits and its sign are.
struct PackedPlace {
    int lane = 0;                       // t
    std::array<std::uint8_t, 4> bit{};  // of the mantissa, the exponent's low and high bit, the sign
};

/// The place of a code in its word of eight.
///
/// fp8: nibble j has the magnitude of k = 4 t + j (j < 4) or 16 + 4 t + j - 4. PRMT looks it up in the table of e4m3
/// codes that the scale makes. The signs are at the bits where the four results of each PRMT have theirs. For j = i
/// this is bit 8 i + 7, for j = 4 + i bit 8 i + 3. A lane's results are the fragment's four adjacent k-elements.
///
/// bf16: half words are pairs of k-elements, for shifts with the mask 0x81C0, which leave a bf16 number 2^-126 times
/// the code's value. The shifts are by 0, by 6 to the left, and by 4 to the right. The last one takes the signs from
/// the other half, as a rotation does. The fourth pair has the remaining bits, shifted by 2 to the left and one bit by
/// 6 to the right. Four single shifts cannot fill all bits.
constexpr PackedPlace packed_place(PackedFor activations, int k) {
    if (activations == PackedFor::fp8) {
        const int nibble = k / 16 * 4 + k % 4;
        const int sign = nibble < 4 ? 8 * nibble + 7 : 8 * (nibble - 4) + 3;
        const int first = 4 * nibble;
        return {.lane = k % 16 / 4,
                .bit = {static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(first + 1),
                        static_cast<std::uint8_t>(first + 2), static_cast<std::uint8_t>(sign)}};
    }
    constexpr std::array<std::array<std::uint8_t, 4>, 4> pairs{
        {{6, 7, 8, 15}, {0, 1, 2, 9}, {10, 11, 12, 19}, {4, 5, 14, 13}}};
    PackedPlace place{.lane = k % 8 / 2, .bit = pairs[static_cast<std::size_t>(k / 8)]};
    for (std::uint8_t& bit : place.bit) bit = static_cast<std::uint8_t>((bit + k % 2 * 16) % 32);
    return place;
}

/// The byte of an NVFP4 scale in a tile. NaN is the only byte with a top bit, because kernels cannot test seven bits
/// (hopper/multiply/feed_bf16.h).
constexpr int packed_nvfp4_scale(int ue4m3_code) {
    constexpr int nan = 0x7F, packed_nan = 0xFF;
    const int number = ue4m3_code & nan;
    return number == nan ? packed_nan : number;
}

/// The places of the 32 codes of a step, and the bits that each of the 16 codes sets there.
struct PackedTable {
    std::array<std::uint8_t, 32> word{};  // 4 t
    std::array<std::array<std::uint32_t, 16>, 32> bits{};
    std::array<PackedPlace, 32> place{};
};

constexpr PackedTable packed_table(PackedFor activations) {
    PackedTable table;
    for (std::size_t k = 0; k < 32; ++k) {
        const PackedPlace place = packed_place(activations, static_cast<int>(k));
        table.place[k] = place;
        table.word[k] = static_cast<std::uint8_t>(4 * place.lane);
        for (std::uint32_t code = 0; code < 16; ++code) {
            for (std::size_t bit = 0; bit < 4; ++bit) table.bits[k][code] |= (code >> bit & 1U) << place.bit[bit];
        }
    }
    return table;
}
inline constexpr PackedTable fp8_table = packed_table(PackedFor::fp8);
inline constexpr PackedTable bf16_table = packed_table(PackedFor::bf16);

/// NVFP4 is multiplied in bf16, whatever the activations.
constexpr const PackedTable& packed_table(const OperandRecipe& recipe, PackedFor activations) {
    const bool fp8 = recipe.granularity == Granularity::block_1x32 && activations == PackedFor::fp8;
    return fp8 ? fp8_table : bf16_table;
}

/// Kernels that pack count rows of all groups, k and tiles by int.
constexpr bool can_be_counted(const PackedSections& sections) {
    constexpr std::int64_t limit = std::int64_t{1} << 30;
    const std::int64_t row_tiles = sections.groups * sections.row_tiles();
    return sections.n <= limit && sections.k <= limit && row_tiles * packed_rows <= limit &&
           row_tiles * sections.k_blocks() <= limit;
}
inline constexpr const char* countable_words = "at most 2^30 rows of all groups, columns, and tiles of 64 x 128";

/// Which kernels packed weights need: what `PackedWeights::internal` has.
struct PackedInternal {
    /// For fp8: the number of exponent windows (docs/numerics.md). 0 if the scales of each row differ by at most 2^11.
    /// Otherwise 1 to 4: the most windows that any 128 k-elements of a row need.
    int windows = 0;
    /// MXFP4 for bf16: the first row, counted over all groups, whose scales differ by more than 2^120. A GPU has other
    /// kernels for such weights. -1: there is none.
    std::int64_t wide_row = -1;

    constexpr std::array<std::int64_t, 2> words() const { return {windows, wide_row + 1}; }
    bool operator==(const PackedInternal&) const = default;
};

constexpr PackedInternal internal_of(const PackedWeights& packed) {
    return {.windows = static_cast<int>(packed.internal[0]), .wide_row = packed.internal[1] - 1};
}

constexpr PackedSections packed_sections(const PackedWeights& packed) {
    const PackedInternal internal = internal_of(packed);
    return {.groups = packed.groups,
            .n = packed.n,
            .k = packed.k,
            .scale_block = k_block(packed.recipe.granularity),
            .tensor_scales = packed.tensor_scales,
            .windows = internal.windows,
            .wide_row = internal.wide_row};
}

/// The header that packed weights begin with.
PackedHeader header_of(const PackedSections& sections, const OperandRecipe& recipe, PackedFor activations, bool grouped,
                       std::int64_t bytes);

/// The header of packed weights in host memory, with every number that follows from others checked. Throws Error.
PackedHeader checked_header(const PackedWeights& packed);

}  // namespace tilewright::formats
