#include "bench/peers_table.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <tuple>
#include <utility>

namespace tilewright::bench {
namespace {

const Recipe blocks = parse_recipe("1x128:128x128").value();

/// In microseconds, as the two runs took for the reference product.
constexpr double even_reference = 157.68e-6;
constexpr double ragged_reference = 155.17e-6;

TEST(PeersTable, ShipsTheDenseShapesOfTheTargets) {
    for (const auto& [table, count, reference] :
         {std::tuple(&even_peers(), 25U, even_reference), std::tuple(&ragged_peers(), 40U, ragged_reference)}) {
        const std::vector<BenchShape> shapes = peer_shapes(*table, Grouping::dense);
        EXPECT_EQ(shapes.size(), count);
        for (const BenchShape& shape : shapes) {
            for (const char* peer : {"DeepGEMM", "torch 2.11 _scaled_mm per-row", blas_peer}) {
                const PeerTime* row = find_peer(peers_table(), peer, shape);
                ASSERT_NE(row, nullptr) << peer << " " << shape_text(shape);
                EXPECT_GT(row->seconds, 1e-6);
                EXPECT_DOUBLE_EQ(row->reference_seconds, reference);
            }
        }
    }
}

TEST(PeersTable, ShipsTheGroupedShapesWithTheSizesThatThePeersHad) {
    for (const auto& [table, contiguous, masked] :
         {std::tuple(&even_peers(), 6U, 10U), std::tuple(&ragged_peers(), 7U, 7U)}) {
        EXPECT_EQ(peer_shapes(*table, Grouping::m_grouped_indices).size(), contiguous);
        EXPECT_EQ(peer_shapes(*table, Grouping::m_grouped_masked).size(), masked);
        for (const Grouping grouping : {Grouping::m_grouped_offsets, Grouping::m_grouped_masked}) {
            for (const BenchShape& shape : peer_shapes(*table, grouping)) {
                EXPECT_GT(peer_seconds(peers_table(), baseline(blocks, grouping), shape).value_or(0), 1e-6);
            }
        }
    }
    // The tables' flops over 2 n k: Python's sum(int(8192 * random.uniform(0.7, 1.3)) ...) with seed 1, and so on.
    const auto rows = [](const BenchShape& shape) {
        const std::vector<std::int64_t> sizes = group_sizes(shape);
        return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    };
    EXPECT_EQ(rows({.grouping = Grouping::m_grouped_offsets, .groups = 4, .m = 8192, .n = 1, .k = 1}), 32769);
    EXPECT_EQ(rows({.grouping = Grouping::m_grouped_offsets, .groups = 32, .m = 256, .n = 1, .k = 1}), 7869);
    EXPECT_EQ(rows({.grouping = Grouping::m_grouped_masked, .groups = 32, .m = 192, .n = 1, .k = 1, .max_m = 1024}),
              6039);
    EXPECT_EQ(rows({.grouping = Grouping::m_grouped_offsets, .groups = 8, .m = 300, .n = 1, .k = 1}), 2465);
    EXPECT_EQ(rows({.grouping = Grouping::m_grouped_masked, .groups = 64, .m = 12, .n = 1, .k = 1, .max_m = 128}), 763);
}

TEST(PeersTable, HasTheEnergyOfThreeProducts) {
    EXPECT_DOUBLE_EQ(peer_picojoules({.m = 4096, .n = 7168, .k = 16384}).value(), 0.560);
    EXPECT_DOUBLE_EQ(peer_picojoules({.m = 4096, .n = 7168, .k = 2048}).value(), 0.623);
    EXPECT_DOUBLE_EQ(peer_picojoules(reference_product).value(), 0.573);
    EXPECT_FALSE(peer_picojoules({.m = 64, .n = 7168, .k = 2048}));
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

/// The clock of this run is that of the table, then half of it.
TEST(PeersTable, RunsAreComparedByTheTimeOfTheReferenceProduct) {
    const std::vector<PeerTime> table = parse_peers(
        R"({"peer": "DeepGEMM", "op": "dense", "shape": [64, 8, 16], "us": 100})"
        "\n"
        R"({"peer": "cuBLASLt 13.0 per-tensor scale", "op": "dense reference", "shape": [4096, 4096, 7168], "us": 80})");
    const PeerTime* peer = find_peer(table, "DeepGEMM", {.m = 64, .n = 8, .k = 16});
    ASSERT_NE(peer, nullptr);
    EXPECT_NEAR(speed_against(peer, 50e-6, 80e-6).value(), 2.0, 1e-12);
    EXPECT_NEAR(speed_against(peer, 50e-6, 160e-6).value(), 4.0, 1e-12);
    EXPECT_FALSE(speed_against(peer, 50e-6, std::nullopt));
    EXPECT_FALSE(speed_against(nullptr, 50e-6, 80e-6));
    EXPECT_EQ(find_peer(table, "DeepGEMM", {.m = 65, .n = 8, .k = 16}), nullptr);
    EXPECT_TRUE(peer_shapes(table, Grouping::dense).size() == 1) << "the reference is no shape of the suite";
}

}  // namespace
}  // namespace tilewright::bench
