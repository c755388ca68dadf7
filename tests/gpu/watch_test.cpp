// A load that never arrives: the kernel ends, the next call throws what it reports, and the GPU works on.
#include <gtest/gtest.h>
#include <tilewright/error.h>
#include <tilewright/run.h>

#include <string>
#include <vector>

#include "cuda/runtime.h"
#include "gpu/gpu_case.h"
#include "gpu/recipes.h"
#include "kernel_of_recipe.h"
#include "launch/kernels.h"
#include "plan/shipped_kernels.h"

namespace tilewright::test {
namespace {

constexpr int watched_count = 3;  // each time-out takes some 20 seconds

/// Dense 1x128 : 128x128 tiles of the pack, of several kinds, that serve the test's case.
std::vector<hopper::Kernel> watched_tiles() {
    std::vector<hopper::Kernel> tiles;
    for (const hopper::Kernel& tile : planner::shipped_kernels()) {
        const hopper::Kernel of_recipe = tests::of_recipe("1x128:128x128");
        const bool same_scales = tile.order == of_recipe.order && tile.a == of_recipe.a && tile.b == of_recipe.b;
        const bool serves = tile.groups == hopper::Groups::none && tile.output == hopper::Output::any;
        if (same_scales && serves) tiles.push_back(tile);
    }
    std::vector<hopper::Kernel> some;
    for (std::size_t i = 0; i < watched_count && i < tiles.size(); ++i)
        some.push_back(tiles[i * tiles.size() / watched_count]);
    return some;
}

TEST(GpuWatch, AKernelWhoseLoadsLackBytesEndsAndSaysWhereItWaited) {
    const CurrentDevice current;
    cuda::Device& device = cuda::runtime().device(0);
    int ran = 0;
    for (const hopper::Kernel& tile : watched_tiles()) {
        SCOPED_TRACE(launch::describe(tile));
        const GpuCase gpu({.recipe = recipe_of("1x128:128x128"), .m = 512, .n = 512, .k = 4096});
        const Geometry geometry = gpu.geometry();
        launch::Launch launch = launch::lower(geometry, planner::given_kernel(geometry, tile), device.sms());
        launch.b->box[1] /= 2;  // rows: half of the bytes that a full barrier waits for
        cuda::ReadyLaunch ready = device.ready(device.kernel(tile), launch);
        device.launch(ready, {});
        cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", 0);
        try {
            device.check_report();
            ADD_FAILURE() << "no report";
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("waited for barrier `empty`"), std::string::npos) << error.what();
        }
        ++ran;
    }
    EXPECT_EQ(ran, watched_count);
    const GpuCase after({.recipe = recipe_of("1x128:128x128"), .m = 100, .n = 128, .k = 256});
    run(after.problem());
    cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", 0);
    EXPECT_EQ(after.difference(), "");
}

}  // namespace
}  // namespace tilewright::test
