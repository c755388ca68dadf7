// The learning kernel as NVRTC compiles it: without spills, in the registers that its setmaxnreg counts on.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cuda/compiler.h"
#include "cuda/ptxas_log.h"

namespace tilewright::tests {
namespace {

TEST(LearnNvrtc, NeitherSpillsNorSerializes) {
    if (!cuda::OpenLibrary(cuda::nvrtc_candidates()).is_open()) GTEST_SKIP() << "NVRTC was not found";
    std::ifstream file(TILEWRIGHT_LEARNING_KERNEL);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const cuda::Compilation compilation = cuda::Compiler(cuda::nvrtc_candidates())
                                              .compile({.text = text + "#include \"hopper/ptx/ptx_sm90.h\"\n",
                                                        .expression = "tilewright::learn::block_scaled_gemm"});
    EXPECT_EQ(cuda::ptxas_objections(compilation.log), std::vector<std::string>{});
    constexpr int threads = 384, launched = 65536 / threads / 8 * 8;
    EXPECT_EQ(cuda::ptxas_registers(compilation.log), launched);
    // The 40 and 232 of the kernel.
    EXPECT_EQ(40 * 128 + 232 * 256, launched * threads);
}

}  // namespace
}  // namespace tilewright::tests
