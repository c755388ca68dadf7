// Kernels that do not ship, compiled for a GPU without one: their registers do not spill, and ptxas serialises no
// wgmma. They have 1x32 scales, 1x128 : row, weights with wide rows, or NVFP4.
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/compiler.h"
#include "emulator/nvrtc_objections.h"
#include "hopper/tile/mma_tiling.h"
#include "launch/tile_code.h"
#include "plan/pack.h"
#include "plan/shipped_tiles.h"

namespace tilewright::tests {
namespace {

using hopper::Family;
using hopper::Scaling;
using hopper::Storage;
using hopper::Tile;
using hopper::Variant;

/// Those that `why_illegal` accepts, which depends on no size here.
std::vector<Tile> legal_tiles(const Tile& family) {
    std::vector<Tile> list = planner::shipped_tiles(family);
    std::erase_if(list, [](const Tile& tile) {
        const bool narrow = has_packed_weights(tile) || tile.shape.warpgroups <= 2;
        const bool tall = has_packed_weights(tile) && rows_per_warpgroup(tile) != hopper::wgmma_m;
        return tall || shares_operand(tile) || !narrow || mma_registers(tile) > mma_register_budget(tile) ||
               shared_bytes(tile) > hopper::shared_bytes_limit;
    });
    return list;
}

/// Nothing where NVRTC is not to be had, or not worth its time.
std::optional<cuda::Compiler> compiler() {
    if (TILEWRIGHT_LIST_STEP > 1) return std::nullopt;  // NVRTC is the same under sanitizers
    const cuda::OpenLibrary found(cuda::nvrtc_candidates());
    if (!found.is_open()) return std::nullopt;
    return std::optional<cuda::Compiler>(std::in_place, cuda::nvrtc_candidates());
}

void expect_no_objections(const cuda::Compiler& compiler, const Tile& tile) {
    const std::string expression = launch::kernel_expression(tile);
    expect_ptxas_accepts(compiler, {.text = launch::kernel_source, .expression = expression}, launch::describe(tile));
}

/// The two for many rows, and every eighth of all; of packed weights in turns with windows and without.
TEST(StepwiseNvrtc, TheTilesThatThePlannerTakesDoNotSpill) {
    const auto nvrtc = compiler();
    if (!nvrtc) GTEST_SKIP() << "NVRTC was not found";
    std::vector<Tile> tiles;
    for (const Family family : {Family::dense, Family::m_grouped}) {
        const hopper::OperandSpec steps{.scaling = Scaling::block_1x32};
        for (const hopper::OperandSpec& b :
             {hopper::OperandSpec{.storage = Storage::packed_e2m1, .scaling = Scaling::factor}, steps}) {
            for (const Tile& tile : legal_tiles({.a = steps, .b = b, .family = family})) tiles.push_back(tile);
        }
    }
    EXPECT_GE(tiles.size(), 15U);
    const Tile expanded{.a = {.scaling = Scaling::block_1x32}, .b = {.scaling = Scaling::factor}};
    for (const Tile& tile : planner::expanded_tiles(expanded)) expect_no_objections(*nvrtc, tile);
    EXPECT_EQ(tiles.back().shape, planner::step_tile.shape);
    expect_no_objections(*nvrtc, tiles.back());
    for (std::size_t i = 0; i < tiles.size(); i += 8) {
        Tile tile = tiles[i];
        if (has_packed_weights(tile) && i % 16 == 8) tile.b.storage = Storage::windowed_e2m1;
        expect_no_objections(*nvrtc, tile);
    }
}

/// Next to what else has kernels: those of groups that have the most in registers, and some others.
TEST(StepwiseNvrtc, OtherSidesNextToStepsDoNotSpill) {
    const auto nvrtc = compiler();
    if (!nvrtc) GTEST_SKIP() << "NVRTC was not found";
    using Spec = hopper::OperandSpec;
    const Spec fp8{.scaling = Scaling::block_1x32}, repeated{.scaling = Scaling::repeated};
    const Spec bf16{.storage = Storage::bf16, .scaling = Scaling::block_1x32};
    const auto unscaled = [](Scaling scaling) { return Spec{.storage = Storage::bf16, .scaling = scaling}; };
    const Spec nvfp4{.storage = Storage::packed_nvfp4_bf16, .scaling = Scaling::none};
    std::size_t count = 0;
    for (const auto& [a, b] :
         {std::pair{repeated, fp8}, std::pair{fp8, repeated}, std::pair{unscaled(Scaling::none), bf16},
          std::pair{unscaled(Scaling::alpha), bf16}, std::pair{bf16, nvfp4}}) {
        for (const Family kind : {Family::dense, Family::m_grouped}) {
            Tile family{.a = a, .b = b, .family = kind};
            family.mma.promoted = !multiplies_bf16(family);
            family.shape.k = stage_k(family);
            const std::vector<Tile> tiles = legal_tiles(family);
            EXPECT_GE(tiles.size(), 4U);
            for (const Tile& tile : tiles) {
                EXPECT_TRUE(is_consistent(tile)) << launch::describe(tile);
                const bool full = is_grouped(tile) && tile.shape.n == 192 && tile.shape.warpgroups == 1;
                if (count++ % 23 == 0 || full) expect_no_objections(*nvrtc, tile);
            }
        }
    }
}

/// Weights that were expanded to bf16, with all scales that the end and alpha have, dense and of groups in turns.
TEST(ExpandedNvrtc, Bf16DoesNotSpill) {
    const auto nvrtc = compiler();
    if (!nvrtc) GTEST_SKIP() << "NVRTC was not found";
    for (const Scaling a : {Scaling::none, Scaling::alpha}) {
        for (const Scaling b : {Scaling::factor, Scaling::alpha}) {
            const Tile expanded{
                .a = {.storage = Storage::bf16, .scaling = a},
                .b = {.storage = Storage::bf16, .scaling = b},
                .mma = {.promoted = false},
                .family = (a == Scaling::none) == (b == Scaling::factor) ? Family::m_grouped : Family::dense};
            for (const Tile& tile : planner::expanded_tiles(expanded)) expect_no_objections(*nvrtc, tile);
        }
    }
}

/// Next to fp8, in windows: every 17th of those that the planner takes for other weights, in all variants.
TEST(WideRowsNvrtc, WindowsDoNotSpill) {
    const auto nvrtc = compiler();
    if (!nvrtc) GTEST_SKIP() << "NVRTC was not found";
    std::vector<Tile> tiles;
    for (const Family family : {Family::dense, Family::m_grouped}) {
        for (const Scaling scaling : {Scaling::block_1x128, Scaling::epilogue}) {
            const Tile packed{.a = {.scaling = scaling},
                              .b = {.storage = Storage::packed_e2m1, .scaling = Scaling::factor},
                              .family = family};
            for (Tile tile : planner::shipped_tiles(packed)) {
                tile.b.storage = Storage::windowed_e2m1;
                for (const Variant variant : {Variant::fast, Variant::general, Variant::fast_k_major_scales}) {
                    tile.variant = variant;
                    if (is_consistent(tile)) tiles.push_back(tile);
                }
            }
        }
    }
    EXPECT_GE(tiles.size(), 60U);
    for (std::size_t i = 0; i < tiles.size(); i += 17) {
        EXPECT_LE(mma_registers(tiles[i]), mma_register_budget(tiles[i])) << launch::describe(tiles[i]);
        // The loop of rows that leave powers of two spills 124 bytes (docs/experiments/026-deferred-powers-of-two.md).
        const bool spills = tiles[i].shape.n == 96 && tiles[i].a.scaling == Scaling::block_1x128;
        if (!spills) expect_no_objections(*nvrtc, tiles[i]);
    }
}

/// All tiles that ship for other weights. Every second one is compiled, with bf16 and NVFP4 activations in turns.
TEST(WideRowsNvrtc, TheTilesThatThePlannerTakesDoNotSpill) {
    const auto nvrtc = compiler();
    if (!nvrtc) GTEST_SKIP() << "NVRTC was not found";
    const hopper::OperandSpec tokens{.storage = Storage::bf16, .scaling = Scaling::none};
    std::size_t count = 0;
    for (const Family family : {Family::dense, Family::m_grouped}) {
        for (Tile tile : planner::shipped_tiles({.a = tokens,
                         .b = {.storage = Storage::packed_mxfp4_bf16, .scaling = Scaling::factor},
                         .mma = {.promoted = false},
                         .family = family})) {
            tile.b.storage = Storage::wide_mxfp4_bf16;
            if (count / 2 % 2 == 1) tile.a.scaling = Scaling::alpha;
            EXPECT_LE(mma_registers(tile), mma_register_budget(tile)) << launch::describe(tile);
            if (count++ % 2 == 0) expect_no_objections(*nvrtc, tile);
        }
    }
    EXPECT_EQ(count, 9U);
}

std::vector<Tile> nvfp4_tiles(Scaling tokens, Family family) {
    return planner::shipped_tiles({.a = {.storage = Storage::bf16, .scaling = tokens},
                                   .b = {.storage = Storage::packed_nvfp4_bf16, .scaling = Scaling::none},
                                   .mma = {.promoted = false},
                                   .family = family});
}

/// Scales of NaN take no instruction more than others: the kernels that decode them are those of the design's count.
TEST(WideRowsNvrtc, Nvfp4DoesNotSpill) {
    const auto nvrtc = compiler();
    if (!nvrtc) GTEST_SKIP() << "NVRTC was not found";
    for (const Tile& tile : nvfp4_tiles(Scaling::none, Family::dense)) expect_no_objections(*nvrtc, tile);
}

/// Next to what was fp8: every fourth, the widest among them, which have the most in registers.
TEST(Nvfp4Nvrtc, ScalesOfFp8DoNotSpill) {
    const auto nvrtc = compiler();
    if (!nvrtc) GTEST_SKIP() << "NVRTC was not found";
    std::size_t count = 0;
    for (const Scaling scaling : {Scaling::block_1x128, Scaling::epilogue}) {
        for (const Family family : {Family::dense, Family::m_grouped}) {
            for (const Tile& tile : nvfp4_tiles(scaling, family)) {
                EXPECT_LE(mma_registers(tile), mma_register_budget(tile)) << launch::describe(tile);
                if (count++ % 4 == 0) expect_no_objections(*nvrtc, tile);
            }
        }
    }
    EXPECT_EQ(count, 18U);
}

}  // namespace
}  // namespace tilewright::tests
