// Data that the threads of a block and the lanes of a warp exchange.
#pragma once

#include "hopper/quantize/token_tile.h"

namespace tilewright::hopper {

inline constexpr int gap_features = 4;  // after each 16, so that 8 lanes read without bank conflicts
inline constexpr int spaced_features = quantize_block / lane_features * (lane_features + gap_features);

/// The scales of 128 features, also as divisors.
struct FeatureScales {
    float scales[spaced_features];
    float high[spaced_features];
    float low[spaced_features];
    float factors[spaced_features];  // folded.h
    // Not zero if a scale of a warp is not regular (`is_regular`).
    IntQuad irregular;
};

/// The block's shared memory: 23 KB.
struct QuantizeShared {
    // For each feature the values of 128 tokens, with 16-byte chunks swizzled.
    u32 codes[quantize_block][quantize_block / 4];
    u32 peaks[quantize_warps][quantize_block];
    FeatureScales features;
    IntQuad tile;  // token_tile
};

static_assert(sizeof(QuantizeShared) == quantize_shared_bytes);

/// Gradients of ups. The thread that computes one together with the gate's gradient stores it at its own place and
/// reads it back.
struct PairedShared {
    QuantizeShared first;
    Quad ups[lane_tokens * lane_features / 4][quantize_threads];
};

static_assert(sizeof(PairedShared) == quantize_shared_bytes + ups_bytes);

/// The place of a feature's scale, and the place of the first scale of the lane's features.
TILEWRIGHT_DEVICE int feature_place(int feature) { return feature + feature / lane_features * gap_features; }
TILEWRIGHT_DEVICE int lane_place() { return feature_place(TokenTile::lane_feature()); }
TILEWRIGHT_DEVICE Quad load_quad(const float& from) { return load_shared(reinterpret_cast<const Quad&>(from)); }

/// The token that this lane owns among those that 8 lanes share; two lanes own each token.
TILEWRIGHT_DEVICE int own_token() { return int(u32(thread_index()) % row_lanes / 2); }
/// The lane that owns the j-th token.
TILEWRIGHT_DEVICE int owner_of(int j) {
    return int(u32(thread_index()) % warp_threads / row_lanes * row_lanes) + 2 * j;
}

}  // namespace tilewright::hopper
