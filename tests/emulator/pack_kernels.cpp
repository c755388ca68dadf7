#include "emulator/pack_kernels.h"

#include "hopper/pack/pack_rest.h"
#include "hopper/pack/pack_scales.h"

#include "emulator/primitives.h"

namespace tilewright::tests {
namespace {

using namespace hopper;

template <PackSpec spec>
constexpr Packers packers_of{spec, pack_tiles<spec>, pack_heads<spec>, pack_rest<spec>, nullptr};

template <PackSpec spec>
Packers with_scales() {
    Packers packers = packers_of<spec>;
    packers.scales = pack_scales<spec>;
    return packers;
}

}  // namespace

std::vector<Packers> packers() {
    return {with_scales<PackSpec{}>(),
            with_scales<PackSpec{.vectors = false}>(),
            packers_of<PackSpec{.for_fp8 = false}>,
            packers_of<PackSpec{.for_fp8 = false, .vectors = false}>,
            packers_of<PackSpec{.mxfp4 = false, .for_fp8 = false}>,
            packers_of<PackSpec{.mxfp4 = false, .for_fp8 = false, .vectors = false}>};
}

}  // namespace tilewright::tests
