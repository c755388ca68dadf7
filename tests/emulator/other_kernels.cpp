#include "emulator/other_kernels.h"

#include "emulator/other_functions.h"

#include <variant>

namespace tilewright::tests {

void run_on_emulator(const launch::OtherLaunch& launch, std::uint64_t seed, emulator::Counts* counts) {
    static const OtherFunctions functions = [] {
        OtherFunctions all;
        add_others<0>(all);
        add_others<1>(all);
        add_others<2>(all);
        return all;
    }();
    const std::string expression = kernel_expression(launch.kernel());
    const auto found = functions.find(expression);
    if (found == functions.end()) throw emulator::Error("tests/emulator lacks " + expression);
    if (launch.blocks == 0) return;
    const auto run = [&](const auto& call) {
        if (found->second.arguments != typeid(call.arguments))
            throw emulator::Error("arguments of another kernel than " + expression);
        found->second.run(&call.arguments);
    };
    emulator::launch({.blocks = launch.blocks,
                      .cluster = launch.cluster,
                      .threads = launch.threads,
                      .shared_bytes = launch.shared_bytes,
                      .seed = seed,
                      .counts = counts},
                     [&] { std::visit(run, launch.call); });
}

void run_on_emulator(const std::vector<launch::OtherLaunch>& launches, std::uint64_t seed) {
    for (const launch::OtherLaunch& launch : launches) run_on_emulator(launch, seed);
}

}  // namespace tilewright::tests
