// Kernels compiled for a GPU where there is none: their registers do not spill, and ptxas serialises no wgmma. These
// are products that do not ship, and of the other kernels those that ship and those that have the most in registers. A
// kernel without objections is kept in the cache of the pack, which keeps no others (src/cuda/build_pack.cpp).
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cuda/compiler.h"
#include "cuda/disk_cache.h"
#include "cuda/ptxas_log.h"
#include "hopper/description/design.h"
#include "kernel_of_recipe.h"
#include "launch/kernels.h"
#include "plan/kernel_class.h"
#include "plan/shipped_kernels.h"
#include "plan/shipped_tiles.h"

namespace tilewright::tests {
namespace {

using namespace hopper;
using hopper::Groups, hopper::Kernel;
using launch::Activate, launch::Combine, launch::DecodeCodes, launch::ExpandWeights, launch::Permute, launch::Quantize;

class Spills : public testing::Test {
protected:
    void SetUp() override {
        if (!cuda::OpenLibrary(cuda::nvrtc_candidates()).is_open()) GTEST_SKIP() << "NVRTC was not found";
        compiler_.emplace(cuda::nvrtc_candidates());
    }

    void expect_none(const cuda::KernelSource& source, const std::string& description) const {
        const cuda::DiskCache cache(TILEWRIGHT_KERNEL_CACHE);
        const std::string key = compiler_->key(source);
        if (cache.load(key)) return;
        const cuda::Compilation compilation = compiler_->compile(source);
        const std::vector<std::string> objections = cuda::ptxas_objections(compilation.log);
        for (const std::string& objection : objections) ADD_FAILURE() << description << ": " << objection;
        if (objections.empty()) cache.store(key, compilation.kernel);
    }
    void expect_none(const std::vector<launch::OtherKernel>& kernels) const {
        for (const launch::OtherKernel& kernel : kernels) {
            const std::string expression = kernel_expression(kernel);
            expect_none({.text = source_of(kernel), .expression = expression}, expression);
        }
    }
    /// All of the products have the registers that the design counts with; these of them are compiled.
    void expect_none(const std::vector<Kernel>& tiles, bool (*is_compiled)(std::size_t)) const {
        for (std::size_t i = 0; i < tiles.size(); ++i) {
            const Design design = hopper::Design(tiles[i]);
            EXPECT_LE(design.mma_registers, design.mma_register_budget) << launch::describe(tiles[i]);
            EXPECT_EQ(planner::contradiction(tiles[i]), nullptr) << launch::describe(tiles[i]);
            if (!is_compiled(i)) continue;
            const std::string expression = launch::kernel_expression(tiles[i]);
            expect_none({.text = launch::kernel_source, .expression = expression}, launch::describe(tiles[i]));
        }
    }

private:
    std::optional<cuda::Compiler> compiler_;
};

// ---- Products

using Texts = std::vector<const char*>;
using Tiles = std::vector<Kernel>;

constexpr bool all(std::size_t /*place*/) { return true; }
constexpr bool nothing(std::size_t /*place*/) { return false; }
template <std::size_t step>
constexpr bool every(std::size_t place) {
    return place % step == 0;
}

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

/// The tiles that `why_illegal` accepts. No size matters here.
Tiles legal_tiles(const Kernel& shapeless) {
    Tiles list = planner::shipped_tiles(shapeless);
    std::erase_if(list, [](const Kernel& kernel) {
        const Design tile = hopper::Design(kernel);
        const bool narrow = tile.b.is_packed() || tile.shape.warpgroups <= 2;
        const bool tall = tile.b.is_packed() && tile.rows_per_warpgroup != wgmma_m;
        return tall || tile.cluster.shares_operand() || !narrow || tile.mma_registers > tile.mma_register_budget ||
               tile.shared_bytes > shared_bytes_limit;
    });
    return list;
}

/// Adds the kernels of a tile for each output.
void add_outputs(Kernel tile, Tiles& list) {
    list.push_back(tile);
    if (planner::has_f32_kernel(tile)) list.push_back(planner::f32_kernel(tile));
    tile.output = Output::bf16_by_tma;
    for (const bool along_k : {false, true}) {
        tile.scales_along_k = along_k;
        if (planner::contradiction(tile) == nullptr) list.push_back(tile);
    }
}

/// The tiles of recipes, dense and of groups of rows, in the order of the caller's loops: `groups_first` or recipes.
template <class TilesOf>
Tiles tiles_of(const Texts& recipes, bool groups_first, TilesOf tiles) {
    Tiles list;
    for (std::size_t i = 0; i < 2 * recipes.size(); ++i) {
        const std::size_t group = groups_first ? i / recipes.size() : i % 2;
        const char* const recipe = recipes[groups_first ? i % recipes.size() : i / 2];
        for (const Kernel& tile : tiles(family_of(recipe, group == 0 ? Groups::none : Groups::rows)))
            list.push_back(tile);
    }
    return list;
}

/// The two for many rows, and every 16th of all; of packed weights in turns with windows and without.
TEST_F(Spills, StepsHaveNone) {
    Tiles tiles = tiles_of({"mxfp8:mxfp4", "mxfp8:mxfp8"}, true, legal_tiles);
    EXPECT_GE(tiles.size(), 15U);
    EXPECT_EQ(tiles.back().shape, planner::step_tile.shape);
    expect_none({tiles.back()}, all);
    for (std::size_t i = 16; i < tiles.size(); i += 32) tiles[i].wide_rows = tiles[i].b.is_packed();
    expect_none(tiles, every<16>);
    expect_none(planner::expanded_tiles(family_of("mxfp8:mxfp4", Groups::none, Format::e4m3)), all);
}

/// With what else has kernels: those of groups that have the most in registers, and some others.
TEST_F(Spills, OtherSidesWithStepsHaveNone) {
    const Tiles tiles =
        tiles_of({"row:mxfp8", "mxfp8:row", "bf16:mxfp8", "nvfp4:mxfp8", "mxfp8:nvfp4"}, false, legal_tiles);
    EXPECT_GE(tiles.size(), 40U);
    expect_none(tiles, every<37>);
    for (const Kernel& tile : tiles) {
        if (tile.groups == Groups::rows && tile.shape.n == 192 && tile.shape.warpgroups == 1) expect_none({tile}, all);
    }
}

/// Weights that were expanded to bf16, with all scales that the end and alpha have, dense and of groups in turns.
TEST_F(Spills, ExpandedWeightsHaveNone) {
    bool grouped = true;
    for (const char* recipe : {"bf16:mxfp4", "bf16:nvfp4", "nvfp4:nvfp4", "nvfp4:mxfp4"}) {
        const Groups groups = grouped ? Groups::rows : Groups::none;
        expect_none(planner::expanded_tiles(family_of(recipe, groups, Format::bf16)), all);
        grouped = !grouped;
    }
}

/// Wide rows with fp8, in windows: every 29th of those that the planner takes for other weights, for all outputs.
TEST_F(Spills, WindowsHaveNone) {
    Tiles tiles;
    for (Kernel tile : tiles_of({"1x128:mxfp4", "row:mxfp4"}, true, planner::shipped_tiles)) {
        tile.wide_rows = true;
        add_outputs(tile, tiles);
    }
    EXPECT_GE(tiles.size(), 60U);
    for (std::size_t i = 0; i < tiles.size(); i += 29) {
        // The loop of rows that leave powers of two spills 124 bytes (docs/experiments/026-deferred-powers-of-two.md).
        const bool spills = tiles[i].shape.n == 96 && planner::has_1x128_scales(tiles[i].a, tiles[i].order.a);
        expect_none({tiles[i]}, spills ? nothing : all);
    }
}

/// Wide rows with bf16: every third of all tiles that ship for other weights, with NVFP4 activations in turns.
TEST_F(Spills, WideRowsWithBf16HaveNone) {
    Tiles tiles = tiles_of({"bf16:mxfp4"}, true, planner::shipped_tiles);
    EXPECT_EQ(tiles.size(), 11U);
    for (std::size_t i = 0; i < tiles.size(); ++i) {
        tiles[i].wide_rows = true;
        if (i / 2 % 2 == 1) tiles[i] = with_scales(tiles[i], family_of("nvfp4:mxfp4", tiles[i].groups));
    }
    expect_none(tiles, every<3>);
}

/// Scales of NaN take no instruction more than others. Every second; with what was fp8, every seventh.
TEST_F(Spills, Nvfp4HasNone) {
    expect_none(planner::shipped_tiles(family_of("bf16:nvfp4", Groups::none)), every<2>);
    const Tiles tiles = tiles_of({"1x128:nvfp4", "row:nvfp4"}, false, planner::shipped_tiles);
    EXPECT_EQ(tiles.size(), 22U);
    expect_none(tiles, every<7>);
}

/// Pairs of scales without shipped kernels, for each output: every 29th.
TEST_F(Spills, UnshippedPairsHaveNone) {
    Tiles tiles;
    const auto add = [&](Kernel shapeless, Form a, Form b) {
        shapeless.a.form = a;
        shapeless.b.form = b;
        const Tiles of_pair = planner::unshipped_tiles(shapeless);
        EXPECT_FALSE(of_pair.empty()) << launch::describe(shapeless);
        for (const Kernel& tile : of_pair) {
            add_outputs(tile, tiles);
        }
    };
    for (const Groups groups : {Groups::none, Groups::rows, Groups::k_aligned, Groups::k_anywhere}) {
        for (const char* recipe : {"1x128:e4m3", "1x128:row", "128x128:e4m3", "128x128:128x128"}) {
            const Kernel pair = family_of(recipe, groups);
            if (!planner::shipped_tiles(pair).empty()) continue;  // folded gradients of weights
            add(pair, Form::rows, Form::rows);
            if (pair.is_k_grouped()) continue;
            add(pair, Form::rows, Form::columns);
            if (groups == Groups::none) add(pair, Form::columns, Form::rows);
        }
    }
    EXPECT_GT(tiles.size(), 100U);
    expect_none(tiles, every<29>);
}

// ---- Quantizers, and what writes a workspace

constexpr CopySpec rows{.scaled = ScaledBy::token_block, .feature_factors = true};
constexpr CopySpec columns{.scaled = ScaledBy::feature_block, .transposed = true, .token_factors = true};
constexpr CopySpec token_blocks{.scaled = ScaledBy::token_block};
constexpr CopySpec feature_blocks{.scaled = ScaledBy::feature_block, .transposed = true};
constexpr CopySpec token{.scaled = ScaledBy::token, .feature_factors = true};
constexpr CopySpec feature{.scaled = ScaledBy::feature, .transposed = true, .token_factors = true};
constexpr auto gradient = Formula::swiglu_gradient;

TEST_F(Spills, QuantizersHaveNone) {
    expect_none(
        {Quantize{{.source = Number::f32, .grouped = true, .rows = rows, .columns = columns}},
         Quantize{{.formula = gradient, .grouped = true, .rows = rows, .columns = columns}},
         Quantize{
             {.formula = gradient, .paired = true, .grouped = true, .rows = token_blocks, .columns = feature_blocks}},
         Quantize{{.grouped = true, .rows = token_blocks, .columns = feature_blocks}},
         launch::Measure{{.grouped = true, .rows = token, .columns = feature}},
         launch::FinishScales{{.scaled = ScaledBy::all}}, launch::TransposeCodes{{.grouped = true, .vectors = false}},
         launch::FinishGroups{}, ExpandWeights{}, ExpandWeights{Expansion::mxfp4_to_bf16},
         ExpandWeights{Expansion::nvfp4_to_bf16}, DecodeCodes{},
         DecodeCodes{{.codes = Decoding::mxfp4_to_e4m3, .vectors = false}},
         DecodeCodes{{.codes = Decoding::e4m3_to_bf16}},
         DecodeCodes{{.codes = Decoding::e5m2_to_bf16, .vectors = false}}, launch::FinishTensorScales{}});
    for (const auto format :
         {BlockFormat::mxfp8_e4m3, BlockFormat::mxfp8_e5m2, BlockFormat::mxfp4, BlockFormat::nvfp4}) {
        for (const Number source : {Number::bf16, Number::f32}) {
            for (const bool vectors : {true, false}) {
                expect_none({launch::QuantizeBlocks{{.source = source, .format = format, .vectors = vectors}}});
            }
        }
    }
}

// ---- Layers of experts

TEST_F(Spills, ShippedKernelsOfLayersHaveNone) {
    std::vector<launch::OtherKernel> kernels = launch::shipped_other_kernels();
    std::erase_if(kernels, [](const auto& kernel) { return source_of(kernel) != launch::moe_source; });
    EXPECT_LE(kernels.size(), 24U + 19);  // of a layer, and between ranks
    expect_none(kernels);
}

TEST_F(Spills, TheLargestKernelsOfLayersHaveNone) {
    constexpr Number f32 = Number::f32;
    for (const bool vectors : {true, false}) {
        for (const auto out : {RowOutput::f32, RowOutput::scaled_rows, RowOutput::scaled_blocks, RowOutput::mx}) {
            const RowSpec copied{.source = f32, .output = out, .has_factors = true, .routes = true, .vectors = vectors};
            const RowSpec activated{.activates = true, .unit = Unit::situ, .output = out, .vectors = vectors};
            expect_none({Permute{copied}, Activate{activated}});
        }
        for (const Number out : {f32, Number::f16}) {
            expect_none(
                {Combine{{.out = out, .vectors = vectors}}, Combine{{.rows = f32, .out = out, .vectors = vectors}}});
        }
    }
    // A group that sends sums in f32 has the last three.
    expect_none({launch::UnitGradient{}, launch::WeightGradient{}, Combine{{.out = f32, .to_ranks = true}},
                 Combine{{.rows = f32}}, Combine{{.rows = f32, .meets = true}}});
}

}  // namespace
}  // namespace tilewright::tests
