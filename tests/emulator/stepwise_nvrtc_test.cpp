// Kernels that promote each wgmma, which do not ship, compiled for a GPU where there is none: what they have in
// registers stays there, and ptxas leaves two of their wgmmas under way.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "cuda/compiler.h"
#include "cuda/ptxas_log.h"
#include "hopper/tile/mma_tiling.h"
#include "launch/tile_code.h"
#include "plan/pack.h"

namespace tilewright::tests {
namespace {

using hopper::Family;
using hopper::Scaling;
using hopper::Storage;
using hopper::Tile;

/// Those that `why_illegal` accepts, which depends on no size here.
std::vector<Tile> legal_tiles(const Tile& family) {
    std::vector<Tile> list = planner::shipped_tiles(family);
    std::erase_if(list, [](const Tile& tile) {
        const bool narrow = has_packed_weights(tile) || tile.shape.warpgroups <= 2;
        return rows_per_warpgroup(tile) != hopper::wgmma_m || shares_operand(tile) || !narrow ||
               mma_registers(tile) > mma_register_budget(tile) || shared_bytes(tile) > hopper::shared_bytes_limit;
    });
    return list;
}

/// Every fourth one; of packed weights in turns with windows and without.
TEST(StepwiseNvrtc, TheTilesThatThePlannerTakesDoNotSpill) {
    if (TILEWRIGHT_LIST_STEP > 1) GTEST_SKIP() << "NVRTC is the same under sanitizers";
    const cuda::OpenLibrary found(cuda::nvrtc_candidates());
    if (!found.is_open()) GTEST_SKIP() << "NVRTC was not found";
    const cuda::Compiler compiler(cuda::nvrtc_candidates());
    std::vector<Tile> tiles;
    for (const Family family : {Family::dense, Family::m_grouped}) {
        const hopper::OperandSpec steps{.scaling = Scaling::block_1x32};
        for (const hopper::OperandSpec& b : {hopper::OperandSpec{.storage = Storage::packed_e2m1}, steps}) {
            for (const Tile& tile : legal_tiles({.a = steps, .b = b, .family = family})) tiles.push_back(tile);
        }
    }
    EXPECT_GE(tiles.size(), 15U);
    for (std::size_t i = 0; i < tiles.size(); i += 4) {
        Tile tile = tiles[i];
        if (has_packed_weights(tile) && i % 8 == 4) tile.b.storage = Storage::windowed_e2m1;
        const std::string expression = launch::kernel_expression(tile);
        const cuda::Compilation result = compiler.compile({.text = launch::kernel_source, .expression = expression});
        for (const std::string& objection : cuda::ptxas_objections(result.log)) {
            ADD_FAILURE() << launch::describe(tile) << ": " << objection;
        }
    }
}

}  // namespace
}  // namespace tilewright::tests
