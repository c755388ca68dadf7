// A kernel that spills or is serialised is found, in made-up logs and in what the real compiler says.
#include "cuda/ptxas_log.h"

#include <gtest/gtest.h>

#include "cuda/compiler.h"
#include "kernel_of_recipe.h"
#include "launch/kernels.h"

namespace tilewright::cuda {
namespace {

constexpr const char* good_log =
    "ptxas info    : Compiling entry function 'f' for 'sm_90a'\n"
    "ptxas info    : Function properties for f\n"
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 168 registers, used 10 barriers\n";

TEST(PtxasLog, NothingToObject) {
    EXPECT_TRUE(ptxas_objections(good_log).empty());
    EXPECT_EQ(ptxas_registers(good_log), 168);
}

TEST(PtxasLog, EachObjectionIsFound) {
    for (const char* line :
         {"    48 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
          "    0 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads",
          "    0 bytes stack frame, 0 bytes spill stores, 8 bytes spill loads",
          "ptxas info    : Used 168 registers, 40 bytes lmem",
          "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized",
          "ptxas warning : (C7508) setmaxnreg ignored to maintain minimum requirements"}) {
        const std::vector<std::string> objections = ptxas_objections(std::string(good_log) + line + "\n");
        ASSERT_EQ(objections.size(), 1U) << line;
        EXPECT_EQ(objections[0], line);
    }
}

TEST(PtxasLog, SilenceIsAnObjection) { EXPECT_EQ(ptxas_objections("").size(), 1U); }

TEST(PtxasLog, ASpillIsFoundInWhatNvrtcSays) {
    // 64 registers for a thread of 1024, and 128 values that live across a barrier.
    const KernelSource source{
        .text =
            "template <int n> __global__ void __launch_bounds__(1024, 1) spill(float* d) {\n"
            "    float v[n];\n"
            "    for (int i = 0; i < n; ++i) v[i] = d[i * 1024 + threadIdx.x];\n"
            "    __syncthreads();\n"
            "    for (int i = 0; i < n; ++i) d[(n - 1 - i) * 1024 + threadIdx.x] = v[i] * v[(i * 7) % n];\n"
            "}\n",
        .expression = "spill<128>"};
    const Compilation compilation = Compiler(nvrtc_candidates()).compile(source);
    EXPECT_FALSE(ptxas_objections(compilation.log).empty()) << compilation.log;
}

TEST(PtxasLog, AKernelOfThePackMayShip) {
    const hopper::Kernel tile =
        tests::of_recipe("1x128:128x128", {.shape = {.m = 64, .n = 32, .warpgroups = 1}, .stages = 8});
    const Compilation compilation =
        Compiler(nvrtc_candidates())
            .compile({.text = launch::kernel_source, .expression = launch::kernel_expression(tile)});
    EXPECT_TRUE(ptxas_objections(compilation.log).empty()) << compilation.log;
    EXPECT_GT(compilation.kernel.cubin.size(), 1000U);
}

}  // namespace
}  // namespace tilewright::cuda
