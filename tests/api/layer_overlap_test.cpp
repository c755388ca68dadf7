// Which kernels of a layer of experts begin while their predecessor ends.
#include <gtest/gtest.h>

#include "api/moe_run.h"

namespace tilewright {
namespace {

Tensor shaped(std::initializer_list<std::int64_t> shape) { return {.format = Format::bf16, .shape = Dims(shape)}; }

Moe layer_of_tokens(std::int64_t tokens) {
    return {.x = shaped({tokens, 256}),
            .routing = {.experts = shaped({tokens, 8})},
            .up = {.values = shaped({16, 256, 256})},
            .down = {.values = shaped({16, 256, 128})}};
}

Moe masked_layer(std::int64_t room, std::int64_t expected_m) {
    Moe layer = layer_of_tokens(1);
    layer.routing = {};
    layer.x = shaped({16, room, 256});
    layer.groups.grouping = Grouping::m_grouped_masked;
    layer.expected_m = expected_m;
    return layer;
}

TEST(LayerOverlap, KernelsAfterTheFirstOverlapUpToAFixedNumberOfRows) {
    EXPECT_TRUE(after_first(layer_of_tokens(1), {}).overlap);
    EXPECT_TRUE(after_first(layer_of_tokens(512), {}).overlap);
    EXPECT_FALSE(after_first(layer_of_tokens(513), {}).overlap);
    EXPECT_TRUE(after_first(layer_of_tokens(513), {.overlap = true}).overlap);
}

TEST(LayerOverlap, MaskedRowsAreThoseThatTheCallerExpects) {
    EXPECT_TRUE(after_first(masked_layer(256, 0), {}).overlap);
    EXPECT_FALSE(after_first(masked_layer(257, 0), {}).overlap);
    EXPECT_TRUE(after_first(masked_layer(1024, 20), {}).overlap);
    EXPECT_FALSE(after_first(masked_layer(1024, 2000), {}).overlap);
}

TEST(LayerOverlap, TheCallersPromiseOfReadyWeightsDoesNotCoverSizesOfTheLayer) {
    EXPECT_FALSE(after_first(layer_of_tokens(1), {.overlap = true, .weights_ready = true}).weights_ready);
}

}  // namespace
}  // namespace tilewright
