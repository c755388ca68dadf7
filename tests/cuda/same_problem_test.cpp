// Which calls may share what was learnt of one: whatever decides if a call is refused, or its kernel, tells them apart.
#include "cuda/same_problem.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

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

}  // namespace
}  // namespace tilewright::cuda
