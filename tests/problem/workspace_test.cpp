// Which calls need a workspace on a GPU and how large it is, and what can be wrong with the one that is given.
#include "problem/workspace.h"

#include <gtest/gtest.h>
#include <tilewright/error.h>

#include <bit>
#include <cstdint>
#include <string>

#include "formats/packed_layout.h"
#include "problem/packed_problem.h"
#include "problem/sample.h"
#include "problem/workspace_plan.h"

namespace tilewright::test {
namespace {

const SampleSpec tn{.layout = Layout::tn, .m = 96, .n = 256, .k = 200};

TEST(Workspace, IsForOperandsThatNoKernelReadsAsTheyAre) {
    for (const Layout layout : {Layout::nt, Layout::nn, Layout::tt}) {
        EXPECT_EQ(workspace_bytes(sample_on_gpu({.layout = layout})), 0) << name(layout);
    }
    EXPECT_EQ(workspace_bytes(sample_on_gpu(tn)), 96 * 208) << "a, whose rows become multiples of 16 bytes";
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.layout = Layout::tn, .m = 512, .n = 256, .k = 200})), 256 * 208) << "b";
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.grouping = Grouping::batched, .layout = Layout::tn, .groups = 3})),
              3 * 64 * 512);
}

TEST(Workspace, IsForStepsThatTmaDoesNotTake) {
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.layout = Layout::nn, .n = 1000})), 1000 * 512);
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.layout = Layout::tt, .m = 1000})), 1000 * 512);
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.layout = Layout::tn, .m = 1000, .n = 16})), 1000 * 512)
        << "b is read as it is";
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.layout = Layout::tn, .m = 100, .n = 40})), (100 + 40) * 512) << "both";
    Problem p = sample_on_gpu({.grouping = Grouping::batched, .layout = Layout::nn});
    p.b.values.strides[0] += 8;
    EXPECT_EQ(workspace_bytes(p), 4 * 256 * 512);
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.layout = Layout::nn, .n = 1000, .k = 1})), 0)
        << "a step that is never made";
}

TEST(Workspace, OfGroups) {
    for (const Layout layout : {Layout::tt, Layout::tn}) {
        const SampleSpec masked{.grouping = Grouping::m_grouped_masked, .layout = layout};
        EXPECT_EQ(workspace_bytes(sample_on_gpu(masked)), 4 * 64 * 512) << "a of all groups";
        const SampleSpec ends{.grouping = Grouping::m_grouped_offsets, .layout = layout};
        EXPECT_EQ(workspace_bytes(sample_on_gpu(ends)), 64 * 512);
    }
    const SampleSpec of_k{.grouping = Grouping::k_grouped, .layout = Layout::tn, .recipe = "1x128:1x128"};
    EXPECT_EQ(workspace_bytes(sample_on_gpu(of_k)), (64 + 256) * 512) << "both";
}

TEST(Workspace, OfWeightsThatArePacked) {
    // Header, rows of 8 bytes, tiles of 64 x 128 with room for four windows, and a byte for each row.
    constexpr std::int64_t tile = 4352 + 16 + 4 * 64;
    const auto aligned = [](std::int64_t bytes) { return (bytes + 127) / 128 * 128; };
    const auto at_any_byte = [](const SampleSpec& spec) {
        Problem p = sample_on_gpu(spec);
        p.b.values.strides[p.b.values.strides.rank() - 2] += 2;
        return p;
    };
    const SampleSpec dense{.recipe = "1x128:mxfp4", .n = 200, .k = 320};
    EXPECT_EQ(workspace_bytes(at_any_byte(dense)), aligned(128 + 256 * 8 + 4 * 3 * tile) + 256);
    const SampleSpec masked{
        .grouping = Grouping::m_grouped_masked, .recipe = "row:mxfp4", .n = 200, .k = 320, .groups = 2};
    const std::int64_t groups = aligned(128 + 2 * 256 * 8 + 2 * 4 * 3 * tile) + 512;
    EXPECT_EQ(workspace_bytes(at_any_byte(masked)), groups);
    SampleSpec along_m = masked;
    along_m.layout = Layout::tt;
    EXPECT_EQ(workspace_bytes(at_any_byte(along_m)), groups + 2 * 64 * 320);
    const SampleSpec next_to_bf16{.recipe = "bf16:mxfp4", .n = 200, .k = 320};
    EXPECT_EQ(workspace_bytes(sample_on_gpu(next_to_bf16)), aligned(128 + 256 * 8 + 4 * 3 * 4352) + 256)
        << "no windows";
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.layout = Layout::nn, .recipe = "row:mxfp4"})), 0);
    EXPECT_NE(messages(workspace_findings(at_any_byte(dense), {})).find("or more for packed weights."),
              std::string::npos);
}

