// The layout that a tile reads and how its sums are added, for tests that run tiles by name.
#pragma once

#include "check/case.h"
#include "hopper/description/kernel.h"

namespace tilewright::tests {

/// bf16 has no promotion to leave out.
inline Accumulation accumulation_of(const hopper::Kernel& tile) {
    const bool unpromoted = tile.order.step == StepKind::fp8 && tile.order.chain == 0;
    return unpromoted ? Accumulation::unpromoted : Accumulation::promoted;
}

/// The call in the layout that the tile reads, with operands along their rows in rows of 16 bytes and more of NaN.
inline check::CaseSpec in_layout_of(const hopper::Kernel& tile, check::CaseSpec spec) {
    const auto aligned = [](std::int64_t size) { return 16 + (16 - size % 16) % 16; };
    // Operands that end at a guard page begin at a multiple of 16 bytes if their last row is that long.
    const bool a_along_m = tile.a.form == hopper::Form::columns, b_along_n = tile.b.form == hopper::Form::columns;
    std::int64_t& rows = a_along_m ? spec.m : spec.n;
    if ((a_along_m || b_along_n) && spec.guard_pages) rows += (16 - rows % 16) % 16;
    if (a_along_m) {
        spec.layout = Layout::tt;
        spec.a_gaps.row = aligned(spec.m);
    }
    if (b_along_n) {
        spec.layout = Layout::nn;
        spec.b_gaps.row = aligned(spec.n);
    }
    return spec;
}

}  // namespace tilewright::tests
