// The library holds the kernels that it should ship, and gets them without a compiler.
#include <gtest/gtest.h>

#include "cuda/kernel_store.h"
#include "launch/kernels.h"
#include "plan/shipped_kernels.h"

namespace tilewright::cuda {
namespace {

TEST(EmbeddedPack, HoldsEveryKernelOfTheListsOrNothing) {
    const KernelPack& pack = embedded_pack();
    const bool built = TILEWRIGHT_PACK_IS_BUILT;
    const std::vector<launch::OtherKernel> other_kernels = launch::shipped_other_kernels();
    EXPECT_EQ(pack.kernels().size(), built ? planner::shipped_kernels().size() + other_kernels.size() : 0U);
    if (!built) return;
    KernelStore store(pack, DiskCache(""), {});
    const auto expect_shipped = [&](const std::string& expression) {
        const CompiledKernel kernel = store.get({.text = "", .expression = expression});
        EXPECT_EQ(kernel.cubin.substr(0, 4), "\177ELF") << expression;
        EXPECT_NE(kernel.cubin.find(kernel.name), std::string::npos) << expression;
    };
    for (const hopper::Kernel& tile : planner::shipped_kernels()) expect_shipped(launch::kernel_expression(tile));
    for (const launch::OtherKernel& kernel : other_kernels) expect_shipped(launch::kernel_expression(kernel));
    EXPECT_LE(pack.kernels().size(), planner::most_kernels);
    EXPECT_LE(pack.bytes(), static_cast<std::int64_t>(planner::most_pack_bytes));
}

}  // namespace
}  // namespace tilewright::cuda
