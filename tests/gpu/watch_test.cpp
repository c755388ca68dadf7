// A load that never arrives: the kernel ends, the next call throws what it reports, and the GPU works on.
#include <gtest/gtest.h>
#include <tilewright/error.h>
#include <tilewright/run.h>

#include <string>
#include <vector>

#include "cuda/runtime.h"
#include "gpu/gpu_case.h"
#include "gpu/recipes.h"
#include "hopper/tile/feeds.h"
#include "launch/tile_code.h"
#include "plan/pack.h"

namespace tilewright::test {
namespace {

constexpr int watched_count = 3;  // each time-out takes some 20 seconds

/// Dense 1x128 : 128x128 tiles of the pack that a case of its own shape serves, of several kinds.
std::vector<hopper::Tile> watched_tiles() {
    std::vector<hopper::Tile> tiles;
    for (const hopper::Tile& tile : planner::pack()) {
        const bool block_scaled =
            tile.a.scaling == hopper::Scaling::block_1x128 && tile.b.scaling == hopper::Scaling::block_128x128;
        const bool serves = !has_scheduler(tile) && !feeds_registers(tile) && tile.variant == hopper::Variant::general;
        if (block_scaled && serves) tiles.push_back(tile);
    }
    std::vector<hopper::Tile> some;
    for (std::size_t i = 0; i < watched_count && i < tiles.size(); ++i)
        some.push_back(tiles[i * tiles.size() / watched_count]);
    return some;
}

TEST(GpuWatch, AKernelWhoseLoadsLackBytesEndsAndSaysWhereItWaited) {
    const CurrentDevice current;
    cuda::Device& device = cuda::runtime().device(0);
    int ran = 0;
    for (const hopper::Tile& tile : watched_tiles()) {
        SCOPED_TRACE(launch::describe(tile));
        const GpuCase gpu({.recipe = recipe_of("1x128:128x128"), .m = 512, .n = 512, .k = 4096});
        launch::Launch launch = launch::lower(gpu.geometry(), tile, device.sms());
        launch.b.box[1] /= 2;  // rows: half of the bytes that a full barrier waits for
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