TEST(Workspace, OfActivationsThatAreDecoded) {
    const auto packed = [](const SampleSpec& spec) {
        return workspace_bytes(with_packed_shape(sample_on_gpu(spec), 0));
    };
    EXPECT_EQ(packed({.recipe = "nvfp4:nvfp4", .m = 64, .k = 320}), 64 * 320 * 2) << "bf16";
    EXPECT_EQ(packed({.recipe = "nvfp4:mxfp4", .m = 64, .k = 322}), 64 * 328 * 2) << "in rows of 16 bytes";
    EXPECT_EQ(packed({.recipe = "mxfp4:mxfp4", .m = 64, .k = 322}), 64 * 336) << "e4m3";
    EXPECT_EQ(packed({.layout = Layout::tt, .recipe = "mxfp4:mxfp4", .m = 64, .k = 320}), 64 * 320) << "in any order";
    EXPECT_EQ(packed({.recipe = "mxfp8:mxfp4"}), 0);
    EXPECT_EQ(packed({.recipe = "row:nvfp4", .m = 64, .k = 336}), 64 * 336 * 2) << "bf16";
    EXPECT_EQ(packed({.layout = Layout::tt, .recipe = "e5m2.1x128:nvfp4", .m = 64, .k = 322}), 64 * 328 * 2)
        << "and no copy along k besides";
    const SampleSpec masked{.grouping = Grouping::m_grouped_masked, .recipe = "nvfp4:nvfp4", .m = 64, .k = 320};
    EXPECT_EQ(packed(masked), 4 * 64 * 320 * 2);
    // Tiles of 64 x 128 with a scale for each 16.
    const std::int64_t weights = 128 + 256 * 8 + 4 * 3 * 4608;
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.recipe = "nvfp4:nvfp4", .m = 64, .n = 200, .k = 320})),
              64 * 320 * 2 + (weights + 127) / 128 * 128 + 256);
    EXPECT_NE(messages(workspace_findings(sample_on_gpu({.recipe = "nvfp4:nvfp4"}), {}))
                  .find("or more for packed weights and decoded activations."),
              std::string::npos);
}

TEST(Workspace, Mxfp8IsAlongK) {
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.recipe = "mxfp8:mxfp8"})), 0);
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.layout = Layout::nn, .recipe = "mxfp8:mxfp8", .n = 256, .k = 320})),
              256 * 320);
    EXPECT_EQ(
        workspace_bytes(sample_on_gpu({.layout = Layout::tn, .recipe = "mxfp8:mxfp8", .m = 64, .n = 256, .k = 320})),
        (64 + 256) * 320);
}

TEST(Workspace, Mxfp8NextToBf16IsDecoded) {
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.recipe = "bf16:mxfp8", .n = 200, .k = 320})), 200 * 320 * 2);
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.layout = Layout::nn, .recipe = "bf16:mxfp8", .n = 200, .k = 320})),
              200 * 320 * 2)
        << "from any order";
    EXPECT_EQ(workspace_bytes(sample_on_gpu(
                  {.grouping = Grouping::m_grouped_offsets, .recipe = "bf16:e5m2.1x32", .n = 200, .k = 320})),
              4 * 200 * 320 * 2);
    const Problem both = sample_on_gpu({.recipe = "nvfp4:mxfp8", .m = 64, .n = 200, .k = 322});
    EXPECT_EQ(workspace_bytes(both), (64 + 200) * 328 * 2) << "rows of 16 bytes";
    EXPECT_NE(messages(workspace_findings(both, {})).find("or more for decoded activations and decoded weights."),
              std::string::npos);
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.recipe = "row:mxfp8"})), 0);
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.layout = Layout::nn, .recipe = "row:mxfp8", .n = 256, .k = 320})),
              256 * 320);
    const Geometry g = geometry(sample_on_gpu({.layout = Layout::nn, .recipe = "bf16:mxfp8", .n = 200, .k = 320}));
    const Geometry product = after_workspace(g, workspace_plan(g), address(0x4000));
    EXPECT_EQ(product.b.values, address(0x4000));
    EXPECT_EQ(product.b.value_strides.row, 320);
    EXPECT_EQ(product.b.recipe.values, Format::bf16);
    EXPECT_EQ(product.b.scales, g.b.scales);
    EXPECT_EQ(product.b.scale_columns, g.b.scale_columns);
}

