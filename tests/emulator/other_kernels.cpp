#include "emulator/other_kernels.h"

#include "emulator/pack_kernels.h"

namespace tilewright::tests {
namespace {

void add_packers(OtherFunctions& all) {
    for (const Packers& each : packers()) {
        add(all, launch::PackTiles{each.spec}, each.tiles);
        add(all, launch::PackHeads{each.spec}, each.heads);
        add(all, launch::PackRest{each.spec}, each.rest);
        if (each.scales != nullptr) add(all, launch::PackScales{each.spec}, each.scales);
    }
}

}  // namespace

void run_on_emulator(const launch::OtherLaunch& launch, std::uint64_t seed, emulator::Counts* counts) {
    static const OtherFunctions functions = [] {
        OtherFunctions all;
        add_quantizers(all);
        add_packers(all);
        add_kernels_of_layers(all);
        return all;
    }();
    const std::string expression = kernel_expression(launch.kernel());
    const auto found = functions.find(expression);
    if (found == functions.end()) throw emulator::Error("tests/emulator lacks " + expression);
    if (launch.blocks == 0) return;
    emulator::launch({.blocks = launch.blocks,
                      .cluster = launch.cluster,
                      .threads = launch.threads,
                      .shared_bytes = launch.shared_bytes,
                      .seed = seed,
                      .counts = counts},
                     [&] { found->second(launch); });
}

void run_on_emulator(const std::vector<launch::OtherLaunch>& launches, std::uint64_t seed) {
    for (const launch::OtherLaunch& launch : launches) run_on_emulator(launch, seed);
}

}  // namespace tilewright::tests
