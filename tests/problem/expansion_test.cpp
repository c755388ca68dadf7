// Which packed weights are expanded on a GPU, the workspace that they take, and what the product is given.
#include "problem/expansion.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "formats/packed_layout.h"
#include "problem/packed_problem.h"
#include "problem/sample.h"
#include "problem/workspace.h"
#include "problem/workspace_plan.h"

namespace tilewright::test {
namespace {

TEST(Expansion, IsOfPackedWeightsForManyRows) {
    const SampleSpec dense{.recipe = "1x128:mxfp4", .m = 4096, .n = 2568, .k = 8208};
    const auto bytes = [](const SampleSpec& spec, int windows = 0) {
        return workspace_bytes(with_packed_shape(sample_on_gpu(spec), windows));
    };
    // Values, then a factor for each row.
    constexpr std::int64_t values = 2568 * 8208, factors = 2568 * 4;
    const auto aligned = [](std::int64_t size) { return (size + 127) / 128 * 128; };
    EXPECT_EQ(bytes(dense), aligned(aligned(values) + factors));
    EXPECT_EQ(bytes(dense, 2), 0) << "wide rows";
    const auto changed = [&](auto change) {
        SampleSpec spec = dense;
        change(spec);
        return spec;
    };
    EXPECT_EQ(bytes(changed([](SampleSpec& spec) { spec.m = 767; })), 0) << "few rows";
    EXPECT_EQ(bytes(changed([](SampleSpec& spec) { spec.n = 64; })), 0) << "one more launch takes as long";
    for (const char* recipe : {"row:mxfp4", "tensor:mxfp4", "1x128.ue8m0:mxfp4", "mxfp8:mxfp4"}) {
        EXPECT_EQ(bytes(changed([&](SampleSpec& spec) { spec.recipe = recipe; })), bytes(dense)) << recipe;
    }
    EXPECT_EQ(bytes(changed([](SampleSpec& spec) { spec.layout = Layout::tt; })),
              4096 * 8208 + aligned(aligned(values) + factors))
        << "and a along k";
    const auto grouped = [&](Grouping grouping, std::int64_t m) {
        return changed([&](SampleSpec& spec) {
            spec.grouping = grouping;
            spec.m = m;
        });
    };
    const std::int64_t groups = aligned(aligned(4 * values) + 4 * factors);
    for (const Grouping grouping :
         {Grouping::m_grouped_offsets, Grouping::m_grouped_indices, Grouping::m_grouped_aligned_offsets}) {
        EXPECT_EQ(bytes(grouped(grouping, 4 * 768)), groups) << name(grouping);
        EXPECT_EQ(bytes(grouped(grouping, 4 * 768 - 1)), 0) << name(grouping);
    }
    EXPECT_EQ(bytes(grouped(Grouping::batched, 800)), groups);
    for (const char* recipe : {"row:mxfp4", "tensor:mxfp4"}) {
        SampleSpec spec = grouped(Grouping::m_grouped_offsets, 4 * 1280);
        spec.recipe = recipe;
        EXPECT_EQ(bytes(spec), groups) << recipe;
        --spec.m;
        EXPECT_EQ(bytes(spec), 0) << recipe;
    }
    Problem masked = with_packed_shape(sample_on_gpu(grouped(Grouping::m_grouped_masked, 1024)), 0);
    EXPECT_EQ(workspace_bytes(masked), 0) << "room for many rows says nothing of how many there are";
    masked.expected_m = 800;
    EXPECT_EQ(workspace_bytes(masked), groups);
    masked.expected_m = 100;
    EXPECT_EQ(workspace_bytes(masked), 0);
    const SampleSpec experts{.grouping = Grouping::m_grouped_offsets,
                             .recipe = "1x128:mxfp4",
                             .m = 64 * 1024,
                             .n = 4096,
                             .k = 7168,
                             .groups = 64};
    EXPECT_EQ(bytes(experts), 0) << "more than 1 GiB";
}

/// Rows of 16 bytes; NVFP4 has no factors.
TEST(Expansion, IsToBf16NextToBf16) {
    const auto spec = [](const char* recipe, std::int64_t m) {
        return SampleSpec{.recipe = recipe, .m = m, .n = 4104, .k = 16392};
    };
    const auto bytes = [](const SampleSpec& given) {
        return workspace_bytes(with_packed_shape(sample_on_gpu(given), 0));
    };
    constexpr std::int64_t values = 4104 * 16392 * 2, factors = 4104 * 4;
    const auto aligned = [](std::int64_t size) { return (size + 127) / 128 * 128; };
    EXPECT_EQ(bytes(spec("bf16:mxfp4", 2048)), aligned(aligned(values) + factors));
    EXPECT_EQ(bytes(spec("bf16:mxfp4", 2047)), 0);
    EXPECT_EQ(bytes(spec("bf16:nvfp4", 1280)), aligned(values));
    EXPECT_EQ(bytes(spec("bf16:nvfp4", 1279)), 0);
    EXPECT_EQ(bytes(spec("nvfp4:nvfp4", 1280)), 1280 * 16392 * 2 + aligned(values)) << "and decoded activations";
    EXPECT_EQ(bytes(spec("1x128:nvfp4", 4096)), 4096 * 16392 * 2) << "decoded, next to packed weights";
    EXPECT_EQ(bytes(spec("nvfp4:mxfp4", 2048)), 2048 * 16392 * 2 + aligned(aligned(values) + factors));
    Problem wide = with_packed_shape(sample_on_gpu(spec("bf16:mxfp4", 2048)), 0);
    wide.b.packed.internal = formats::PackedInternal{.wide_row = 7}.words();
    EXPECT_EQ(workspace_bytes(wide), 0);
    EXPECT_EQ(workspace_bytes(sample_on_gpu(spec("bf16:nvfp4", 16))),
              workspace_bytes(sample_on_gpu(spec("bf16:nvfp4", 4096))))
        << "weights that are packed at each call";
    SampleSpec experts = spec("bf16:nvfp4", 16 * 2048);
    experts.grouping = Grouping::m_grouped_offsets;
    experts.n = 4096;
    experts.k = 8192;
    experts.groups = 16;
    EXPECT_EQ(bytes(experts), 0) << "more than 1 GiB with the rows' last bytes";
    experts.groups = 15;
    EXPECT_EQ(bytes(experts), 15 * 4096 * 8192LL * 2);
}

TEST(Expansion, ToBf16IsNamedAndTheProductReadsIt) {
    Problem p = with_packed_shape(sample_on_gpu({.recipe = "bf16:mxfp4", .m = 4096, .n = 4096, .k = 4096}), 0);
    EXPECT_NE(messages(workspace_findings(p, {})).find("bytes or more for weights expanded to bf16."),
              std::string::npos)
        << messages(workspace_findings(p, {}));
    const Geometry mxfp4 = geometry(p);
    const Geometry of_mxfp4 = after_workspace(mxfp4, workspace_plan(mxfp4), address(0x4000));
    EXPECT_EQ(of_mxfp4.b.recipe, (OperandRecipe{Format::bf16, Granularity::none, Format::f32}));
    EXPECT_EQ(of_mxfp4.b.scales, address(0x4000 + 4096 * 4096 * 2));
    EXPECT_FALSE(of_mxfp4.b.packed.given || of_mxfp4.b.has_tensor_scale);
    p = with_packed_shape(sample_on_gpu({.recipe = "bf16:nvfp4", .m = 4096, .n = 4096, .k = 4096}), 0);
    p.b.packed.data = address(0x100000);
    const Geometry nvfp4 = geometry(p);
    const Geometry of_nvfp4 = after_workspace(nvfp4, workspace_plan(nvfp4), address(0x4000));
    EXPECT_EQ(of_nvfp4.b.recipe.granularity, Granularity::none);
    EXPECT_EQ(of_nvfp4.b.scales, nullptr);
    EXPECT_TRUE(of_nvfp4.b.has_tensor_scale);
    EXPECT_EQ(of_nvfp4.b.tensor_scale, address(0x100000 + 128));
}

TEST(Expansion, IsNamedAndTheProductReadsIt) {
    Problem p = with_packed_shape(sample_on_gpu({.recipe = "1x128:mxfp4", .m = 4096, .n = 4096, .k = 4096}), 0);
    EXPECT_NE(messages(workspace_findings(p, {}))
                  .find("workspace: got nothing; expected 16793600 bytes or more for weights expanded to e4m3."),
              std::string::npos)
        << messages(workspace_findings(p, {}));
    const Geometry g = geometry(p);
    const Geometry product = after_workspace(g, workspace_plan(g), address(0x4000));
    EXPECT_FALSE(product.b.packed.given);
    EXPECT_EQ(name(product.b.recipe), "e4m3") << "factors are no scales";
    EXPECT_EQ(product.b.values, address(0x4000));
    EXPECT_EQ(product.b.value_strides.row, 4096);
    EXPECT_EQ(product.b.scales, address(0x4000 + 4096 * 4096));
    EXPECT_EQ(product.b.scale_strides.row, 1);
}

}  // namespace
}  // namespace tilewright::test
