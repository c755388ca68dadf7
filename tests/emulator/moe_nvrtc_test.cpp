// The kernels around the products of a layer of experts, compiled for a GPU where there is none. Those that ship and
// those with the most in registers do not spill.
#include "cuda/compiler.h"
#include "emulator/nvrtc_objections.h"
#include "launch/moe.h"

#include <gtest/gtest.h>

#include <vector>

namespace tilewright::tests {
namespace {

using namespace hopper;
using launch::MoeFunction;
using launch::MoeKernel;

void expect_no_spills(const std::vector<MoeKernel>& kernels) {
    if (TILEWRIGHT_SAMPLES != 0) GTEST_SKIP() << "NVRTC is the same under sanitizers";
    const cuda::OpenLibrary found(cuda::nvrtc_candidates());
    if (!found.is_open()) GTEST_SKIP() << "NVRTC was not found";
    const cuda::Compiler compiler(cuda::nvrtc_candidates());
    for (const MoeKernel& kernel : kernels) {
        const std::string expression = launch::kernel_expression(kernel);
        expect_ptxas_accepts(compiler, {.text = launch::moe_source, .expression = expression}, expression);
    }
}

TEST(MoeNvrtc, KernelsThatShipDoNotSpill) {
    const std::vector<MoeKernel> kernels = launch::shipped_moe_kernels();
    EXPECT_LE(kernels.size(), 24U + 19);  // of a layer, and between ranks
    expect_no_spills(kernels);
}

TEST(MoeNvrtc, TheLargestKernelsDoNotSpill) {
    std::vector<MoeKernel> kernels{{.function = MoeFunction::weight_gradient}};
    for (const RowOutput output : {RowOutput::f32, RowOutput::scaled_rows, RowOutput::scaled_blocks, RowOutput::mx}) {
        for (const bool vectors : {true, false}) {
            kernels.push_back({.function = MoeFunction::permute,
                               .rows = {.source = Number::f32,
                                        .output = output,
                                        .has_factors = true,
                                        .routes = true,
                                        .vectors = vectors}});
            kernels.push_back({.function = MoeFunction::activate,
                               .rows = {.activates = true, .unit = Unit::situ, .output = output, .vectors = vectors}});
        }
    }
    for (const Number out : {Number::f32, Number::f16}) {
        for (const bool vectors : {true, false}) {
            kernels.push_back({.function = MoeFunction::combine, .sums = {.out = out, .vectors = vectors}});
        }
    }
    expect_no_spills(kernels);
}

}  // namespace
}  // namespace tilewright::tests
