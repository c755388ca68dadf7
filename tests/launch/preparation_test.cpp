// The launches that precede a product that needs a workspace, and the product's arguments.
#include "launch/preparation.h"

#include <gtest/gtest.h>

#include "hopper/arguments.h"
#include "hopper/description/design.h"
#include "launch/problems.h"
#include "plan/choose.h"
#include "problem/canonical_order.h"
#include "problem/packed_problem.h"
#include "problem/problem_sizes.h"

namespace tilewright::launch {
namespace {

using test::address;

/// The only launch, a copy.
OtherLaunch copy_of(const Geometry& g, std::uintptr_t workspace = 0x80000) {
    const std::vector<OtherLaunch> launches = lower_workspace(workspace_plan(g), address(workspace));
    EXPECT_EQ(launches.size(), 1U);
    return launches.at(0);
}

/// A [k, m] and B [k, n], in rows of 320 and 512 bytes.
Geometry transposed(std::int64_t m, std::int64_t n, std::int64_t k) {
    Geometry g = test::block_scaled(m, n, k);
    g.a.value_strides = {.group = 320 * k, .row = 1, .k = 320};
    g.b.value_strides = {.group = 512 * k, .row = 1, .k = 512};
    return g;
}

TEST(PreparedLaunches, ACopyHasABlockForEachSquare) {
    const OtherLaunch launch = copy_of(transposed(300, 500, 1000));
    const auto& [kernel, arguments] = launch.of<TransposeCodes>();
    EXPECT_EQ(kernel.spec, copy_spec);
    EXPECT_EQ(launch.blocks, 3 * 8);
    EXPECT_EQ(arguments.codes.data, address(0x10000)) << "a, the smaller one";
    EXPECT_EQ(arguments.codes.token_stride, 320);
    EXPECT_EQ(arguments.codes.feature_stride, 1);
    EXPECT_EQ(arguments.codes.group_stride, 0) << "of a single matrix";
    EXPECT_EQ(arguments.to.codes, address(0x80000));
    EXPECT_EQ(arguments.to.feature_stride, 1008) << "rows of k are multiples of 16 bytes";
    EXPECT_EQ(arguments.to.columns, 1008);
    EXPECT_EQ(arguments.grid.tokens, 1000);
    EXPECT_EQ(arguments.grid.features, 300);
}

TEST(PreparedLaunches, ABatchIsOneLaunchAndASharedMatrixIsCopiedOnce) {
    Geometry g = transposed(300, 500, 1000);
    g.groups = 5;
    g.grouping.grouping = Grouping::batched;
    EXPECT_EQ(copy_of(g).blocks, 5 * 3 * 8);
    EXPECT_EQ(copy_of(g).of<TransposeCodes>().arguments.codes.group_stride, 320 * 1000);
    EXPECT_EQ(copy_of(g).of<TransposeCodes>().arguments.to.group_stride, 300 * 1008);
    g.a.value_strides.group = 0;
    EXPECT_EQ(copy_of(g).blocks, 3 * 8);
    EXPECT_EQ(copy_of(g).of<TransposeCodes>().arguments.to.group_stride, 0);
}

TEST(PreparedLaunches, NothingIsCopiedOfNothing) {
    EXPECT_TRUE(lower_workspace(workspace_plan(transposed(0, 500, 1000)), address(0x80000)).empty());
    EXPECT_TRUE(lower_workspace(workspace_plan(transposed(300, 500, 0)), address(0x80000)).empty());
    Geometry g = transposed(300, 500, 1000);
    g.a.value_strides = {.row = 1008, .k = 1};
    EXPECT_TRUE(lower_workspace(workspace_plan(g), address(0x80000)).empty()) << "layout nn";
}

TEST(PreparedLaunches, TheProductReadsTheCopy) {
    const Geometry g = transposed(300, 500, 1000);
    const Geometry product = after_workspace(g, workspace_plan(g), address(0x80000));
    hopper::Kernel tile = test::block_scaled_tile();
    tile.swap_ab = true;
    tile.b.form = hopper::Form::columns;
    const Launch launch = test::lowered(product, tile, 132);
    EXPECT_EQ(launch.a.base, address(0x80000));
    EXPECT_EQ(launch.a.strides[0], 1008U);
    EXPECT_EQ(launch.b->base, g.b.values);
}

/// Layout nn, eight groups.
bool copies_weights(const char* recipe, std::int64_t rows, std::int64_t n = 2048, std::int64_t expected_m = 0) {
    Problem p = problem_of({.grouping = expected_m > 0 ? Grouping::m_grouped_masked : Grouping::m_grouped_offsets,
                            .recipe = parse_recipe(recipe).value(),
                            .layout = Layout::nn,
                            .m = expected_m > 0 ? rows : 8 * rows,
                            .n = n,
                            .k = 2048,
                            .groups = 8});
    p.expected_m = expected_m;
    return workspace_plan(geometry(p)).copy_b.has_value();
}

TEST(PreparedLaunches, WeightsAlongTheirRowsAreCopiedForGroupsOfManyRows) {
    EXPECT_TRUE(copies_weights("1x128:128x128", 1280));
    EXPECT_FALSE(copies_weights("1x128:128x128", 1279));
    EXPECT_TRUE(copies_weights("row:row", 4096));
    EXPECT_FALSE(copies_weights("row:row", 4095));
    EXPECT_TRUE(copies_weights("1x128:1x128", 256, 4096));
    EXPECT_FALSE(copies_weights("1x128:1x128", 255, 8192));
    EXPECT_FALSE(copies_weights("1x128:1x128", 256, 256)) << "too few products for another launch";
    EXPECT_FALSE(copies_weights("1x128:128x128", 1280, 128 * 1024)) << "2 GiB";
    EXPECT_FALSE(copies_weights("1x128:128x128", 4096, 2048, 20)) << "room is not rows";
    EXPECT_TRUE(copies_weights("1x128:128x128", 4096, 2048, 2000));
}

TEST(PreparedLaunches, GroupsOfKOneAfterAnotherAreNotSoOnceCopied) {
    Problem p = problem_of({.grouping = Grouping::k_grouped_flat,
                            .recipe = parse_recipe("row:row").value(),
                            .layout = Layout::tn,
                            .m = 256,
                            .n = 128,
                            .k = 512,
                            .groups = 2});
    const Geometry g = geometry(p);
    EXPECT_EQ(lower_workspace(workspace_plan(g), address(0x80000)).size(), 2U);
    const Geometry product = after_workspace(g, workspace_plan(g), address(0x80000));
    EXPECT_EQ(product.b.values, address(0x80000 + 256 * 512));
    const hopper::Kernel tile = planner::chosen_tile(p, gpu_call(g), h200());
    const hopper::GroupValues values = test::lowered(product, tile, 132).arguments.groups_of_k;
    EXPECT_FALSE(values.any_flat());
    EXPECT_EQ(values.a.stride, 512);
    EXPECT_EQ(static_cast<const void*>(values.a.values), address(0x80000));
}

TEST(PreparedLaunches, WeightsArePackedThenTheirTilesGetHeads) {
    Problem p = problem_of({.recipe = parse_recipe("1x128:mxfp4").value(), .m = 16, .n = 200, .k = 1200});
    p.b.values.data = address(0x10000);
    p.b.scales.data = address(0x20000);
    const WorkspacePlan before = workspace_plan(geometry(p));
    const std::vector<OtherLaunch> launches = lower_workspace(before, address(0x80000));
    ASSERT_EQ(launches.size(), 2U);
    const hopper::PackArguments& packing = launches[0].of<PackTiles>().arguments;
    const hopper::PackArguments& heads = launches[1].of<PackHeads>().arguments;
    EXPECT_EQ(packing.out, address(0x80000));
    EXPECT_EQ(packing.judgements, address(0x80000 + before.pack_b->judgements_at));
    EXPECT_EQ(before.pack_b->judgements_at + 256, before.bytes) << "a byte for each row, rounded up";
    EXPECT_EQ(packing.windows, 4);
    EXPECT_EQ(packing.codes, address(0x10000));
    EXPECT_EQ(packing.scales, address(0x20000));
    EXPECT_EQ(launches[0].blocks, 4 * 4) << "16 rows each";
    EXPECT_EQ(packing.part, 10);
    EXPECT_EQ(launches[0].shared_bytes, 16 * 4 + 16 * (704 + 16));
    EXPECT_EQ(heads.windows, 4);
    EXPECT_EQ(heads.out, address(0x80000));
    EXPECT_EQ(launches[1].blocks, 4) << "64 rows each";
}

TEST(PreparedLaunches, PackedWeightsAreExpandedByABlockForEightTiles) {
    Problem p = problem_of({.grouping = Grouping::m_grouped_offsets,
                            .recipe = parse_recipe("1x128:mxfp4").value(),
                            .m = 8192,
                            .n = 2568,
                            .k = 4112,
                            .groups = 3});
    p = with_packed_shape(p, 0);
    p.b.packed.data = address(0x10000);
    const WorkspacePlan before = workspace_plan(geometry(p));
    const std::vector<OtherLaunch> launches = lower_workspace(before, address(0x80000));
    ASSERT_EQ(launches.size(), 1U);
    const auto& [kernel, arguments] = launches[0].of<ExpandWeights>();
    EXPECT_EQ(kernel_expression(kernel), "tilewright::hopper::expand_weights<tilewright::hopper::Expansion(0), 8>");
    EXPECT_EQ(launches[0].blocks, 3 * 41 * 5);
    EXPECT_EQ(arguments.rows, address(0x10000 + 128));
    EXPECT_EQ(arguments.tiles, address(0x10000 + 128 + 3 * 2624 * 8));
    EXPECT_EQ(arguments.tile_bytes, 4352);
    EXPECT_EQ(arguments.to, address(0x80000));
    EXPECT_EQ(arguments.to_row_bytes, 4112);
    EXPECT_EQ(arguments.factors, address(0x80000 + 3 * 2568 * 4112));
    EXPECT_EQ(arguments.groups, 3);
}

TEST(PreparedLaunches, WeightsForBf16AreExpandedToBf16) {
    for (const char* recipe : {"bf16:mxfp4", "bf16:nvfp4"}) {
        Problem p = problem_of({.recipe = parse_recipe(recipe).value(), .m = 4096, .n = 2568, .k = 4098});
        p = with_packed_shape(p, 0);
        p.b.packed.data = address(0x10000);
        const bool mxfp4 = is_mxfp4(p.b.packed.recipe);
        const std::vector<OtherLaunch> launches = lower_workspace(workspace_plan(geometry(p)), address(0x80000));
        ASSERT_EQ(launches.size(), 1U);
        const auto& [kernel, arguments] = launches[0].of<ExpandWeights>();
        EXPECT_EQ(kernel.spec, mxfp4 ? hopper::Expansion::mxfp4_to_bf16 : hopper::Expansion::nvfp4_to_bf16);
        EXPECT_EQ(launches[0].shared_bytes, 2 * 64 * (256 + 16));
        EXPECT_EQ(launches[0].blocks, 41 * 5);
        EXPECT_EQ(arguments.tile_bytes, mxfp4 ? 4352 : 4608);
        EXPECT_EQ(arguments.to_row_bytes, 4104 * 2);
        EXPECT_EQ(arguments.factors, mxfp4 ? address(0x80000 + 2568 * 4104 * 2) : nullptr);
    }
}

Problem nvfp4(Layout layout, std::int64_t m, std::int64_t k) {
    Problem p = problem_of({.recipe = parse_recipe("nvfp4:nvfp4").value(), .layout = layout, .m = m, .n = 200, .k = k});
    p.a.values.data = address(0x10000);
    p.a.scales.data = address(0x20000);
    p.a.tensor_scale.data = address(0x30000);
    p.b.values.data = address(0x40000);
    p.b.scales.data = address(0x60000);
    p.b.tensor_scale.data = address(0x50000);
    return p;
}

TEST(PreparedLaunches, ActivationsAreDecodedAndWeightsOfNvfp4PackedByOneKernel) {
    const WorkspacePlan before = workspace_plan(geometry(nvfp4(Layout::nt, 16, 1200)));
    const std::vector<OtherLaunch> launches = lower_workspace(before, address(0x80000));
    ASSERT_EQ(launches.size(), 2U);
    const auto& [kernel, arguments] = launches[0].of<DecodeCodes>();
    EXPECT_EQ(kernel.spec.codes, hopper::Decoding::nvfp4_to_bf16);
    EXPECT_TRUE(kernel.spec.vectors);
    EXPECT_EQ(arguments.codes, address(0x10000));
    EXPECT_EQ(arguments.scales, address(0x20000));
    EXPECT_EQ(arguments.to, address(0x80000));
    EXPECT_EQ(arguments.to_row_stride, 1200);
    EXPECT_EQ(launches[0].blocks, 16 * 2 / 8) << "a warp for each 1024 codes of a row";
    const CallOf<PackTiles>& packing = launches[1].of<PackTiles>();
    EXPECT_FALSE(packing.kernel.spec.mxfp4);
    EXPECT_EQ(packing.arguments.windows, 0);
}

TEST(PreparedLaunches, BothSidesAreDecodedWhereWeightsAreMxfp8) {
    Problem p =
        problem_of({.recipe = parse_recipe("nvfp4:mxfp8").value(), .layout = Layout::nn, .m = 16, .n = 208, .k = 1200});
    p.a.values.data = address(0x10000);
    p.a.scales.data = address(0x20000);
    p.b.values.data = address(0x40000);
    p.b.scales.data = address(0x60000);
    const std::vector<OtherLaunch> launches = lower_workspace(workspace_plan(geometry(p)), address(0x80000));
    ASSERT_EQ(launches.size(), 2U);
    EXPECT_EQ(launches[0].of<DecodeCodes>().kernel.spec.codes, hopper::Decoding::nvfp4_to_bf16);
    const auto& [kernel, arguments] = launches[1].of<DecodeCodes>();
    EXPECT_EQ(kernel.spec.codes, hopper::Decoding::e4m3_to_bf16);
    EXPECT_FALSE(kernel.spec.vectors) << "along n";
    EXPECT_EQ(arguments.codes, address(0x40000));
    EXPECT_EQ(arguments.row_stride, 1);
    EXPECT_EQ(arguments.k_stride, 208);
    EXPECT_EQ(arguments.to, address(0x80000 + 16 * 1200 * 2));
    EXPECT_EQ(arguments.rows, 208);
}

TEST(PreparedLaunches, Fp8NextToNvfp4IsDecodedToBf16) {
    for (const char* recipe : {"1x128:nvfp4", "e5m2.row:nvfp4"}) {
        for (const Layout layout : {Layout::nt, Layout::tt}) {
            Problem p =
                problem_of({.recipe = parse_recipe(recipe).value(), .layout = layout, .m = 48, .n = 200, .k = 2064});
            p.a.values.data = address(0x10000);
            p.a.scales.data = address(0x20000);
            p = with_packed_shape(p, 0);
            p.b.packed.data = address(0x40000);
            const Geometry g = geometry(p);
            const std::vector<OtherLaunch> launches = lower_workspace(workspace_plan(g), address(0x80000));
            ASSERT_EQ(launches.size(), 1U) << "nothing is copied along k besides";
            const auto& [kernel, arguments] = launches[0].of<DecodeCodes>();
            EXPECT_EQ(kernel.spec.codes, p.a.values.format == Format::e4m3 ? hopper::Decoding::e4m3_to_bf16
                                                                           : hopper::Decoding::e5m2_to_bf16);
            EXPECT_EQ(kernel.spec.vectors, layout == Layout::nt);
            EXPECT_EQ(arguments.to_row_stride, 2064);
            EXPECT_EQ(launches[0].blocks, 48 * 3 / 8) << "a warp for each 1024 codes of a row";
            const Geometry product = after_workspace(g, workspace_plan(g), address(0x80000));
            const hopper::Kernel tile = planner::chosen_tile(p, gpu_call(g), h200());
            const bool blocks = p.a.granularity == Granularity::block_1x128;
            EXPECT_EQ(tile.order.a, blocks ? ScaleUse::chains : ScaleUse::end);
            const Launch lowered = test::lowered(product, tile, 132);
            EXPECT_EQ(lowered.a.base, address(0x80000));
            EXPECT_EQ(lowered.a.element_bytes, 2);
            EXPECT_EQ(lowered.arguments.scales_a.data, address(0x20000));
            EXPECT_EQ(lowered.arguments.scales_b.data, product.b.packed.tensor_scales);
        }
    }
}

TEST(PreparedLaunches, CodesThatAreNotAlongKAreDecodedOneByOne) {
    const WorkspacePlan before = workspace_plan(geometry(nvfp4(Layout::tt, 48, 64)));
    const OtherLaunch launch = lower_workspace(before, address(0x80000)).at(0);
    const auto& [kernel, arguments] = launch.of<DecodeCodes>();
    EXPECT_FALSE(kernel.spec.vectors);
    EXPECT_EQ(arguments.row_stride, 1);
    EXPECT_EQ(arguments.k_stride, 48);
}

TEST(PreparedLaunches, BothTensorScalesArePartOfAlpha) {
    const Problem p = nvfp4(Layout::nt, 16, 1200);
    const Geometry g = geometry(p);
    const hopper::Kernel tile = planner::chosen_tile(p, gpu_call(g), h200());
    EXPECT_TRUE(tile.a.is_nvfp4());
    EXPECT_FALSE(hopper::Design(tile).has_epilogue_scales);
    const Launch launch = test::lowered(after_workspace(g, workspace_plan(g), address(0x80000)), tile, 132);
    EXPECT_EQ(launch.arguments.scales_a.data, address(0x30000));
    EXPECT_EQ(launch.arguments.scales_b.data, address(0x50000));
    EXPECT_EQ(launch.a.base, address(0x80000));
    EXPECT_EQ(launch.a.element_bytes, 2);
}

}  // namespace
}  // namespace tilewright::launch
