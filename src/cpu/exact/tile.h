// One tile of D in the canonical order: the work of a thread of run_exact.
#pragma once

#include "base/threads.h"
#include "cpu/exact/decode.h"
#include "cpu/exact/kernels.h"
#include "cpu/exact/output.h"
#include "problem/canonical_order.h"

#include <cstdint>
#include <span>
#include <vector>

namespace tilewright::cpu {

/// Outputs of one tile: large enough that decoding costs little compared with multiplying, small enough for a core's
/// L2.
inline constexpr std::int64_t tile_rows = 128;
inline constexpr std::int64_t tile_columns = 128;

/// The data that all tiles of a call share.
struct ExactCall {
    const Geometry& geometry;
    const ExactKernels& kernels;
    std::span<const std::int64_t> k_splits;
    CanonicalOrder order;
    TileLayout a_layout;
    TileLayout b_layout;
    bool exact_products;  // no product of a step is ever truncated
    Cancellation& cancellation;
};

/// One thread's memory: decoded operands, and a tile of accumulators in panels of columns ([panels, rows, panel]).
struct TileWorkspace {
    DecodedTile a;
    DecodedTile b;
    std::vector<float> chain;  // The tensor core's accumulators.
    std::vector<float> slice;  // The sum of chains.
    std::vector<float> total;  // The sum of slices.
    std::vector<float> kept;   // The sum of chains ahead of a window that some rows do not have.
    std::vector<float> a_scales;
    std::vector<float> b_scales;

    explicit TileWorkspace(const ExactCall& call) {
        a.resize(call.a_layout, tile_rows);
        b.resize(call.b_layout, tile_columns);
        for (std::vector<float>* sums : {&chain, &slice, &total, &kept}) sums->resize(tile_rows * tile_columns);
        a_scales.resize(tile_rows);
        b_scales.resize(tile_columns);
    }
};

/// Computes and writes one tile.
void compute_tile(const ExactCall& call, const TilePlace& place, TileWorkspace& work);

}  // namespace tilewright::cpu