TEST(Workspace, TheProductOfDecodedActivationsHasTheirTensorScale) {
    const Geometry g = geometry(sample_on_gpu({.recipe = "nvfp4:nvfp4", .m = 64, .k = 320}));
    const Geometry product = after_workspace(g, workspace_plan(g), address(0x4000));
    EXPECT_EQ(product.a.values, address(0x4000));
    EXPECT_EQ(name(product.a.recipe), "bf16");
    EXPECT_EQ(product.a.tensor_scale, g.a.tensor_scale);
    EXPECT_EQ(product.a.scales, nullptr);
    EXPECT_EQ(product.b.packed.tensor_scales, g.b.tensor_scale);
    EXPECT_EQ(product.b.packed.windows, 0) << "rows of NVFP4 are never wide";
}

TEST(Workspace, TheProductOfDecodedFp8HasItsScales) {
    const Geometry g = geometry(sample_on_gpu({.recipe = "1x128:nvfp4", .m = 64, .k = 320}));
    const Geometry product = after_workspace(g, workspace_plan(g), address(0x4000));
    EXPECT_EQ(product.a.values, address(0x4000));
    EXPECT_EQ(product.a.value_strides.row, 320);
    EXPECT_EQ(name(product.a.recipe), "bf16.1x128");
    EXPECT_EQ(product.a.scales, g.a.scales);
    EXPECT_EQ(product.a.scale_strides.row, g.a.scale_strides.row);
    EXPECT_EQ(product.a.scale_columns, g.a.scale_columns);
    EXPECT_EQ(product.b.packed.tensor_scales, g.b.tensor_scale);
}

/// TMA never reads it.
TEST(Workspace, Fp8NextToNvfp4IsTakenFromAnyPlace) {
    for (const PackedFor activations : {PackedFor::fp8, PackedFor::bf16}) {
        Problem p = sample_on_gpu({.recipe = "row:nvfp4", .m = 64, .k = 322});
        p.a.values.data = static_cast<std::byte*>(p.a.values.data) + 3;
        p.a.values.strides[0] = 323;
        EXPECT_EQ(messages(validate(p)), "");
        p = with_packed_shape(p, 0);
        p.b.packed.activations = activations;
        EXPECT_EQ(messages(validate(p, Backend::hopper, Check::shapes)), "") << "NVFP4 has one order";
    }
}

TEST(Workspace, WeightsThatArePackedForBf16AreThoseOfTheKernelsForWideRows) {
    for (const char* recipe : {"bf16:mxfp4", "nvfp4:mxfp4", "bf16:nvfp4"}) {
        const Problem p = sample_on_gpu({.recipe = recipe});
        EXPECT_EQ(messages(validate(p)), "") << recipe;
        const Geometry g = geometry(p);
        const Geometry product = after_workspace(g, workspace_plan(g), address(0x4000));
        EXPECT_TRUE(product.b.packed.given);
        EXPECT_EQ(product.b.packed.windows, 0);
        EXPECT_EQ(product.b.packed.wide_row, p.b.granularity == Granularity::block_1x32 ? 0 : -1) << recipe;
    }
}

/// Any scales are taken.
TEST(Workspace, NothingIsFoundInPackedWeightsWithWideRows) {
    for (const char* recipe : {"bf16:mxfp4", "nvfp4:mxfp4"}) {
        Problem p = with_packed_shape(sample_on_gpu({.recipe = recipe}), 0);
        p.b.packed.internal = formats::PackedInternal{.wide_row = 17}.words();
        EXPECT_EQ(messages(validate(p, Backend::hopper, Check::shapes)), "") << recipe;
    }
}

TEST(Workspace, WeightsThatArePackedAreThoseOfTheKernelsForWideRows) {
    const Geometry g = geometry(sample_on_gpu({.recipe = "1x128:mxfp4", .k = 322}));
    const Geometry product = after_workspace(g, workspace_plan(g), address(0x4000));
    EXPECT_TRUE(product.b.packed.given);
    EXPECT_EQ(product.b.packed.windows, 4);
    EXPECT_EQ(product.b.packed.rows, address(0x4000 + 128));
    EXPECT_EQ(product.b.values, nullptr);
}

