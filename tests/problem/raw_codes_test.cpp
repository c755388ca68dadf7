// MXFP4 weights whose codes a GPU's kernels take where they are: which ones, and the workspace of a call with them.
#include <gtest/gtest.h>
#include <tilewright/error.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "problem/sample.h"
#include "problem/workspace.h"
#include "problem/workspace_plan.h"

namespace tilewright::test {
namespace {

Problem call_on_gpu(const SampleSpec& spec) {
    Problem p = sample(spec);
    for (Tensor* each : {&p.a.values, &p.a.scales, &p.b.values, &p.b.scales, &p.d}) {
        each->device = {.kind = DeviceId::Kind::cuda};
    }
    return p;
}

void* place(std::uintptr_t value) { return std::bit_cast<void*>(value); }

TEST(RawCodes, StayWhereTheyAreIfTmaLoadsThem) {
    // Header, rows of 8 bytes, and of tiles of 64 x 128 what follows the codes, with room for four windows.
    constexpr std::int64_t tile = 256 + 16 + 4 * 64;
    const auto aligned = [](std::int64_t bytes) { return (bytes + 127) / 128 * 128; };
    const std::int64_t raw = aligned(128 + 256 * 8 + 4 * 3 * tile);
    for (const char* recipe : {"1x128:mxfp4", "row:mxfp4", "tensor:mxfp4", "1x128.ue8m0:mxfp4"}) {
        EXPECT_EQ(workspace_bytes(call_on_gpu({.recipe = recipe, .n = 200, .k = 320})), raw) << recipe;
    }
    const Problem p = call_on_gpu({.recipe = "1x128:mxfp4", .n = 200, .k = 320});
    const std::vector<Finding> findings = workspace_findings(p, {});
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_NE(findings[0].message().find("or more for scales of weights."), std::string::npos);
    const Geometry g = geometry(p);
    const Geometry product = after_workspace(g, workspace_plan(g), place(0x4000));
    EXPECT_TRUE(product.b.packed.raw);
    EXPECT_EQ(product.b.values, g.b.values);
    EXPECT_EQ(product.b.packed.tile_bytes, tile);
    const auto is_packed = [&](auto change) {
        Problem changed = p;
        change(changed);
        const Geometry of = geometry(changed);
        return !after_workspace(of, workspace_plan(of), place(0x4000)).b.packed.raw &&
               workspace_bytes(changed) > raw + 4 * 3 * 4096;
    };
    EXPECT_FALSE(is_packed([](Problem&) {}));
    EXPECT_FALSE(is_packed([](Problem& other) { other.b.values.data = nullptr; }));
    EXPECT_FALSE(is_packed([](Problem& other) { other.b.values.strides[0] += 32; }));
    EXPECT_TRUE(is_packed([](Problem& other) { other.b.values.strides[0] += 16; }));
    EXPECT_TRUE(is_packed([](Problem& other) { other.b.values.data = place(0x10008); }));
    for (const char* recipe : {"mxfp8:mxfp4", "mxfp4:mxfp4", "bf16:mxfp4"}) {
        const Geometry other = geometry(call_on_gpu({.recipe = recipe, .n = 200, .k = 320}));
        EXPECT_FALSE(after_workspace(other, workspace_plan(other), place(0x4000)).b.packed.raw) << recipe;
    }
}

}  // namespace
}  // namespace tilewright::test
