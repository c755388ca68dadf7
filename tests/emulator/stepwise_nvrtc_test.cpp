// Kernels that promote each wgmma, which do not ship, compiled for a GPU where there is none: what they have in
// registers stays there, and ptxas leaves two of their wgmmas under way.
#include <gtest/gtest.h>

#include "cuda/compiler.h"
#include "cuda/ptxas_log.h"
#include "launch/tile_code.h"
#include "plan/pack.h"

namespace tilewright::tests {
namespace {

using hopper::Family;
using hopper::Scaling;
using hopper::Storage;
using hopper::Tile;

TEST(StepwiseNvrtc, TheTilesThatThePlannerTakesDoNotSpill) {
    if (TILEWRIGHT_LIST_STEP > 1) GTEST_SKIP() << "NVRTC is the same under sanitizers";
    const cuda::OpenLibrary found(cuda::nvrtc_candidates());
    if (!found.is_open()) GTEST_SKIP() << "NVRTC was not found";
    const cuda::Compiler compiler(cuda::nvrtc_candidates());
    int compiled = 0;
    for (const Family family : {Family::dense, Family::m_grouped}) {
        const Tile wanted{
            .a = {.scaling = Scaling::block_1x32}, .b = {.storage = Storage::packed_e2m1}, .family = family};
        for (Tile tile : planner::shipped_tiles(wanted)) {
            if (compiled % 2 == 1) tile.b.storage = Storage::windowed_e2m1;
            const std::string expression = launch::kernel_expression(tile);
            const cuda::Compilation result =
                compiler.compile({.text = launch::kernel_source, .expression = expression});
            for (const std::string& objection : cuda::ptxas_objections(result.log)) {
                ADD_FAILURE() << launch::describe(tile) << ": " << objection;
            }
            ++compiled;
        }
    }
    EXPECT_GE(compiled, 12);
}

}  // namespace
}  // namespace tilewright::tests
