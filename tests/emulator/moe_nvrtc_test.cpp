// The kernels around the products of a layer of experts, compiled for a GPU where there is none. Those that ship and
// those with the most in registers do not spill.
#include "emulator/nvrtc_objections.h"

#include <gtest/gtest.h>

#include <vector>

namespace tilewright::tests {
namespace {

using namespace hopper;
using Kernels = std::vector<launch::OtherKernel>;

TEST(MoeNvrtc, KernelsThatShipDoNotSpill) {
    Kernels kernels = launch::shipped_other_kernels();
    std::erase_if(kernels, [](const auto& kernel) { return source_of(kernel) != launch::moe_source; });
    EXPECT_LE(kernels.size(), 24U + 19);  // of a layer, and between ranks
    expect_no_spills(kernels);
}

TEST(MoeNvrtc, TheLargestKernelsDoNotSpill) {
    Kernels kernels{launch::UnitGradient{}, launch::WeightGradient{}};
    for (const RowOutput output : {RowOutput::f32, RowOutput::scaled_rows, RowOutput::scaled_blocks, RowOutput::mx}) {
        for (const bool vectors : {true, false}) {
            kernels.emplace_back(launch::Permute{
                {.source = Number::f32, .output = output, .has_factors = true, .routes = true, .vectors = vectors}});
            kernels.emplace_back(
                launch::Activate{{.activates = true, .unit = Unit::situ, .output = output, .vectors = vectors}});
        }
    }
    for (const Number out : {Number::f32, Number::f16}) {
        for (const bool vectors : {true, false}) {
            kernels.emplace_back(launch::Combine{{.out = out, .vectors = vectors}});
            kernels.emplace_back(launch::Combine{{.rows = Number::f32, .out = out, .vectors = vectors}});
        }
    }
    // A group that sends sums in f32.
    kernels.emplace_back(launch::Combine{{.out = Number::f32, .to_ranks = true}});
    for (const bool meets : {false, true}) kernels.emplace_back(launch::Combine{{.rows = Number::f32, .meets = meets}});
    expect_no_spills(kernels);
}

}  // namespace
}  // namespace tilewright::tests
