// The layout that a tile reads and how its sums are added, for tests that run tiles by name.
#pragma once

#include "check/case.h"
#include "hopper/tile/tile.h"

namespace tilewright::tests {

/// bf16 has no promotion to leave out.
inline Accumulation accumulation_of(const hopper::Tile& tile) {
    return tile.mma.promoted || multiplies_bf16(tile) ? Accumulation::promoted : Accumulation::unpromoted;
}

/// The call in the layout that the tile reads, with operands along their rows in rows of 16 bytes and more of NaN.
inline check::CaseSpec in_layout_of(const hopper::Tile& tile, check::CaseSpec spec) {
    const auto aligned = [](std::int64_t size) { return 16 + (16 - size % 16) % 16; };
    // Operands that end at a guard page begin at a multiple of 16 bytes if their last row has so many.
    std::int64_t& rows = tile.a.major == hopper::Major::mn ? spec.m : spec.n;
    if (has_mn_major(tile) && spec.guard_pages) rows += (16 - rows % 16) % 16;
    if (tile.a.major == hopper::Major::mn) {
        spec.layout = Layout::tt;
        spec.a_gaps.row = aligned(spec.m);
    }
    if (tile.b.major == hopper::Major::mn) {
        spec.layout = Layout::nn;
        spec.b_gaps.row = aligned(spec.n);
    }
    return spec;
}

}  // namespace tilewright::tests
