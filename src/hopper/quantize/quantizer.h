// The template parameter of the quantizers' kernels: the input, the computation, and the operands that are written.
//
// A matrix is described as it is in memory, [tokens, features] with features adjacent, whichever of the two a product
// is contracted along.
#pragma once

#include "hopper/description/design.h"

namespace tilewright::hopper {

/// The format of x.
enum class Number : unsigned char { f32, bf16, f16 };

/// The formula of h, the matrix that is quantized.
enum class Formula : unsigned char { x, swiglu, swiglu_gradient };

/// The elements of h that share a scale.
enum class ScaledBy : unsigned char {
    none,           // No operand is written.
    all,            // All numbers of a group, or of the matrix.
    token,          // All features of a token.
    feature,        // All tokens of a group, one feature.
    token_block,    // 128 features of a token
    feature_block,  // 128 tokens of a feature
    square,         // 128 tokens x 128 features
};

/// One operand that is written.
struct CopySpec {
    ScaledBy scaled = ScaledBy::none;
    ValueFormat storage = ValueFormat::e4m3;
    bool powers = false;  // scales are rounded up to powers of two
    bool ue8m0 = false;   // and stored as ue8m0; otherwise as f32
    // Tokens are adjacent; groups begin at multiples of 128.
    bool transposed = false;
    bool token_factors = false;
    bool feature_factors = false;

    constexpr bool operator==(const CopySpec&) const = default;
};

struct Quantizer {
    Number source = Number::bf16;
    Formula formula = Formula::x;
    bool interleaved = false;  // gate and up interleaved
    // swiglu_gradient: a block has a tile of gates and the tile of their ups.
    bool paired = false;
    bool grouped = false;  // groups of tokens, whose ends are read on the device
    bool vectors = true;   // 16 bytes at a time, features adjacent; otherwise element by element in any strides
    CopySpec rows{};
    CopySpec columns{};

    constexpr bool operator==(const Quantizer&) const = default;
};

/// The transpose of quantized values (transpose.h).
struct TransposeSpec {
    ValueFormat storage = ValueFormat::e4m3;
    // Values are shifted to the scales that are written; otherwise no scales are written.
    bool shifted = true;
    bool ue8m0 = false;         // the scales that are read
    bool stores_ue8m0 = false;  // the scales that are written
    // One scale is written per square; otherwise one per feature of the square.
    bool squares = false;
    bool grouped = false;
    bool vectors = true;

    constexpr bool operator==(const TransposeSpec&) const = default;
};

/// The input and output of decoding (decode.h).
enum class Decoding : unsigned char {
    nvfp4_to_bf16,  // with its block scales
    // Only the values, as in the following ones.
    mxfp4_to_e4m3,
    e4m3_to_bf16,
    e5m2_to_bf16,
};

struct DecodeSpec {
    Decoding codes = Decoding::nvfp4_to_bf16;
    // Values along k, eight at a time; otherwise value by value in any strides.
    bool vectors = true;

    constexpr bool operator==(const DecodeSpec&) const = default;
};

constexpr bool decodes_fp4(Decoding codes) {
    return codes == Decoding::nvfp4_to_bf16 || codes == Decoding::mxfp4_to_e4m3;
}
/// Bytes of eight values, and of a number that is written.
constexpr int code_word_bytes(Decoding codes) { return decodes_fp4(codes) ? 4 : 8; }
constexpr int decoded_bytes(Decoding codes) { return codes == Decoding::mxfp4_to_e4m3 ? 1 : 2; }

/// Operands whose scales are shared by 32 or 16 elements of k (short_blocks.h).
enum class BlockFormat : unsigned char { mxfp8_e4m3, mxfp8_e5m2, mxfp4, nvfp4 };

struct BlockSpec {
    Number source = Number::bf16;
    BlockFormat format = BlockFormat::mxfp8_e4m3;
    bool round_up = false;
    // 16 elements at a time, adjacent along k; otherwise element by element in any strides.
    bool vectors = true;

