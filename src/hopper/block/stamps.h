// What each warp came to and when, of kernels that are compiled for it (Debug::stamps; benchmarks/kernel_timeline.cpp).
// In all others this is empty.
#pragma once

#include "hopper/arguments.h"
#include "hopper/ptx/ptx.h"
#include "hopper/tile/roles.h"

namespace tilewright::hopper {

template <Tile tile, bool on = tile.debug.stamps>
class Stamps {
public:
    TILEWRIGHT_DEVICE explicit Stamps(const Arguments&) {}
    TILEWRIGHT_DEVICE void operator()(Event) {}
};

template <Tile tile>
class Stamps<tile, true> {
public:
    TILEWRIGHT_DEVICE explicit Stamps(const Arguments& arguments)
        : next_(reinterpret_cast<u64*>(arguments.report + 1) +
                (block_index() * (block_threads(tile) / warp_threads) + warp_index()) * Stamp::per_warp()) {}

    /// What does not fit is left out.
    TILEWRIGHT_DEVICE void operator()(Event event) {
        if (count_ == Stamp::per_warp()) return;
        if (lane_index() == 0) store_global(next_ + count_, Stamp::pack(event, sm_clock()).word);
        ++count_;
        sync_warp();  // wgmma and stmatrix take whole warps
    }

private:
    u64* next_;
    /// 64 bits, for a member in the padding behind it loses its initialiser in Consumer, where this has no address of
    /// its own (NVRTC 13.0: the wait budget became 0).
    i64 count_ = 0;
};

}  // namespace tilewright::hopper
