// Calls that are right have no finding: every grouping, layout and recipe, and the freedoms that problem.h grants.
#include "problem/sample.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

namespace tilewright::test {
namespace {

constexpr Grouping groupings[] = {Grouping::dense,
                                  Grouping::batched,
                                  Grouping::m_grouped_indices,
                                  Grouping::m_grouped_offsets,
                                  Grouping::m_grouped_aligned_offsets,
                                  Grouping::m_grouped_masked,
                                  Grouping::k_grouped,
                                  Grouping::k_grouped_aligned_offsets,
                                  Grouping::k_grouped_flat};

std::string findings_of(const Problem& problem) {
    std::string text;
    for (const Finding& finding : validate(problem)) text += finding.message() + "\n";
    return text;
}

void* shifted(void* data, std::intptr_t bytes) {
    return std::bit_cast<void*>(std::bit_cast<std::intptr_t>(data) + bytes);
}

TEST(WellFormed, EveryGroupingLayoutAndRecipe) {
    for (Grouping grouping : groupings) {
        for (Layout layout : {Layout::nt, Layout::nn, Layout::tn, Layout::tt}) {
            for (const Recipe& recipe : all_recipes()) {
                const std::string recipe_name = name(recipe);
                const SampleSpec spec{
                    .grouping = grouping, .layout = layout, .recipe = recipe_name.c_str(), .with_c = true};
                EXPECT_EQ(findings_of(sample(spec)), "") << name(grouping) << " " << name(layout) << " " << recipe_name;
            }
        }
    }
}

TEST(WellFormed, EveryOutput) {
    for (Format output : {Format::bf16, Format::f16, Format::f32})
        EXPECT_EQ(findings_of(sample({.output = output})), "");
}

TEST(WellFormed, NoElements) {
    for (Grouping grouping : groupings) {
        for (const char* recipe : {"1x128:128x128", "row:row", "tensor:tensor", "nvfp4:nvfp4", "bf16:bf16"}) {
            for (int zeros = 1; zeros < 16; ++zeros) {
                Problem p = sample({.grouping = grouping,
                                    .recipe = recipe,
                                    .m = (zeros & 1) != 0 ? 0 : 64,
                                    .n = (zeros & 2) != 0 ? 0 : 256,
                                    .k = (zeros & 4) != 0 ? 0 : 512,
                                    .groups = (zeros & 8) != 0 ? 0 : 4});
                EXPECT_EQ(findings_of(p), "") << name(grouping) << " " << recipe << " " << zeros;
                if (zeros % 2 == 1) p.d.data = nullptr;
                EXPECT_EQ(findings_of(p), "") << "d may be null without elements";
            }
        }
    }
}

TEST(WellFormed, SizesBelowOneBlock) {
    for (const char* recipe : {"1x128:128x128", "mxfp4:nvfp4", "mxfp8:mxfp4"}) {
        for (Grouping grouping : groupings) {
            EXPECT_EQ(findings_of(sample({.grouping = grouping, .recipe = recipe, .m = 1, .n = 1, .k = 2})), "");
        }
    }
}

TEST(WellFormed, ScalesInAnyStrides) {
    Problem p = sample({});
    p.a.scales = transposed(placed(Format::f32, {4, 64}));
    p.b.scales.strides = {0, 0};
    EXPECT_EQ(findings_of(p), "");
}

TEST(WellFormed, OneScaleForAllGroups) {
    Problem p = sample({.grouping = Grouping::batched, .recipe = "tensor:nvfp4"});
    p.a.scales = placed(Format::f32, {1});
    p.b.tensor_scale = placed(Format::f32, {1});
    EXPECT_EQ(findings_of(p), "");
}

TEST(WellFormed, KGroupedScalesForEachGroupAndMoreColumns) {
    Problem p = sample({.grouping = Grouping::k_grouped, .recipe = "row:row"});
    p.a.scales = placed(Format::f32, {4, 64});
    EXPECT_EQ(findings_of(p), "");
    p = sample({.grouping = Grouping::k_grouped, .recipe = "tensor:tensor"});
    p.b.scales = placed(Format::f32, {4});
    EXPECT_EQ(findings_of(p), "");
    p = sample({.grouping = Grouping::k_grouped, .recipe = "1x128:nvfp4"});
    p.a.scales = placed(Format::f32, {64, 8});
    p.b.scales = placed(Format::ue4m3, {256, 35});
    p.b.tensor_scale = placed(Format::f32, {4});
    EXPECT_EQ(findings_of(p), "");
}

TEST(WellFormed, SizesInBothFormatsAndAnyStride) {
    Problem p = sample({.grouping = Grouping::m_grouped_indices});
    p.groups.sizes = placed(Format::i64, {128});
    p.groups.sizes.shape = {64};
    p.groups.sizes.strides = {2};
    EXPECT_EQ(findings_of(p), "");
}

TEST(WellFormed, BroadcastInputs) {
    Problem p = sample({.grouping = Grouping::batched, .with_c = true});
    p.b.values.strides = {0, 512, 1};
    p.c.strides = {0, 0, 1};
    EXPECT_EQ(findings_of(p), "");
}

TEST(WellFormed, InPlace) {
    Problem p = sample({.with_c = true});
    p.c = p.d;
    EXPECT_EQ(findings_of(p), "");
    p = sample({.m = 1, .with_c = true});
    p.c = p.d;
    p.c.strides = {7, 1};  // of a dimension of size 1
    EXPECT_EQ(findings_of(p), "");
}

TEST(WellFormed, InterleavedViewsOfOneBuffer) {
    Problem p = sample({.recipe = "bf16:bf16", .with_c = true});
    const Tensor buffer = placed(Format::bf16, {64, 1280});
    p.d.data = buffer.data;
    p.c.data = shifted(buffer.data, 256 * 2);
    p.a.values.data = shifted(buffer.data, 512 * 2);
    p.d.strides = p.c.strides = p.a.values.strides = {1280, 1};
    EXPECT_EQ(findings_of(p), "");
    p = sample({.with_c = true});  // columns of c between those of d
    p.d.strides = p.c.strides = {512, 2};
    p.c.data = shifted(p.d.data, 2);
    EXPECT_EQ(findings_of(p), "");
}

TEST(WellFormed, OutputWithCrossedStrides) {
    Problem p = sample({.m = 3, .n = 2});
    p.d.strides = {2, 3};  // addresses 0 3 2 5 4 7
    EXPECT_EQ(findings_of(p), "");
}

TEST(WellFormed, OddStridesOfE2m1DimensionsOfSizeOne) {
    Problem p = sample({.recipe = "mxfp4:mxfp4", .m = 1});
    p.a.values.strides = {1, 1};
    EXPECT_EQ(findings_of(p), "");
}

TEST(WellFormed, BiasOfEveryGroupOrOfAll) {
    for (const Grouping grouping : all_groupings) {
        if (is_k_grouped(grouping)) continue;
        for (const Format format : {Format::f32, Format::bf16}) {
            Problem p = sample({.grouping = grouping, .recipe = "row:row", .output = Format::f16});
            p.bias = placed(format, {256});
            EXPECT_EQ(findings_of(p), "");
            p.bias.strides = {0};  // one number for all columns
            EXPECT_EQ(findings_of(p), "");
            if (grouping == Grouping::dense) continue;
            p.bias = placed(format, {4, 256});
            EXPECT_EQ(findings_of(p), "");
            p.bias.strides = {1, 4};
            EXPECT_EQ(findings_of(p), "");
        }
    }
    Problem p = sample({.recipe = "row:row"});
    p.bias = placed(Format::f32, {256});
    for (Tensor* t : {&p.a.values, &p.a.scales, &p.b.values, &p.b.scales, &p.d, &p.bias})
        t->device = {.kind = DeviceId::Kind::cuda, .index = 3};
    EXPECT_TRUE(validate(p, Backend::hopper).empty());
}

TEST(WellFormed, EveryAlpha) {
    Problem p = sample({});
    for (float alpha : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        p.alpha = alpha;
        EXPECT_EQ(findings_of(p), "");
    }
}

TEST(WellFormed, UnpromotedWithoutScalesAlongK) {
    for (const char* recipe : {"tensor:tensor", "row:row", "bf16:bf16"}) {
        Problem p = sample({.recipe = recipe});
        p.accumulation = Accumulation::unpromoted;
        EXPECT_EQ(findings_of(p), "") << recipe;
    }
}

TEST(WellFormed, ShapesAlone) {
    Problem p = sample({.grouping = Grouping::k_grouped, .recipe = "nvfp4:bf16", .with_c = true});
    for (Tensor* tensor : {&p.a.values, &p.a.scales, &p.a.tensor_scale, &p.b.values, &p.c, &p.d, &p.groups.sizes}) {
        tensor->data = nullptr;
    }
    EXPECT_TRUE(validate(p, Backend::cpu, Check::shapes).empty());
    EXPECT_EQ(validate(p, Backend::cpu, Check::call).size(), 7U);
}

TEST(WellFormed, WhatAHopperGpuTakes) {
    const DeviceId gpu{.kind = DeviceId::Kind::cuda, .index = 3};
    for (const char* recipe : {"tensor:tensor", "row:row", "1x128:128x128", "1x128:1x128", "e5m2.1x128.ue8m0:1x128"}) {
        for (Grouping grouping : {Grouping::dense, Grouping::batched}) {
            for (const std::int64_t k : {0, 16, 208, 512}) {
                Problem p = sample({.grouping = grouping, .recipe = recipe, .m = 37, .n = 131, .k = k, .with_c = true});
                for (Tensor* t : {&p.a.values, &p.a.scales, &p.b.values, &p.b.scales, &p.c, &p.d}) t->device = gpu;
                EXPECT_EQ(findings_of(p), "") << recipe << " " << k;
                EXPECT_TRUE(validate(p, Backend::hopper).empty()) << recipe << " " << k;
                EXPECT_EQ(resolve(p, Backend::automatic), Backend::hopper);
            }
        }
    }
}

TEST(WellFormed, AHopperGpuTakesASingleRowAnywhere) {
    Problem p = sample({.recipe = "tensor:tensor", .m = 1, .n = 1, .k = 100});
    p.a.values.strides = {37, 1};
    EXPECT_TRUE(validate(p, Backend::hopper, Check::shapes).empty());
}

}  // namespace
}  // namespace tilewright::test