    constexpr bool operator==(const BlockSpec&) const = default;
};

constexpr bool is_fp4(const BlockSpec& spec) {
    return spec.format == BlockFormat::mxfp4 || spec.format == BlockFormat::nvfp4;
}
constexpr int block_length(BlockFormat format) { return format == BlockFormat::nvfp4 ? 16 : 32; }
// Codes of special scales.
inline constexpr int ue8m0_bias = 127, ue8m0_nan = 0xFF, ue4m3_nan = 0x7F;

constexpr bool is_written(const CopySpec& copy) { return copy.scaled != ScaledBy::none; }
/// Whether scales need more than a tile. Separate kernels compute such scales first.
constexpr bool is_measured(const CopySpec& copy) {
    return copy.scaled == ScaledBy::all || copy.scaled == ScaledBy::token || copy.scaled == ScaledBy::feature;
}
constexpr bool has_factors(const CopySpec& copy) { return copy.token_factors || copy.feature_factors; }
/// Whether numbers of x are kept as in memory, two per word if they have 16 bits, and converted at each use. In f32
/// they would take twice the registers.
constexpr bool holds_pairs(const Quantizer& q) { return q.formula == Formula::x && q.source != Number::f32; }
/// Whether an operand's factors multiply h in its registers; the other operand then needs h again.
constexpr bool is_multiplied(const Quantizer& q, const CopySpec& copy) { return !holds_pairs(q) && has_factors(copy); }
constexpr CopySpec without_factors(CopySpec copy) {
    copy.token_factors = copy.feature_factors = false;
    return copy;
}
/// Whether both operands have the same quantized values, so that each number is divided and encoded once.
constexpr bool shares_codes(const Quantizer& q) {
    return q.rows.scaled == q.columns.scaled && (q.rows.scaled == ScaledBy::square || q.rows.scaled == ScaledBy::all) &&
           q.rows.storage == q.columns.storage && q.rows.powers == q.columns.powers && !has_factors(q.rows) &&
           !has_factors(q.columns) && !(q.grouped && q.rows.scaled == ScaledBy::all);
}

// A tile has 128 tokens x 128 features and 8 warps. A lane has 4 consecutive tokens, so that four values of a feature
// are a word of the transposed operand. It has 16 features, so that it stores 16 bytes of a row, and 8 lanes store a
// line. All loads of a tile, 32 KB (bf16), are in flight at once, and two blocks or more share an SM. Each of 132 SMs
// needs 26 KB in flight for 4.3 TB/s at a latency of 800 ns. Kernels of 16 warps spilled. They have half the numbers
// and half the registers each, but all other values take as many registers as in 8 warps.
inline constexpr int quantize_block = 128;
inline constexpr int quantize_threads = 256;
inline constexpr int quantize_warps = quantize_threads / warp_threads;
inline constexpr int lane_tokens = 4;
inline constexpr int lane_features = 16;
inline constexpr int row_lanes = quantize_block / lane_features;
inline constexpr int decoded_word = 8;   // values of a row that a lane decodes together
inline constexpr int decoded_words = 4;  // words in flight per lane
inline constexpr int decoded_strip = decoded_word * decoded_words * warp_threads;
inline constexpr int expand_run_tiles = 8;  // tiles that a block expands one after another
/// The packed weights that are expanded, and their operand (expand.h).
enum class Expansion : unsigned char { mxfp4_to_e4m3, mxfp4_to_bf16, nvfp4_to_bf16 };
constexpr int expanded_bytes(Expansion weights) { return weights == Expansion::mxfp4_to_e4m3 ? 1 : 2; }
constexpr int shared_bytes(Expansion weights) {  // ExpandShared
    return 2 * packed_rows * (packed_k * expanded_bytes(weights) + 16);
}
inline constexpr int quantize_shared_bytes = 128 * 128 + 8 * 128 * 4 + 4 * 160 * 4 + 2 * 16;  // QuantizeShared.
inline constexpr int ups_bytes = 128 * 128 * 4;                                               // PairedShared, in
                                                                                              // addition.
constexpr int shared_bytes(const Quantizer& q) { return quantize_shared_bytes + (q.paired ? ups_bytes : 0); }
constexpr int shared_bytes(const TransposeSpec&) { return quantize_shared_bytes; }
inline constexpr int short_tile_k = warp_threads * lane_features;  // Elements of a row per warp.
/// Rows of a warp, whose loads are in flight at once: half as many of f32 take as many registers.
constexpr int short_rows(Number source) { return source == Number::f32 ? 2 : 4; }
/// Their blocks per SM. Addresses of single elements take more registers.
constexpr int blocks_per_sm(const BlockSpec& spec) { return spec.vectors ? 4 : 2; }
constexpr int short_tile_rows(Number source) { return quantize_warps * short_rows(source); }
/// Blocks per SM, as far as registers allow.
constexpr int blocks_per_sm(const Quantizer& q) {
    const bool one = !is_written(q.rows) || !is_written(q.columns);
    if (!holds_pairs(q) || has_factors(q.rows) || has_factors(q.columns)) return 2;
    if (one) return 4;
    if (!q.vectors) return 2;
    return q.grouped && !shares_codes(q) && q.columns.scaled != ScaledBy::square ? 4 : 3;
}
/// Whether h no longer exists after the first operand: together with 16 factors, the tile needs more registers than
/// there are.
constexpr bool rows_take_h(const Quantizer& q) { return q.rows.feature_factors || is_multiplied(q, q.rows); }
/// Whether the numbers are read again for the second operand, from L1 or L2. With more than two blocks per SM,
/// registers do not hold them together with the first operand's values either.
constexpr bool reads_twice(const Quantizer& q) {
    if (!is_written(q.rows) || !is_written(q.columns) || shares_codes(q)) return false;
    return rows_take_h(q) || blocks_per_sm(q) > 2;
}

/// Whether a later block's numbers are prefetched into L2 (prefetch.h). This helps if two blocks share an SM and
/// compute for about as long as their bytes take. With more blocks, and for SwiGLU, it makes kernels slower
/// (docs/experiments/023-quantizers.md).
constexpr bool is_prefetched(const Quantizer& q) {
    return q.vectors && holds_pairs(q) && (has_factors(q.rows) || has_factors(q.columns));
}
inline constexpr int prefetched_bytes = 128;
/// The distance in blocks to the block whose tile is prefetched: the number of blocks that an H100 or H200 runs at a
/// time. That block starts about when this one ends.
constexpr int later_blocks(const Quantizer& q) { return 132 * blocks_per_sm(q); }

/// Values that are only moved need one load and one store, so more blocks have more of either in flight.
constexpr int blocks_per_sm(const TransposeSpec& spec) { return spec.vectors ? 6 : 2; }

/// Packing FP4 weights (pack_rows.h, pack_tiles.h).
struct PackSpec {
    bool mxfp4 = true;  // otherwise NVFP4
    // Activations are fp8. NVFP4 weights are packed for bf16 in either case.
    bool for_fp8 = true;
    bool vectors = true;  // 16 bytes of values at a time, k a multiple of 32

