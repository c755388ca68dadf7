#include "emulator/pack_kernels.h"

#include "emulator/emulator.h"
#include "hopper/pack/pack_rest.h"
#include "hopper/pack/pack_scales.h"

#include "emulator/primitives.h"

#include <map>
#include <string>

namespace tilewright::tests {
namespace {

using hopper::PackSpec;
using launch::PackKernel;
using launch::PackLaunch;
using launch::PackStep;
using Kernels = std::map<std::string, void (*)(const PackLaunch&)>;

template <PackSpec spec>
void add(Kernels& kernels) {
    kernels[kernel_expression(PackKernel{PackStep::pack_tiles, spec})] = [](const PackLaunch& launch) {
        hopper::pack_tiles<spec>(launch.arguments);
    };
    kernels[kernel_expression(PackKernel{PackStep::pack_heads, spec})] = [](const PackLaunch& launch) {
        hopper::pack_heads<spec>(launch.arguments);
    };
    kernels[kernel_expression(PackKernel{PackStep::pack_rest, spec})] = [](const PackLaunch& launch) {
        hopper::pack_rest<spec>(launch.arguments);
    };
}

template <PackSpec spec>
void add_scales(Kernels& kernels) {
    kernels[kernel_expression(PackKernel{PackStep::pack_scales, spec})] = [](const PackLaunch& launch) {
        hopper::pack_scales<spec>(launch.arguments);
    };
}

const Kernels& kernels() {
    static const Kernels all = [] {
        Kernels list;
        add<PackSpec{}>(list);
        add<PackSpec{.vectors = false}>(list);
        add<PackSpec{.for_fp8 = false}>(list);
        add<PackSpec{.for_fp8 = false, .vectors = false}>(list);
        add<PackSpec{.mxfp4 = false, .for_fp8 = false}>(list);
        add<PackSpec{.mxfp4 = false, .for_fp8 = false, .vectors = false}>(list);
        add_scales<PackSpec{}>(list);
        add_scales<PackSpec{.vectors = false}>(list);
        return list;
    }();
    return all;
}

}  // namespace

void run_on_emulator(const PackLaunch& launch) {
    if (launch.blocks == 0) return;
    emulator::launch({.blocks = launch.blocks,
                      .threads = hopper::quantize_threads,
                      .shared_bytes = launch.shared_bytes,
                      .seed = 5,
                      .registers = 128},
                     [&] { kernels().at(kernel_expression(launch.kernel))(launch); });
}

}  // namespace tilewright::tests
