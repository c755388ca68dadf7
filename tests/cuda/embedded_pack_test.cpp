// The library holds the kernels that it should ship, and gets them without a compiler.
#include <gtest/gtest.h>

#include "cuda/kernel_store.h"
#include "launch/tile_code.h"
#include "plan/pack.h"

namespace tilewright::cuda {
namespace {

TEST(EmbeddedPack, HoldsEveryTileOfTheListOrNothing) {
    const KernelPack& pack = embedded_pack();
    const bool built = TILEWRIGHT_PACK_IS_BUILT;
    EXPECT_EQ(pack.kernels().size(), built ? planner::pack().size() : 0U);
    if (!built) return;
    KernelStore store(pack, DiskCache(""), {});
    for (const hopper::Tile& tile : planner::pack()) {
        const KernelSource source{.text = launch::kernel_source, .expression = launch::kernel_expression(tile)};
        const CompiledKernel kernel = store.get(source);
        EXPECT_EQ(kernel.cubin.substr(0, 4), "\177ELF") << launch::describe(tile);
        EXPECT_NE(kernel.cubin.find(kernel.name), std::string::npos) << launch::describe(tile);
    }
    EXPECT_LE(pack.kernels().size(), 320U);
    EXPECT_LE(pack.bytes(), 32'000'000);
}

}  // namespace
}  // namespace tilewright::cuda