    constexpr bool operator==(const PackSpec&) const = default;
};

inline constexpr int pack_strip_rows = 16;       // rows that a block packs
inline constexpr int pack_shared_head = 16 * 4;  // PackShared
inline constexpr int most_pack_shared = 227 * 1024;
/// Bytes from row to row in shared memory, with `k_blocks` k-blocks of values and scales. It is an odd number of 16
/// bytes, so that rows are in different banks.
constexpr int pack_pitch(int k_blocks, bool mxfp4) { return (k_blocks * (64 + (mxfp4 ? 4 : 8)) + 31) / 32 * 32 + 16; }
constexpr int pack_shared_bytes(int k_blocks, bool mxfp4) {
    return pack_shared_head + pack_strip_rows * pack_pitch(k_blocks, mxfp4);
}
/// The k-blocks of a row that shared memory holds at a time, in parts of equal length.
constexpr int pack_part(int k_blocks, bool mxfp4) {
    int parts = 1;
    while (pack_shared_bytes((k_blocks + parts - 1) / parts, mxfp4) > most_pack_shared) ++parts;
    return (k_blocks + parts - 1) / parts;
}

/// Packing for weights that are read in place (pack_scales.h): words from row to row of scales in shared memory. It is
/// an odd number of fours, so that four lanes of each of eight rows are in different banks.
inline constexpr int scales_shared_head = 64 * 4;  // ScalesShared
constexpr int scales_pitch(int k_blocks) { return (k_blocks + 7) / 8 * 8 + 4; }
constexpr int scales_shared_bytes(int k_blocks) { return scales_shared_head + 64 * 4 * scales_pitch(k_blocks); }

/// Calls visit.group and visit.field, like visit_fields of a tile.
template <class Visitor>
constexpr void visit_fields(const Quantizer& q, Visitor& visit) {
    const auto copy = [&](const char* name, const CopySpec& spec) {
        if (!is_written(spec)) return;
        visit.group(name, [&] {
            visit.field("scaled", spec.scaled);
            visit.field("storage", spec.storage);
            visit.field("powers", spec.powers);
            visit.field("ue8m0", spec.ue8m0);
            visit.field("transposed", spec.transposed);
            visit.field("token_factors", spec.token_factors);
            visit.field("feature_factors", spec.feature_factors);
        });
    };
    visit.field("source", q.source);
    visit.field("formula", q.formula);
    visit.field("interleaved", q.interleaved);
    visit.field("paired", q.paired);
    visit.field("grouped", q.grouped);
    visit.field("vectors", q.vectors);
    copy("rows", q.rows);
    copy("columns", q.columns);
}

template <class Visitor>
constexpr void visit_fields(const TransposeSpec& spec, Visitor& visit) {
    visit.field("storage", spec.storage);
    visit.field("shifted", spec.shifted);
    visit.field("ue8m0", spec.ue8m0);
    visit.field("stores_ue8m0", spec.stores_ue8m0);
    visit.field("squares", spec.squares);
    visit.field("grouped", spec.grouped);
    visit.field("vectors", spec.vectors);
}

template <class Visitor>
constexpr void visit_fields(const DecodeSpec& spec, Visitor& visit) {
    visit.field("codes", spec.codes);
    visit.field("vectors", spec.vectors);
}

template <class Visitor>
constexpr void visit_fields(const BlockSpec& spec, Visitor& visit) {
    visit.field("source", spec.source);
    visit.field("format", spec.format);
    visit.field("round_up", spec.round_up);
    visit.field("vectors", spec.vectors);
}

template <class Visitor>
constexpr void visit_fields(const PackSpec& spec, Visitor& visit) {
    visit.field("mxfp4", spec.mxfp4);
    visit.field("for_fp8", spec.for_fp8);
    visit.field("vectors", spec.vectors);
}

}  // namespace tilewright::hopper
