// Kernels that do not ship, compiled for a GPU without one: their registers do not spill, and ptxas serialises no
// wgmma. They have 1x32 scales, 1x128 : row, weights with wide rows, or NVFP4.
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/compiler.h"
#include "emulator/nvrtc_objections.h"
#include "hopper/description/derive.h"
#include "hopper/description/rules.h"
#include "kernel_of_recipe.h"
#include "launch/tile_code.h"
#include "plan/kernel_class.h"
#include "plan/shipped_kernels.h"
#include "plan/shipped_tiles.h"

namespace tilewright::tests {
namespace {

using hopper::Groups;
using hopper::Kernel;

constexpr Groups kinds_of_groups[] = {Groups::none, Groups::rows};

/// The class of kernels of a recipe; `expanded`: its FP4 weights were expanded to this format.
Kernel family_of(const char* recipe, Groups groups, std::optional<Format> expanded = std::nullopt) {
    const Recipe parsed = parse_recipe(recipe).value();
    const bool bf16 = canonical_order(parsed, Accumulation::promoted)->step == StepKind::bf16;
    const Format a = bf16 ? Format::bf16 : parsed.a.values;
    const Format b = expanded ? *expanded : bf16 && parsed.b.values != Format::e2m1 ? Format::bf16 : parsed.b.values;
    Kernel shapeless = planner::kernel_class(parsed, Accumulation::promoted, a, b);
    if (b == Format::e2m1) {
        shapeless = planner::with_packed_weights(shapeless);
        shapeless.swap_ab = false;
    }
    shapeless.groups = groups;
    return shapeless;
}

/// Those that `why_illegal` accepts, which depends on no size here.
std::vector<Kernel> legal_tiles(const Kernel& shapeless) {
    std::vector<Kernel> list = planner::shipped_tiles(shapeless);
    std::erase_if(list, [](const Kernel& kernel) {
        const hopper::Design tile = design_of(kernel);
        const bool narrow = tile.b.is_packed() || tile.shape.warpgroups <= 2;
        const bool tall = tile.b.is_packed() && tile.rows_per_warpgroup != hopper::wgmma_m;
        return tall || tile.cluster.shares_operand() || !narrow || tile.mma_registers() > tile.mma_register_budget ||
               tile.shared_bytes > hopper::shared_bytes_limit;
    });
    return list;
}

/// Nothing where NVRTC is not to be had, or not worth its time.
std::optional<cuda::Compiler> compiler() {
    if (TILEWRIGHT_SAMPLES != 0) return std::nullopt;  // NVRTC is the same under sanitizers
    const cuda::OpenLibrary found(cuda::nvrtc_candidates());
    if (!found.is_open()) return std::nullopt;
    return std::optional<cuda::Compiler>(std::in_place, cuda::nvrtc_candidates());
}

void expect_no_objections(const cuda::Compiler& compiler, const Kernel& tile) {
    const std::string expression = launch::kernel_expression(tile);
    expect_ptxas_accepts(compiler, {.text = launch::kernel_source, .expression = expression}, launch::describe(tile));
}

void expect_registers(const Kernel& tile) {
    const hopper::Design design = design_of(tile);
    EXPECT_LE(design.mma_registers(), design.mma_register_budget) << launch::describe(tile);
}

/// The two for many rows, and every eighth of all; of packed weights in turns with windows and without.
TEST(StepwiseNvrtc, TheTilesThatThePlannerTakesDoNotSpill) {
    const auto nvrtc = compiler();
    if (!nvrtc) GTEST_SKIP() << "NVRTC was not found";
    std::vector<Kernel> tiles;
    for (const Groups groups : kinds_of_groups) {
        for (const char* recipe : {"mxfp8:mxfp4", "mxfp8:mxfp8"}) {
            for (const Kernel& tile : legal_tiles(family_of(recipe, groups))) tiles.push_back(tile);
        }
    }
    EXPECT_GE(tiles.size(), 15U);
    const Kernel expanded = family_of("mxfp8:mxfp4", Groups::none, Format::e4m3);
    for (const Kernel& tile : planner::expanded_tiles(expanded)) expect_no_objections(*nvrtc, tile);
    EXPECT_EQ(tiles.back().shape, planner::step_tile.shape);
    expect_no_objections(*nvrtc, tiles.back());
    for (std::size_t i = 0; i < tiles.size(); i += 8) {
        Kernel tile = tiles[i];
        if (tile.b.is_packed() && i % 16 == 8) tile.wide_rows = true;
        expect_no_objections(*nvrtc, tile);
    }
}

/// Next to what else has kernels: those of groups that have the most in registers, and some others.
TEST(StepwiseNvrtc, OtherSidesNextToStepsDoNotSpill) {
    const auto nvrtc = compiler();
    if (!nvrtc) GTEST_SKIP() << "NVRTC was not found";
    std::size_t count = 0;
    for (const char* recipe : {"row:mxfp8", "mxfp8:row", "bf16:mxfp8", "nvfp4:mxfp8", "mxfp8:nvfp4"}) {
        for (const Groups groups : kinds_of_groups) {
            const Kernel shapeless = family_of(recipe, groups);
            const std::vector<Kernel> tiles = legal_tiles(shapeless);
            EXPECT_GE(tiles.size(), 4U);
            for (const Kernel& tile : tiles) {
                EXPECT_EQ(contradiction(tile), nullptr) << launch::describe(tile);
                const bool full =
                    tile.groups == hopper::Groups::rows && tile.shape.n == 192 && tile.shape.warpgroups == 1;
                if (count++ % 23 == 0 || full) expect_no_objections(*nvrtc, tile);
            }
        }
    }
}

/// Weights that were expanded to bf16, with all scales that the end and alpha have, dense and of groups in turns.
TEST(ExpandedNvrtc, Bf16DoesNotSpill) {
    const auto nvrtc = compiler();
    if (!nvrtc) GTEST_SKIP() << "NVRTC was not found";
    bool grouped = true;
    for (const char* recipe : {"bf16:mxfp4", "bf16:nvfp4", "nvfp4:nvfp4", "nvfp4:mxfp4"}) {
        const Kernel expanded = family_of(recipe, grouped ? Groups::rows : Groups::none, Format::bf16);
        for (const Kernel& tile : planner::expanded_tiles(expanded)) expect_no_objections(*nvrtc, tile);
        grouped = !grouped;
    }
}

/// With fp8, in windows: every 17th of those that the planner takes for other weights, for all outputs.
TEST(WideRowsNvrtc, WindowsDoNotSpill) {
    const auto nvrtc = compiler();
    if (!nvrtc) GTEST_SKIP() << "NVRTC was not found";
    std::vector<Kernel> tiles;
    for (const Groups groups : kinds_of_groups) {
        for (const char* recipe : {"1x128:mxfp4", "row:mxfp4"}) {
            for (Kernel tile : planner::shipped_tiles(family_of(recipe, groups))) {
                tile.wide_rows = true;
                tiles.push_back(tile);
                tile.output = hopper::Output::bf16_by_tma;
                tiles.push_back(tile);
                tile.scale_order = hopper::ScaleOrder::along_k;
                if (contradiction(tile) == nullptr) tiles.push_back(tile);
            }
        }
    }
    EXPECT_GE(tiles.size(), 60U);
    for (std::size_t i = 0; i < tiles.size(); i += 17) {
        const hopper::Design design = design_of(tiles[i]);
        EXPECT_LE(design.mma_registers(), design.mma_register_budget) << launch::describe(tiles[i]);
        // The loop of rows that leave powers of two spills 124 bytes (docs/experiments/026-deferred-powers-of-two.md).
        const bool spills = tiles[i].shape.n == 96 && has_1x128_scales(tiles[i].a, tiles[i].order.a);
        if (!spills) expect_no_objections(*nvrtc, tiles[i]);
    }
}

/// All tiles that ship for other weights. Every second one is compiled, with bf16 and NVFP4 activations in turns.
TEST(WideRowsNvrtc, TheTilesThatThePlannerTakesDoNotSpill) {
    const auto nvrtc = compiler();
    if (!nvrtc) GTEST_SKIP() << "NVRTC was not found";
    std::size_t count = 0;
    for (const Groups groups : kinds_of_groups) {
        for (Kernel tile : planner::shipped_tiles(family_of("bf16:mxfp4", groups))) {
            tile.wide_rows = true;
            if (count / 2 % 2 == 1) tile = tests::with_scales(tile, family_of("nvfp4:mxfp4", groups));
            expect_registers(tile);
            if (count++ % 2 == 0) expect_no_objections(*nvrtc, tile);
        }
    }
    EXPECT_EQ(count, 9U);
}

/// Scales of NaN take no instruction more than others: the kernels that decode them are those of the design's count.
TEST(WideRowsNvrtc, Nvfp4DoesNotSpill) {
    const auto nvrtc = compiler();
    if (!nvrtc) GTEST_SKIP() << "NVRTC was not found";
    for (const Kernel& tile : planner::shipped_tiles(family_of("bf16:nvfp4", Groups::none)))
        expect_no_objections(*nvrtc, tile);
}

/// Next to what was fp8: every fourth, the widest among them, which have the most in registers.
TEST(Nvfp4Nvrtc, ScalesOfFp8DoNotSpill) {
    const auto nvrtc = compiler();
    if (!nvrtc) GTEST_SKIP() << "NVRTC was not found";
    std::size_t count = 0;
    for (const char* recipe : {"1x128:nvfp4", "row:nvfp4"}) {
        for (const Groups groups : kinds_of_groups) {
            for (const Kernel& tile : planner::shipped_tiles(family_of(recipe, groups))) {
                expect_registers(tile);
                if (count++ % 4 == 0) expect_no_objections(*nvrtc, tile);
            }
        }
    }
    EXPECT_EQ(count, 18U);
}

}  // namespace
}  // namespace tilewright::tests
