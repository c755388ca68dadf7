#include "bench/peers_table.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>

namespace tilewright::bench {
namespace {

const Recipe blocks = parse_recipe("1x128:128x128").value();

TEST(PeersTable, ShipsTheDenseShapesOfTheTargets) {
    const std::vector<BenchShape> shapes = peer_shapes(peers_table(), Grouping::dense);
    EXPECT_EQ(shapes.size(), 25U);
    for (const BenchShape& shape : shapes) {
        for (const char* peer : {"DeepGEMM", "torch 2.11 _scaled_mm per-row", blas_peer}) {
            EXPECT_GT(peer_seconds(peers_table(), peer, shape).value_or(0), 1e-6) << peer << " " << shape.m;
        }
    }
}

TEST(PeersTable, ShipsTheGroupedShapesWithTheSizesThatThePeersHad) {
    const std::vector<BenchShape> contiguous = peer_shapes(peers_table(), Grouping::m_grouped_indices);
    const std::vector<BenchShape> masked = peer_shapes(peers_table(), Grouping::m_grouped_masked);
    EXPECT_EQ(contiguous.size(), 6U);
    EXPECT_EQ(masked.size(), 10U);
    for (const std::vector<BenchShape>& shapes : {contiguous, masked}) {
        for (const BenchShape& shape : shapes) {
            EXPECT_GT(peer_seconds(peers_table(), baseline(blocks, shape.grouping), shape).value_or(0), 1e-6);
        }
    }
    // The table's flops over 2 n k: Python's sum(int(8192 * random.uniform(0.7, 1.3)) ...) with seed 1, and so on.
    const auto rows = [](const BenchShape& shape) {
        const std::vector<std::int64_t> sizes = group_sizes(shape);
        return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    };
    EXPECT_EQ(rows({.grouping = Grouping::m_grouped_offsets, .groups = 4, .m = 8192, .n = 1, .k = 1}), 32769);
    EXPECT_EQ(rows({.grouping = Grouping::m_grouped_offsets, .groups = 32, .m = 256, .n = 1, .k = 1}), 7869);
    EXPECT_EQ(rows({.grouping = Grouping::m_grouped_masked, .groups = 32, .m = 192, .n = 1, .k = 1, .max_m = 1024}),
              6039);
}

TEST(PeersTable, ALineThatCannotBeReadIsNamed) {
    const std::string good = R"({"peer": "x", "op": "dense", "shape": [1, 2, 3], "us": 4.5})";
    EXPECT_DOUBLE_EQ(parse_peers(good + "\n\n")[0].seconds, 4.5e-6);
    try {
        parse_peers(good + "\n{\"peer\": 1}\n");
        FAIL();
    } catch (const std::runtime_error& error) {
        EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
    }
}

/// Ours x (cuBLASLt in the table / cuBLASLt live) against the baseline in the table.
TEST(PeersTable, SpeedsAreComparedInUnitsOfTheSameRunsCublas) {
    const std::vector<PeerTime> table =
        parse_peers(R"({"peer": "DeepGEMM", "op": "dense", "shape": [64, 8, 16], "us": 100})"
                    "\n"
                    R"({"peer": "cuBLASLt 13.0 per-tensor scale", "op": "dense", "shape": [64, 8, 16], "us": 80})");
    const BenchShape shape{.m = 64, .n = 8, .k = 16};
    EXPECT_NEAR(speed_against_baseline(table, blocks, shape, 50e-6, 80e-6).value(), 2.0, 1e-12);
    EXPECT_NEAR(speed_against_baseline(table, blocks, shape, 50e-6, 40e-6).value(), 1.0, 1e-12);
    EXPECT_NEAR(speed_against_baseline(table, parse_recipe("tensor:tensor").value(), shape, 50e-6, 40e-6).value(), 0.8,
                1e-12);
    EXPECT_FALSE(speed_against_baseline(table, blocks, shape, 50e-6, std::nullopt));
    EXPECT_FALSE(speed_against_baseline(table, parse_recipe("row:row").value(), shape, 50e-6, 40e-6));
    EXPECT_FALSE(speed_against_baseline(table, blocks, {.m = 65, .n = 8, .k = 16}, 50e-6, 40e-6));
}

}  // namespace
}  // namespace tilewright::bench
