// Events of each warp with their times, in kernels that are compiled with stamps (Debug::stamps;
// benchmarks/kernel_timeline.cpp). In all other kernels the class is empty.
#pragma once

#include "hopper/arguments.h"
#include "hopper/description/roles.h"
#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

template <Design design, bool on = design.debug.stamps>
class Stamps {
public:
    TILEWRIGHT_DEVICE explicit Stamps(const Arguments&) {}
    TILEWRIGHT_DEVICE void operator()(Event) {}
};

template <Design design>
class Stamps<design, true> {
public:
    TILEWRIGHT_DEVICE explicit Stamps(const Arguments& arguments)
        : next_(reinterpret_cast<u64*>(arguments.report + 1) +
                (block_index() * (design.threads / warp_threads) + warp_index()) * Stamp::per_warp()) {}

    /// Events that do not fit are dropped.
    TILEWRIGHT_DEVICE void operator()(Event event) {
        if (count_ == Stamp::per_warp()) return;
        if (lane_index() == 0) store_global(next_ + count_, Stamp::pack(event, sm_clock()).word);
        ++count_;
        sync_warp();  // wgmma and stmatrix need whole warps
    }

private:
    u64* next_;
    /// 64 bits, which leave no padding. In Consumer this object has no unique address, and a member in its padding
    /// would lose its initialiser (NVRTC 13.0: the wait budget became 0).
    i64 count_ = 0;
};

}  // namespace tilewright::hopper
