// The parameters of the quantizers' kernels. Strides count elements.
#pragma once

#include "hopper/ptx/types.h"

namespace tilewright::hopper {

/// A matrix that is read.
struct SourceMatrix {
    const void* data = nullptr;
    i64 group_stride = 0;
    i64 token_stride = 0;
    i64 feature_stride = 1;
};

/// f32 factors of h; null where the kernel has none.
struct FoldFactors {
    const float* tokens = nullptr;
    const float* features = nullptr;
    i64 token_stride = 0;
    i64 feature_stride = 0;
    i64 feature_group_stride = 0;
};

/// Scales, indexed by the elements that share them: group g, token t (or block of 128 tokens), feature f (or block).
struct ScaleMatrix {
    void* data = nullptr;
    i64 group_stride = 0;
    i64 token_stride = 0;
    i64 feature_stride = 0;
};

struct CopyArguments {
    u8* codes = nullptr;
    i64 group_stride = 0;
    i64 token_stride = 0;
    i64 feature_stride = 0;
    i64 columns = 0;  // transposed: the number of columns
    ScaleMatrix scales{};
    FoldFactors factors{};
};

struct QuantizeArguments {
    SourceMatrix x{};            // swiglu: gate
    SourceMatrix up{};           // swiglu
    SourceMatrix gradient{};     // swiglu_gradient
    const int* index = nullptr;  // the row of x that each token is; null: the rows of x are the tokens
    i64 index_stride = 0;
    int x_rows = 0;  // with an index
    const void* ends = nullptr;
    int ends_stride = 1;
    bool ends_are_wide = false;  // int64
    int groups = 1;              // groups of tokens that share memory (ends), or matrices one after another
    int tokens = 0;              // with ends: of all groups; otherwise of each group
    int features = 0;            // of h
    int feature_tiles = 0;
    int strips = 0;        // without ends: strips of 128 tokens per group
    int later_tokens = 0;  // tokens from a tile to the tile that is prefetched into L2 (prefetch.h)
    int later_features = 0;
    float alpha = 1;
    float beta = 0;
    float limit = 0;
    // f32, one per token: multiply h of an activation for both operands, which then share it. Null: 1.
    const float* h_factors = nullptr;
    i64 h_factor_stride = 0;
    CopyArguments rows{};
    CopyArguments columns{};
};

struct TransposeArguments {
    SourceMatrix codes{};
    ScaleMatrix scales{};
    CopyArguments to{};
    QuantizeArguments grid{};  // groups, tokens and features; no matrices
};

/// Matrices with short scale blocks (short_blocks.h). Rows are tokens and k is features. Strides of e2m1 count values.
struct BlockArguments {
    QuantizeArguments grid{};  // x, the matrices and `rows`, the operand
    int row_tiles = 0;         // of a matrix
    ScaleMatrix tensor_scales{};
    bool pairs_of_rows = false;  // two rows share a byte of e2m1; otherwise two k-elements do
};

/// Quantized values that are decoded (decode.h). Strides count values, scales and results.
struct DecodeArguments {
    const u8* codes = nullptr;
    i64 group_stride = 0;
    i64 row_stride = 0;
    i64 k_stride = 1;
    const u8* scales = nullptr;  // NVFP4: block scales
    i64 scale_group_stride = 0;
    i64 scale_row_stride = 0;
    i64 scale_k_stride = 0;
    u8* to = nullptr;  // K-major rows, in multiples of 16 bytes
    i64 to_group_stride = 0;
    i64 to_row_stride = 0;
    int matrices = 0;
    // Matrices whose rows are counted together by a warp: at most 32, with a total number of rows that fits in int.
    int matrices_at_once = 1;
    int rows = 0;
    int k = 0;
    const void* row_counts = nullptr;  // int or i64, one per matrix; null: all rows exist
    i64 row_counts_stride = 0;
    bool row_counts_are_64_bit = false;
};

/// Packed weights that are expanded (expand.h): the sections of rows and of tiles, and the output.
struct ExpandArguments {
    const u8* rows = nullptr;
    const u8* tiles = nullptr;
    i64 tile_bytes = 0;
    u8* to = nullptr;  // [groups, n, to_row_bytes]
    i64 to_row_bytes = 0;
    float* factors = nullptr;  // [groups, n]; NVFP4: none
    int groups = 1;
    int n = 0;
    int k = 0;
};

/// Groups of tokens whose products are prepared (finish_groups.h). Both outputs may be null.
struct GroupArguments {
    QuantizeArguments tokens{};  // ends, groups and tokens; no matrices
    u32* column_ends = nullptr;  // [groups]
    u8* rows = nullptr;          // D; strides and sizes are in bytes
    i64 row_stride = 0;
    i64 row_bytes = 0;
};

/// Measured scales and their number. At first their bits are 0; in between they are the bits of the largest finite
/// magnitude.
struct MeasuredScales {
    ScaleMatrix scales{};
    int groups = 1;
    int tokens = 1;
    int features = 1;
};

/// A flag in the byte that the kernel which packs writes per row. The other bits are the number of windows of a wide
/// row; for bf16 it is 1.
inline constexpr u8 judged_kept = 128;

/// Weights to be packed, and the places of the sections of the packed weights (src/formats/packed_layout.h), in bytes.
struct PackArguments {
    const u8* codes = nullptr;
    i64 code_group_stride = 0;
    i64 code_row_stride = 0;
    const u8* scales = nullptr;
    i64 scale_group_stride = 0;
    i64 scale_row_stride = 0;
    i64 scale_column_stride = 0;
    const float* tensor_scales = nullptr;
    i64 tensor_scale_stride = 0;  // elements
    int tensor_scale_count = 0;
    int groups = 1;
    int n = 0;
    int k = 0;
    int part = 0;              // k-blocks that are in shared memory at a time
    u8* judgements = nullptr;  // [groups * n], read by the host: pack_rows.h
    u8* out = nullptr;
    i64 rows_at = 0;
    i64 tiles_at = 0;
    i64 tile_bytes = 0;
    int windows = 0;
    i64 kept_at = 0;
    i64 kept_row_bytes = 0;
    i64 bytes = 0;
    const i64* kept_rows = nullptr;
    int kept = 0;
    u32 header[32] = {};
};

}  // namespace tilewright::hopper
