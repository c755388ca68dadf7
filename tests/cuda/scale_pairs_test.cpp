// Kernels of pairs of scales that do not ship are compiled on first use: none of those that the planner chooses among
// spills or is serialised. A sample of them: all would take minutes.
#include <gtest/gtest.h>

#include "cuda/compiler.h"
#include "cuda/ptxas_log.h"
#include "launch/tile_code.h"
#include "plan/pack.h"
#include "plan/shipped_tiles.h"

namespace tilewright::cuda {
namespace {

using hopper::Family;
using hopper::Major;
using hopper::Scaling;
using hopper::Tile;

std::vector<Tile> families() {
    constexpr Scaling none = Scaling::none, end = Scaling::epilogue, rows = Scaling::block_1x128,
                      blocks = Scaling::block_128x128;
    std::vector<Tile> list;
    for (const Family family : {Family::dense, Family::m_grouped, Family::k_grouped, Family::k_mapped}) {
        for (const auto& [a, b] :
             {std::pair{rows, none}, std::pair{rows, end}, std::pair{blocks, none}, std::pair{blocks, blocks}}) {
            const Tile tile{.a = {.scaling = a}, .b = {.scaling = b}, .family = family};
            if (has_fast_scales(tile)) continue;  // folded gradients of weights ship
            list.push_back(tile);
            if (hopper::is_k_grouped(tile)) continue;
            list.push_back(tile);
            list.back().b.major = Major::mn;
            if (family == Family::m_grouped) continue;
            list.push_back(tile);
            list.back().a.major = Major::mn;
        }
    }
    return list;
}

void expect_no_spills(const Compiler& compiler, const Tile& tile) {
    const Compilation compiled =
        compiler.compile({.text = launch::kernel_source, .expression = launch::kernel_expression(tile)});
    for (const std::string& objection : ptxas_objections(compiled.log)) {
        ADD_FAILURE() << launch::describe(tile) << ": " << objection;
    }
}

TEST(ScalePairKernels, DoNotSpill) {
    const Compiler compiler(nvrtc_candidates());
    constexpr std::size_t step = 17;  // all pairs and all families are among them
    std::size_t number = 0;
    for (const Tile& family : families()) {
        const std::vector<Tile> tiles = planner::unshipped_tiles(family);
        EXPECT_FALSE(tiles.empty()) << launch::describe(family);
        for (const Tile& tile : tiles) {
            for (const Tile& kernel : {tile, planner::f32_kernel(tile)}) {
                if (is_fast(kernel) && !planner::has_f32_kernel(tile)) continue;
                if (number++ % step == 0) expect_no_spills(compiler, kernel);
            }
        }
    }
    EXPECT_GT(number, 100U);
}

}  // namespace
}  // namespace tilewright::cuda