TEST(Workspace, NextToPackedWeightsAIsAlongK) {
    const SampleSpec spec{.layout = Layout::tt, .recipe = "1x128:mxfp4", .m = 40, .n = 200, .k = 320};
    EXPECT_EQ(workspace_bytes(with_packed_shape(sample_on_gpu(spec), 0)), 40 * 320);
    SampleSpec along_k = spec;
    along_k.layout = Layout::nt;
    EXPECT_EQ(workspace_bytes(with_packed_shape(sample_on_gpu(along_k), 2)), 0);
}

TEST(Workspace, FollowsFromShapesAlone) {
    Problem p = sample_on_gpu(tn);
    for (Tensor* tensor : {&p.a.values, &p.a.scales, &p.b.values, &p.b.scales, &p.d}) tensor->data = nullptr;
    EXPECT_EQ(workspace_bytes(p), 96 * 208);
    p.d.shape = {1, 2};
    EXPECT_EQ(workspace_bytes(p), 0) << "of a wrong call: run says what is wrong with it";
    EXPECT_EQ(workspace_bytes({}), 0);
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.layout = Layout::tn, .k = 0})), 0) << "without k nothing is read";
    EXPECT_EQ(workspace_bytes(sample_on_gpu({.layout = Layout::tn, .m = 0})), 0);
}

TEST(Workspace, AMatrixThatAllGroupsShareIsCopiedOnce) {
    Problem p = sample_on_gpu({.grouping = Grouping::batched, .layout = Layout::tn, .m = 64, .n = 256, .k = 512});
    p.b.values.strides = {0, 256, 1};
    EXPECT_EQ(workspace_bytes(p), 4 * 64 * 512) << "b of all groups is as large as a: a is copied";
    p = sample_on_gpu({.grouping = Grouping::batched, .layout = Layout::tn, .m = 128, .n = 256, .k = 512});
    p.b.values.strides = {0, 256, 1};
    EXPECT_EQ(workspace_bytes(p), 256 * 512);
    const Geometry g = geometry(p);
    const Geometry product = after_workspace(g, workspace_plan(g), address(0x4000));
    EXPECT_EQ(product.b.values, address(0x4000));
    EXPECT_EQ(product.b.value_strides.group, 0);
    EXPECT_EQ(product.b.value_strides.row, 512);
    EXPECT_EQ(product.b.value_strides.k, 1);
    EXPECT_EQ(product.a.values, g.a.values);
}

TEST(Workspace, FindingsNameTheBytes) {
    const Problem p = sample_on_gpu(tn);
    const std::string advice =
        " Pass workspace_bytes(problem) bytes of GPU memory as RunOptions::workspace (workspace= in Python).\n";
    EXPECT_EQ(messages(workspace_findings(p, {})),
              "workspace: got nothing; expected 19968 bytes or more for a K-major copy of a.values." + advice);
    EXPECT_EQ(messages(workspace_findings(p, {address(0x100), 19967})),
              "workspace: got 19967 bytes; expected 19968 bytes or more for a K-major copy of a.values." + advice);
    EXPECT_EQ(messages(workspace_findings(p, {address(0x110), 19968})),
              "workspace: got an address that is 16 modulo 128; expected a multiple of 128." + advice);
    void* const in_d = address(std::bit_cast<std::uintptr_t>(p.d.data) / 128 * 128);
    EXPECT_EQ(messages(workspace_findings(p, {in_d, 19968})),
              "workspace: got memory that overlaps d; expected separate memory." + advice);
    EXPECT_EQ(messages(workspace_findings(p, {address(0x100), 19968})), "");
    EXPECT_EQ(messages(workspace_findings(sample_on_gpu({}), {})), "") << "a call that needs none";
}

TEST(Workspace, RunSaysWhatIsMissing) {
    const Problem p = sample_on_gpu(tn);
    EXPECT_EQ(messages(validate(p)), "");
    try {
        run(p);
        FAIL() << "ran without a workspace";
    } catch (const Error& error) {
        ASSERT_EQ(error.findings().size(), 1U);
        EXPECT_EQ(error.findings()[0].operand, "workspace");
    }
}

}  // namespace
}  // namespace tilewright::test
