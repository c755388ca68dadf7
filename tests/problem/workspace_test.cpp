// Which calls need a workspace on a GPU and how large it is, and what can be wrong with the one that is given.
#include "problem/workspace.h"

#include <gtest/gtest.h>
#include <tilewright/error.h>

#include <bit>
#include <cstdint>
#include <string>

#include "problem/packed_problem.h"
#include "problem/preparation.h"
#include "problem/sample.h"

namespace tilewright::test {
namespace {

Problem on_gpu(const SampleSpec& spec) {
    Problem p = sample(spec);
    for (Tensor* tensor : {&p.a.values, &p.a.scales, &p.a.tensor_scale, &p.b.values, &p.b.scales, &p.b.tensor_scale,
                           &p.d, &p.groups.sizes}) {
        tensor->device = {.kind = DeviceId::Kind::cuda};
    }
    return p;
}

void* address(std::uintptr_t value) { return std::bit_cast<void*>(value); }

std::string messages(const std::vector<Finding>& findings) {
    std::string text;
    for (const Finding& finding : findings) text += finding.message() + "\n";
    return text;
}

const SampleSpec tn{.layout = Layout::tn, .m = 96, .n = 256, .k = 200};

TEST(Workspace, IsForOperandsThatNoKernelReadsAsTheyAre) {
    for (const Layout layout : {Layout::nt, Layout::nn, Layout::tt}) {
        EXPECT_EQ(workspace_bytes(on_gpu({.layout = layout})), 0) << name(layout);
    }
    EXPECT_EQ(workspace_bytes(on_gpu(tn)), 96 * 208) << "a, whose rows become multiples of 16 bytes";
    EXPECT_EQ(workspace_bytes(on_gpu({.layout = Layout::tn, .m = 512, .n = 256, .k = 200})), 256 * 208) << "b";
    EXPECT_EQ(workspace_bytes(on_gpu({.grouping = Grouping::batched, .layout = Layout::tn, .groups = 3})),
              3 * 64 * 512);
}

TEST(Workspace, IsForStepsThatTmaDoesNotTake) {
    EXPECT_EQ(workspace_bytes(on_gpu({.layout = Layout::nn, .n = 1000})), 1000 * 512);
    EXPECT_EQ(workspace_bytes(on_gpu({.layout = Layout::tt, .m = 1000})), 1000 * 512);
    EXPECT_EQ(workspace_bytes(on_gpu({.layout = Layout::tn, .m = 1000, .n = 16})), 1000 * 512) << "b is read as it is";
    EXPECT_EQ(workspace_bytes(on_gpu({.layout = Layout::tn, .m = 100, .n = 40})), (100 + 40) * 512) << "both";
    Problem p = on_gpu({.grouping = Grouping::batched, .layout = Layout::nn});
    p.b.values.strides[0] += 8;
    EXPECT_EQ(workspace_bytes(p), 4 * 256 * 512);
    EXPECT_EQ(workspace_bytes(on_gpu({.layout = Layout::nn, .n = 1000, .k = 1})), 0) << "a step that is never made";
}

TEST(Workspace, OfGroups) {
    for (const Layout layout : {Layout::tt, Layout::tn}) {
        const SampleSpec masked{.grouping = Grouping::m_grouped_masked, .layout = layout};
        EXPECT_EQ(workspace_bytes(on_gpu(masked)), 4 * 64 * 512) << "a of all groups";
        const SampleSpec ends{.grouping = Grouping::m_grouped_offsets, .layout = layout};
        EXPECT_EQ(workspace_bytes(on_gpu(ends)), 64 * 512);
    }
    const SampleSpec of_k{.grouping = Grouping::k_grouped, .layout = Layout::tn, .recipe = "1x128:1x128"};
    EXPECT_EQ(workspace_bytes(on_gpu(of_k)), (64 + 256) * 512) << "both";
}

TEST(Workspace, OfWeightsThatArePacked) {
    // Header, rows of 8 bytes, tiles of 64 x 128 with room for four windows, and a byte for each row.
    constexpr std::int64_t tile = 4352 + 16 + 4 * 64;
    const auto aligned = [](std::int64_t bytes) { return (bytes + 127) / 128 * 128; };
    const auto at_any_byte = [](const SampleSpec& spec) {
        Problem p = on_gpu(spec);
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
    EXPECT_EQ(workspace_bytes(on_gpu(next_to_bf16)), aligned(128 + 256 * 8 + 4 * 3 * 4352) + 256) << "no windows";
    EXPECT_EQ(workspace_bytes(on_gpu({.layout = Layout::nn, .recipe = "row:mxfp4"})), 0);
    EXPECT_NE(messages(check_workspace(at_any_byte(dense), {})).find("or more expected for packed weights; "),
              std::string::npos);
}

TEST(Workspace, OfActivationsThatAreDecoded) {
    const auto packed = [](const SampleSpec& spec) { return workspace_bytes(with_packed_shape(on_gpu(spec), 0)); };
    EXPECT_EQ(packed({.recipe = "nvfp4:nvfp4", .m = 64, .k = 320}), 64 * 320 * 2) << "bf16";
    EXPECT_EQ(packed({.recipe = "nvfp4:mxfp4", .m = 64, .k = 322}), 64 * 328 * 2) << "in rows of 16 bytes";
    EXPECT_EQ(packed({.recipe = "mxfp4:mxfp4", .m = 64, .k = 322}), 64 * 336) << "e4m3";
    EXPECT_EQ(packed({.layout = Layout::tt, .recipe = "mxfp4:mxfp4", .m = 64, .k = 320}), 64 * 320) << "in any order";
    EXPECT_EQ(packed({.recipe = "mxfp8:mxfp4"}), 0);
    const SampleSpec masked{.grouping = Grouping::m_grouped_masked, .recipe = "nvfp4:nvfp4", .m = 64, .k = 320};
    EXPECT_EQ(packed(masked), 4 * 64 * 320 * 2);
    // Tiles of 64 x 128 with a scale for each 16.
    const std::int64_t weights = 128 + 256 * 8 + 4 * 3 * 4608;
    EXPECT_EQ(workspace_bytes(on_gpu({.recipe = "nvfp4:nvfp4", .m = 64, .n = 200, .k = 320})),
              64 * 320 * 2 + (weights + 127) / 128 * 128 + 256);
    EXPECT_NE(messages(check_workspace(on_gpu({.recipe = "nvfp4:nvfp4"}), {}))
                  .find("or more expected for packed weights and decoded activations; "),
              std::string::npos);
}

TEST(Workspace, Mxfp8IsAlongK) {
    EXPECT_EQ(workspace_bytes(on_gpu({.recipe = "mxfp8:mxfp8"})), 0);
    EXPECT_EQ(workspace_bytes(on_gpu({.layout = Layout::nn, .recipe = "mxfp8:mxfp8", .n = 256, .k = 320})), 256 * 320);
    EXPECT_EQ(workspace_bytes(on_gpu({.layout = Layout::tn, .recipe = "mxfp8:mxfp8", .m = 64, .n = 256, .k = 320})),
              (64 + 256) * 320);
}

TEST(Workspace, TheProductOfDecodedActivationsHasTheirTensorScale) {
    const Geometry g = geometry(on_gpu({.recipe = "nvfp4:nvfp4", .m = 64, .k = 320}));
    const Geometry product = prepared(g, preparation(g), address(0x4000));
    EXPECT_EQ(product.a.values, address(0x4000));
    EXPECT_EQ(name(product.a.recipe), "bf16");
    EXPECT_EQ(product.a.tensor_scale, g.a.tensor_scale);
    EXPECT_EQ(product.a.scales, nullptr);
    EXPECT_EQ(product.b.packed.tensor_scales, g.b.tensor_scale);
    EXPECT_EQ(product.b.packed.windows, 0) << "rows of NVFP4 are never wide";
}

TEST(Workspace, WeightsThatArePackedForBf16AreThoseOfTheKernelsForWideRows) {
    for (const char* recipe : {"bf16:mxfp4", "nvfp4:mxfp4", "bf16:nvfp4"}) {
        const Problem p = on_gpu({.recipe = recipe});
        EXPECT_EQ(messages(validate(p)), "") << recipe;
        const Geometry g = geometry(p);
        const Geometry product = prepared(g, preparation(g), address(0x4000));
        EXPECT_TRUE(product.b.packed.given);
        EXPECT_EQ(product.b.packed.windows, 0);
        EXPECT_EQ(product.b.packed.wide_row, p.b.granularity == Granularity::block_1x32 ? 0 : -1) << recipe;
    }
}

/// Any scales are taken.
TEST(Workspace, NothingIsFoundInPackedWeightsWithWideRows) {
    for (const char* recipe : {"bf16:mxfp4", "nvfp4:mxfp4"}) {
        Problem p = with_packed_shape(on_gpu({.recipe = recipe}), 0);
        p.b.packed.wide_row = 17;
        EXPECT_EQ(messages(validate(p, Backend::hopper, Check::shapes)), "") << recipe;
    }
}

TEST(Workspace, WeightsThatArePackedAreThoseOfTheKernelsForWideRows) {
    const Geometry g = geometry(on_gpu({.recipe = "1x128:mxfp4", .k = 322}));
    const Geometry product = prepared(g, preparation(g), address(0x4000));
    EXPECT_TRUE(product.b.packed.given);
    EXPECT_EQ(product.b.packed.windows, 4);
    EXPECT_EQ(product.b.packed.rows, address(0x4000 + 128));
    EXPECT_EQ(product.b.values, nullptr);
}

TEST(Workspace, NextToPackedWeightsAIsAlongK) {
    const SampleSpec spec{.layout = Layout::tt, .recipe = "1x128:mxfp4", .m = 40, .n = 200, .k = 320};
    EXPECT_EQ(workspace_bytes(with_packed_shape(on_gpu(spec), 0)), 40 * 320);
    SampleSpec along_k = spec;
    along_k.layout = Layout::nt;
    EXPECT_EQ(workspace_bytes(with_packed_shape(on_gpu(along_k), 2)), 0);
}

TEST(Workspace, OfPackedWeightsThatAreExpandedForManyRows) {
    const SampleSpec dense{.recipe = "1x128:mxfp4", .m = 4096, .n = 2568, .k = 8208};
    const auto bytes = [](const SampleSpec& spec, int windows = 0) {
        return workspace_bytes(with_packed_shape(on_gpu(spec), windows));
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
    Problem masked = with_packed_shape(on_gpu(grouped(Grouping::m_grouped_masked, 1024)), 0);
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
TEST(Workspace, OfWeightsThatAreExpandedToBf16) {
    const auto spec = [](const char* recipe, std::int64_t m) {
        return SampleSpec{.recipe = recipe, .m = m, .n = 4104, .k = 16392};
    };
    const auto bytes = [](const SampleSpec& given) { return workspace_bytes(with_packed_shape(on_gpu(given), 0)); };
    constexpr std::int64_t values = 4104 * 16392 * 2, factors = 4104 * 4;
    const auto aligned = [](std::int64_t size) { return (size + 127) / 128 * 128; };
    EXPECT_EQ(bytes(spec("bf16:mxfp4", 2048)), aligned(aligned(values) + factors));
    EXPECT_EQ(bytes(spec("bf16:mxfp4", 2047)), 0);
    EXPECT_EQ(bytes(spec("bf16:nvfp4", 1024)), aligned(values));
    EXPECT_EQ(bytes(spec("bf16:nvfp4", 1023)), 0);
    EXPECT_EQ(bytes(spec("nvfp4:nvfp4", 1024)), 1024 * 16392 * 2 + aligned(values)) << "and decoded activations";
    EXPECT_EQ(bytes(spec("nvfp4:mxfp4", 2048)), 2048 * 16392 * 2 + aligned(aligned(values) + factors));
    Problem wide = with_packed_shape(on_gpu(spec("bf16:mxfp4", 2048)), 0);
    wide.b.packed.wide_row = 7;
    EXPECT_EQ(workspace_bytes(wide), 0);
    EXPECT_EQ(workspace_bytes(on_gpu(spec("bf16:nvfp4", 16))), workspace_bytes(on_gpu(spec("bf16:nvfp4", 4096))))
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

TEST(Workspace, OfWeightsExpandedToBf16IsNamedAndTheProductReadsIt) {
    Problem p = with_packed_shape(on_gpu({.recipe = "bf16:mxfp4", .m = 4096, .n = 4096, .k = 4096}), 0);
    EXPECT_NE(messages(check_workspace(p, {})).find("bytes or more expected for weights expanded to bf16; "),
              std::string::npos)
        << messages(check_workspace(p, {}));
    const Geometry mxfp4 = geometry(p);
    const Geometry of_mxfp4 = prepared(mxfp4, preparation(mxfp4), address(0x4000));
    EXPECT_EQ(of_mxfp4.b.recipe, (OperandRecipe{Format::bf16, Granularity::row, Format::f32}));
    EXPECT_EQ(of_mxfp4.b.scales, address(0x4000 + 4096 * 4096 * 2));
    EXPECT_FALSE(of_mxfp4.b.packed.given || of_mxfp4.b.has_tensor_scale);
    p = with_packed_shape(on_gpu({.recipe = "bf16:nvfp4", .m = 4096, .n = 4096, .k = 4096}), 0);
    p.b.packed.data = address(0x100000);
    const Geometry nvfp4 = geometry(p);
    const Geometry of_nvfp4 = prepared(nvfp4, preparation(nvfp4), address(0x4000));
    EXPECT_EQ(of_nvfp4.b.recipe.granularity, Granularity::none);
    EXPECT_EQ(of_nvfp4.b.scales, nullptr);
    EXPECT_TRUE(of_nvfp4.b.has_tensor_scale);
    EXPECT_EQ(of_nvfp4.b.tensor_scale, address(0x100000 + 128));
}

TEST(Workspace, OfExpandedWeightsIsNamedAndTheProductReadsIt) {
    Problem p = with_packed_shape(on_gpu({.recipe = "1x128:mxfp4", .m = 4096, .n = 4096, .k = 4096}), 0);
    EXPECT_NE(messages(check_workspace(p, {}))
                  .find("workspace: nothing given, 16793600 bytes or more expected for weights expanded to e4m3; "),
              std::string::npos)
        << messages(check_workspace(p, {}));
    const Geometry g = geometry(p);
    const Geometry product = prepared(g, preparation(g), address(0x4000));
    EXPECT_FALSE(product.b.packed.given);
    EXPECT_EQ(name(product.b.recipe), "row");
    EXPECT_EQ(product.b.values, address(0x4000));
    EXPECT_EQ(product.b.value_strides.row, 4096);
    EXPECT_EQ(product.b.scales, address(0x4000 + 4096 * 4096));
    EXPECT_EQ(product.b.scale_strides.row, 1);
}

TEST(Workspace, FollowsFromShapesAlone) {
    Problem p = on_gpu(tn);
    for (Tensor* tensor : {&p.a.values, &p.a.scales, &p.b.values, &p.b.scales, &p.d}) tensor->data = nullptr;
    EXPECT_EQ(workspace_bytes(p), 96 * 208);
    p.d.shape = {1, 2};
    EXPECT_EQ(workspace_bytes(p), 0) << "of a wrong call: run says what is wrong with it";
    EXPECT_EQ(workspace_bytes({}), 0);
    EXPECT_EQ(workspace_bytes(on_gpu({.layout = Layout::tn, .k = 0})), 0) << "without k nothing is read";
    EXPECT_EQ(workspace_bytes(on_gpu({.layout = Layout::tn, .m = 0})), 0);
}

TEST(Workspace, AMatrixThatAllGroupsShareIsCopiedOnce) {
    Problem p = on_gpu({.grouping = Grouping::batched, .layout = Layout::tn, .m = 64, .n = 256, .k = 512});
    p.b.values.strides = {0, 256, 1};
    EXPECT_EQ(workspace_bytes(p), 4 * 64 * 512) << "b of all groups is as large as a: a is copied";
    p = on_gpu({.grouping = Grouping::batched, .layout = Layout::tn, .m = 128, .n = 256, .k = 512});
    p.b.values.strides = {0, 256, 1};
    EXPECT_EQ(workspace_bytes(p), 256 * 512);
    const Geometry g = geometry(p);
    const Geometry product = prepared(g, preparation(g), address(0x4000));
    EXPECT_EQ(product.b.values, address(0x4000));
    EXPECT_EQ(product.b.value_strides.group, 0);
    EXPECT_EQ(product.b.value_strides.row, 512);
    EXPECT_EQ(product.b.value_strides.k, 1);
    EXPECT_EQ(product.a.values, g.a.values);
}

TEST(Workspace, FindingsNameTheBytes) {
    const Problem p = on_gpu(tn);
    const std::string advice = "; RunOptions::workspace takes workspace_bytes(problem) bytes of the GPU\n";
    EXPECT_EQ(messages(check_workspace(p, {})),
              "workspace: nothing given, 19968 bytes or more expected for a copy of a.values along k" + advice);
    EXPECT_EQ(messages(check_workspace(p, {address(0x100), 19967})),
              "workspace: 19967 bytes given, 19968 bytes or more expected for a copy of a.values along k" + advice);
    EXPECT_EQ(messages(check_workspace(p, {address(0x110), 19968})),
              "workspace: an address that is 16 modulo 128 given, a multiple of 128 expected" + advice);
    void* const in_d = address(std::bit_cast<std::uintptr_t>(p.d.data) / 128 * 128);
    EXPECT_EQ(messages(check_workspace(p, {in_d, 19968})),
              "workspace: memory that overlaps d given, memory of its own expected" + advice);
    EXPECT_EQ(messages(check_workspace(p, {address(0x100), 19968})), "");
    EXPECT_EQ(messages(check_workspace(on_gpu({}), {})), "") << "a call that needs none";
}

TEST(Workspace, RunSaysWhatIsMissing) {
    const Problem p = on_gpu(tn);
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
