// Every kernel of the pack on the emulator: tails, one tile, many waves, nothing to do, each output and scale format,
// in four kinds of timing and with threads out of order. Each bit as the CPU's arithmetic `bit_exact` has it.
#include "plan/pack.h"
#include "emulator/kernel_case.h"
#include "hopper/tile/output_tiling.h"
#include "launch/tile_code.h"
#include "tile_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace tilewright::tests {

template <>
void add_kernels<0>(std::vector<Kernel>& list);
template <>
void add_kernels<1>(std::vector<Kernel>& list);

std::vector<Kernel> kernels() {
    std::vector<Kernel> list;
    add_kernels<0>(list);
    add_kernels<1>(list);
    return list;
}

namespace {

using check::CaseSpec;
using check::Distribution;
using emulator::Timing;
using hopper::Scaling;
using hopper::Tile;

constexpr std::array timings{std::pair{Timing::early, Timing::early}, std::pair{Timing::early, Timing::late},
                             std::pair{Timing::late, Timing::early}, std::pair{Timing::late, Timing::late}};

std::string operand(const Tile& tile, hopper::Storage storage, Scaling scaling, bool powers) {
    if (storage == hopper::Storage::bf16) return "bf16";
    if (storage == hopper::Storage::packed_nvfp4_bf16) return "nvfp4";
    if (hopper::is_packed(storage)) return "mxfp4";
    std::string text = storage == hopper::Storage::e5m2 ? "e5m2." : "";
    switch (scaling) {
        case Scaling::block_1x128: text += "1x128"; break;
        case Scaling::block_128x128: text += "128x128"; break;
        case Scaling::factor:
            // No recipe has scales of both sides in the order of factors; expanded_test.cpp has weights with them.
            if (tile.a.scaling == Scaling::epilogue) return "e4m3";
            return "row";
        case Scaling::none: return storage == hopper::Storage::e5m2 ? "e5m2" : "e4m3";
        default: return text + (tile.mma.promoted ? "row" : "tensor");
    }
    return powers ? text + ".ue8m0" : text;
}

Recipe recipe(const Tile& tile, bool powers) {
    return parse_recipe(operand(tile, tile.a.storage, tile.a.scaling, powers) + ":" +
                        operand(tile, tile.b.storage, tile.b.scaling, powers))
        .value();
}

/// Where groups begin anywhere, TMA takes scales by row alone.
Grouping grouping(const Tile& tile) {
    if (maps_groups(tile)) return Grouping::k_grouped_flat;
    if (is_k_grouped(tile)) return Grouping::k_grouped_aligned_offsets;
    if (!is_grouped(tile)) return Grouping::dense;
    const bool separate = is_fast(tile) && scales_mma_rows(tile) && !has_k_major_scales(tile);
    return separate ? Grouping::m_grouped_masked : Grouping::m_grouped_offsets;
}

/// Rows and columns of D in a bit more than the tiles of a cluster, one if its blocks split k, and a last k-block that
/// is not full. Fast variants get what TMA can store, with scales that it can fetch.
CaseSpec tails(const Tile& tile) {
    const bool along_m = tile.cluster.use == hopper::ClusterUse::share_b;
    const int tiles = tile.cluster.use == hopper::ClusterUse::split_k ? 1 : tile.cluster.size;
    const bool fast = is_fast(tile);
    return in_layout_of(tile, {.grouping = grouping(tile),
                               .recipe = recipe(tile, false),
                               .output = stores_f32(tile) ? Format::f32 : Format::bf16,
                               .m = d_rows(tile) * (along_m ? tiles : 1) + (fast ? 36 : 37),
                               .n = d_columns(tile) * (along_m ? 1 : tiles) + (fast ? 8 : 9),
                               .k = (has_k_major_scales(tile) ? 7 : 3) * 128 + 48,
                               .groups = has_scheduler(tile) ? 3 : 1,
                               .with_c = stores_f32(tile),
                               .accumulation = accumulation_of(tile),
                               .d_gaps = {.row = fast ? 0 : 7},
                               .a_scales_transposed = fast && !has_k_major_scales(tile),
                               .b_scales_transposed = fast,
                               .far_scales = {.one_row_in = has_windows(tile) ? 2 : 0}});
}

struct Shape {
    const char* name;
    void (*change)(CaseSpec&, Conditions&, const Tile&);
};

const Shape shapes[] = {
    {"one tile of one row, k 16",
     [](CaseSpec& s, Conditions&, const Tile&) {
         s.m = 1;
         s.n = 8;
         s.k = 16;
         s.d_gaps = {};
     }},
    {"many waves on one cluster, stored by TMA",
     [](CaseSpec& s, Conditions& run, const Tile& tile) {
         s.m = d_rows(tile) * 3 - 8;
         s.n = d_columns(tile) * 2;
         s.k = has_k_major_scales(tile) ? 512 : 256;
         s.d_gaps = {};
         run.sms = 1;
     }},
    {"no k, C",
     [](CaseSpec& s, Conditions&, const Tile&) {
         s.k = 0;
         s.with_c = true;
     }},
    {"no k",
     [](CaseSpec& s, Conditions&, const Tile&) {
         s.k = 0;
         s.d_gaps = {};
     }},
    {"row indices",
     [](CaseSpec& s, Conditions&, const Tile& tile) {
         if (is_grouped(tile)) s.grouping = Grouping::m_grouped_indices;
     }},
    {"no rows", [](CaseSpec& s, Conditions&, const Tile&) { s.m = 0; }},
    {"f32, stored by TMA, power-of-two scales",
     [](CaseSpec& s, Conditions&, const Tile& tile) {
         s.output = Format::f32;
         s.recipe = recipe(tile, scales_in_mainloop(tile));
         s.n = d_columns(tile) + 4;
         s.d_gaps = {};
         s.alpha = 0.3F;
     }},
    {"f16, C, alpha, transposed scales",
     [](CaseSpec& s, Conditions&, const Tile&) {
         s.output = Format::f16;
         s.with_c = true;
         s.alpha = -1.7F;
         s.a_scales_transposed = s.b_scales_transposed = true;
     }},
    {"batch, strided everything",
     [](CaseSpec& s, Conditions&, const Tile& tile) {
         if (!is_k_grouped(tile)) s.grouping = is_grouped(tile) ? Grouping::m_grouped_masked : Grouping::batched;
         s.groups = 3;
         s.m = 40;
         s.n = d_columns(tile) + 1;
         s.k = 160;
         s.a_gaps = {.row = 16, .group = 32};
         s.b_gaps = {.row = 48, .group = 16};
         s.d_gaps = {.element = 1, .row = 3, .group = 5};
     }},
};

class Pack : public testing::TestWithParam<int> {};

void expect_right(const Kernel& kernel, const CaseSpec& spec, const Conditions& run) {
    EXPECT_EQ(difference(kernel, spec, run), "") << describe(kernel, spec, run);
}

/// Two of the four, opposite in both engines; every other kernel has the other two.
TEST_P(Pack, TailsInOppositeTimings) {
    const Kernel kernel = kernels()[static_cast<std::size_t>(GetParam())];
    const auto first = static_cast<std::size_t>(GetParam() % 2);
    for (const std::size_t i : {first, timings.size() - 1 - first}) {
        CaseSpec spec = tails(kernel.tile);
        spec.distribution = check::random_distributions()[(GetParam() + i) % check::random_distributions().size()];
        spec.seed = GetParam() * 4 + i;
        if (!serves(kernel, spec)) {
            EXPECT_FALSE(can_store_by_tma(kernel.tile, 2))
                << launch::describe(kernel.tile) << " serves no call of this test";
            continue;
        }
        if (!takes(kernel, spec)) spec.distribution = Distribution::normal;
        expect_right(kernel, spec,
                     {.tma = timings[i].first, .wgmma = timings[i].second, .seed = i % 2 * (1 + GetParam())});
    }
}

std::vector<int> kernels_that_copy_scales() {
    const std::vector<Kernel> all = kernels();  // in another order than their tiles
    std::vector<int> list;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (copies_row_scales(all[i].tile)) list.push_back(static_cast<int>(i));
    }
    return list;
}

