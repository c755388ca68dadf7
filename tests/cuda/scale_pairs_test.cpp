// Kernels of pairs of scales that do not ship are compiled on first use. None of those that the planner chooses among
// spills or is serialised. The test compiles a sample, because all would take minutes.
#include <gtest/gtest.h>

#include "cuda/compiler.h"
#include "cuda/ptxas_log.h"
#include "hopper/description/rules.h"
#include "kernel_of_recipe.h"
#include "launch/tile_code.h"
#include "plan/shipped_kernels.h"
#include "plan/shipped_tiles.h"

namespace tilewright::cuda {
namespace {

using hopper::Form;
using hopper::Groups;
using hopper::Kernel;

std::vector<Kernel> families() {
    std::vector<Kernel> list;
    for (const Groups groups : {Groups::none, Groups::rows, Groups::k_aligned, Groups::k_anywhere}) {
        for (const char* recipe : {"1x128:e4m3", "1x128:row", "128x128:e4m3", "128x128:128x128"}) {
            const Kernel kernel = tests::of_recipe(recipe, {.groups = groups});
            if (has_all_outputs(kernel)) continue;  // folded gradients of weights ship
            list.push_back(kernel);
            if (groups == Groups::k_aligned || groups == Groups::k_anywhere) continue;
            list.push_back(kernel);
            list.back().b.form = Form::columns;
            if (groups == Groups::rows) continue;
            list.push_back(kernel);
            list.back().a.form = Form::columns;
        }
    }
    return list;
}

void expect_no_spills(const Compiler& compiler, const Kernel& tile) {
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
    for (const Kernel& shapeless : families()) {
        const std::vector<Kernel> tiles = planner::unshipped_tiles(shapeless);
        EXPECT_FALSE(tiles.empty()) << launch::describe(shapeless);
        for (const Kernel& tile : tiles) {
            for (const Kernel& kernel : {tile, planner::f32_kernel(tile)}) {
                if (kernel.output != hopper::Output::any && !planner::has_f32_kernel(tile)) continue;
                if (number++ % step == 0) expect_no_spills(compiler, kernel);
            }
        }
    }
    EXPECT_GT(number, 100U);
}

}  // namespace
}  // namespace tilewright::cuda
