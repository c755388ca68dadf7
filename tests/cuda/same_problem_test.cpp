// Which calls may share what was learnt of one: whatever decides if a call is refused, or its kernel, tells them apart.
#include "cuda/same_problem.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "api/product.h"
#include "gpu_problem.h"

namespace tilewright::cuda {
namespace {

TEST(SameProblem, EveryPropertyOfPackedWeightsTells) {
    const PackedWeights weights{.bytes = 4096, .version = packed_version, .groups = 2, .n = 64, .k = 128};
    EXPECT_TRUE(same_kind(weights, weights));
    const std::vector<std::function<void(PackedWeights&)>> changes{
        [](PackedWeights& w) { w.bytes = 8192; },
        [](PackedWeights& w) { w.version = 1; },
        [](PackedWeights& w) { w.recipe.granularity = Granularity::block_1x16; },
        [](PackedWeights& w) { w.activations = PackedFor::bf16; },
        [](PackedWeights& w) { w.grouped = true; },
        [](PackedWeights& w) { w.groups = 1; },
        [](PackedWeights& w) { w.n = 128; },
        [](PackedWeights& w) { w.k = 64; },
        [](PackedWeights& w) { w.tensor_scales = 2; },
        [](PackedWeights& w) { w.internal[0] = 2; },
        [](PackedWeights& w) { w.internal[1] = 3; },
    };
    for (std::size_t i = 0; i < changes.size(); ++i) {
        PackedWeights other = weights;
        changes[i](other);
        EXPECT_FALSE(same_kind(weights, other)) << i;
    }
}

TEST(SameProblem, ABiasTells) {
    float numbers[8] = {};
    Problem with;
    with.bias = row_major(static_cast<void*>(numbers), Format::f32, {4});
    Problem other = with;
    EXPECT_TRUE(same_kind(with, other) && same_addresses(with, other));
    other.bias.data = numbers + 4;
    EXPECT_TRUE(same_kind(with, other));
    EXPECT_FALSE(same_addresses(with, other));
    other.bias.format = Format::bf16;
    EXPECT_FALSE(same_kind(with, other));
    EXPECT_FALSE(same_kind(with, Problem{}));
}

/// Both orders, because what is known of the first call must not serve the second.
TEST(SameProblem, TheWorkspaceInsideALayerFollowsTheAddressOfMxfp4Weights) {
    for (const std::int64_t n : {std::int64_t{512}, std::int64_t{640}}) {
        Problem aligned = test::gpu_problem({.n = n, .weights = Format::e2m1});
        Problem shifted = aligned;
        shifted.b.values.data = static_cast<std::byte*>(aligned.b.values.data) + 8;
        EXPECT_TRUE(same_kind(aligned, shifted));
        EXPECT_LT(workspace_bytes(aligned), workspace_bytes(shifted));
        if (n == 640) std::swap(aligned, shifted);
        for (const Problem* problem : {&aligned, &shifted, &aligned}) {
            Arena counting(nullptr, problem->d.device);
            EXPECT_EQ(workspace_of(*problem, counting).bytes, workspace_bytes(*problem)) << n;
        }
    }
}

}  // namespace
}  // namespace tilewright::cuda