class CopiedScales : public testing::TestWithParam<int> {};

TEST_P(CopiedScales, ThatTmaCannotLoad) {
    const Kernel kernel = kernels()[static_cast<std::size_t>(GetParam())];
    for (const std::size_t i : {0, 1}) {
        CaseSpec spec = tails(kernel.tile);
        spec.k = 4 * 128 + 48;
        spec.a_scales_transposed = i == 1;
        spec.a_scale_gaps = {.row = i == 1 ? 1 : 0};
        spec.guard_pages = true;
        spec.seed = GetParam() + i;
        spec = in_layout_of(kernel.tile, spec);
        if (!serves(kernel, spec)) {
            EXPECT_FALSE(can_store_by_tma(kernel.tile, 2)) << launch::describe(kernel.tile) << " copies no scales";
            continue;
        }
        const std::size_t timing = (GetParam() + 3 * i) % timings.size();
        expect_right(kernel, spec, {.tma = timings[timing].first, .wgmma = timings[timing].second, .seed = i});
    }
}

/// General kernels every second one, their neighbours the others.
TEST_P(Pack, EveryShape) {
    const Kernel kernel = kernels()[static_cast<std::size_t>(GetParam())];
    std::size_t i = static_cast<std::size_t>(GetParam());
    std::size_t ran = 0;
    for (const Shape& shape : shapes) {
        ++i;
        if (!is_fast(kernel.tile) && i % 2 != 0) continue;
        CaseSpec spec = tails(kernel.tile);
        spec.seed = i;
        const auto& [tma, wgmma] = timings[(i + i / 2) % timings.size()];
        Conditions run{.tma = tma, .wgmma = wgmma, .seed = i};
        shape.change(spec, run, kernel.tile);
        spec = in_layout_of(kernel.tile, spec);
        SCOPED_TRACE(shape.name);
        if (!serves(kernel, spec) || !takes(kernel, spec)) continue;
        expect_right(kernel, spec, run);
        ++ran;
    }
    // A general kernel serves every shape; a fast one at least that of many waves, if TMA stores its D.
    const std::size_t floor = can_store_by_tma(kernel.tile, 2) ? 1 : 0;
    EXPECT_GE(ran, is_fast(kernel.tile) ? floor : std::size(shapes) / 2) << launch::describe(kernel.tile);
}

INSTANTIATE_TEST_SUITE_P(All, CopiedScales, testing::ValuesIn(kernels_that_copy_scales()));
INSTANTIATE_TEST_SUITE_P(All, Pack, testing::Range(0, static_cast<int>(emulated_tiles().size())));

TEST(Pack, EveryTileOfThePackIsRun) {
    const std::vector<Kernel> run = kernels();
    EXPECT_EQ(run.size(), emulated_tiles().size());
    if (kernel_step != 1) GTEST_SKIP() << "a build with sanitizers runs some of them";
    for (const Tile& tile : planner::pack()) {
        EXPECT_TRUE(std::ranges::any_of(run, [&](const Kernel& kernel) { return kernel.tile == tile; }))
            << launch::describe(tile) << " is in the pack and no kernel of the emulator's tests";
    }
}

}  // namespace
}  // namespace tilewright::tests
