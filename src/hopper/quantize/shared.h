// What the threads of a block and the lanes of a warp have from each other.
#pragma once

#include "hopper/quantize/token_tile.h"

namespace tilewright::hopper {

inline constexpr int gap_features = 4;  // after 16, so that 8 lanes read in one go
inline constexpr int spaced_features = quantize_block / lane_features * (lane_features + gap_features);

/// The scales of 128 features, and as what they divide.
struct FeatureScales {
    float scales[spaced_features];
    float high[spaced_features];
    float low[spaced_features];
    float factors[spaced_features];  // folded.h
    IntQuad irregular;               // not zero where a scale of a warp's is not `is_regular`
};

/// The block's shared memory: 23 KB.
struct QuantizeShared {
    u32 codes[quantize_block][quantize_block / 4];  // for each feature the codes of 128 tokens, 16 bytes swizzled
    u32 peaks[quantize_warps][quantize_block];
    FeatureScales features;
    IntQuad tile;  // token_tile
};

static_assert(sizeof(QuantizeShared) == quantize_shared_bytes);

/// Gradients of ups, each in the place of the thread that computes it next to the gate's and takes it back.
struct PairedShared {
    QuantizeShared first;
    Quad ups[lane_tokens * lane_features / 4][quantize_threads];
};

static_assert(sizeof(PairedShared) == quantize_shared_bytes + ups_bytes);

/// Where the scales of a feature are, and those of the lane's features begin.
TILEWRIGHT_DEVICE int feature_place(int feature) { return feature + feature / lane_features * gap_features; }
TILEWRIGHT_DEVICE int lane_place() { return feature_place(TokenTile::lane_feature()); }
TILEWRIGHT_DEVICE Quad load_quad(const float& from) { return load_shared(reinterpret_cast<const Quad&>(from)); }

/// Which of the tokens that 8 lanes share is this lane's own: two lanes have the same.
TILEWRIGHT_DEVICE int own_token() { return int(u32(thread_index()) % row_lanes / 2); }
/// The lane that owns the j-th.
TILEWRIGHT_DEVICE int owner_of(int j) {
    return int(u32(thread_index()) % warp_threads / row_lanes * row_lanes) + 2 * j;
}

}  // namespace tilewright::hopper
