// The library holds the kernels that it should ship, and gets them without a compiler.
#include <gtest/gtest.h>

#include "cuda/kernel_store.h"
#include "launch/moe.h"
#include "launch/quantize.h"
#include "launch/tile_code.h"
#include "launch/weight_packing.h"
#include "plan/pack.h"

namespace tilewright::cuda {
namespace {

TEST(EmbeddedPack, HoldsEveryKernelOfTheListsOrNothing) {
    const KernelPack& pack = embedded_pack();
    const bool built = TILEWRIGHT_PACK_IS_BUILT;
    const std::size_t all = planner::pack().size() + launch::shipped_quantizers().size() +
                            launch::shipped_packers().size() + launch::shipped_moe_kernels().size();
    EXPECT_EQ(pack.kernels().size(), built ? all : 0U);
    if (!built) return;
    KernelStore store(pack, DiskCache(""), {});
    const auto expect_shipped = [&](const std::string& expression) {
        const CompiledKernel kernel = store.get({.text = "", .expression = expression});
        EXPECT_EQ(kernel.cubin.substr(0, 4), "\177ELF") << expression;
        EXPECT_NE(kernel.cubin.find(kernel.name), std::string::npos) << expression;
    };
    for (const hopper::Kernel& tile : planner::pack()) expect_shipped(launch::kernel_expression(tile));
    for (const launch::QuantizeKernel& kernel : launch::shipped_quantizers()) {
        expect_shipped(launch::kernel_expression(kernel));
    }
    for (const launch::PackKernel& kernel : launch::shipped_packers()) {
        expect_shipped(launch::kernel_expression(kernel));
    }
    for (const launch::MoeKernel& kernel : launch::shipped_moe_kernels()) {
        expect_shipped(launch::kernel_expression(kernel));
    }
    EXPECT_LE(pack.kernels().size(), planner::most_kernels);
    EXPECT_LE(pack.bytes(), static_cast<std::int64_t>(planner::most_pack_bytes));
}

}  // namespace
}  // namespace tilewright::cuda
