// The shapes of the suites `peers` and `peers-ragged`, and the sizes of their groups.
#include "bench/peer_shapes.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>

namespace tilewright::bench {
namespace {

TEST(PeerShapes, SuitesHaveTheShapesOfTheTargets) {
    EXPECT_EQ(peer_suites(), (std::vector<std::string>{"peers", "peers-ragged"}));
    for (const auto& [suite, dense, contiguous, masked, k_grouped] :
         {std::tuple("peers", 25U, 6U, 10U, 4U), std::tuple("peers-ragged", 40U, 7U, 7U, 0U)}) {
        EXPECT_EQ(peer_shapes(suite, Grouping::dense).size(), dense);
        for (const Grouping grouping :
             {Grouping::m_grouped_indices, Grouping::m_grouped_offsets, Grouping::m_grouped_aligned_offsets}) {
            EXPECT_EQ(peer_shapes(suite, grouping).size(), contiguous) << name(grouping);
        }
        EXPECT_EQ(peer_shapes(suite, Grouping::m_grouped_masked).size(), masked);
        EXPECT_EQ(peer_shapes(suite, Grouping::k_grouped).size(), k_grouped);
    }
    const BenchShape masked = peer_shapes("peers-ragged", Grouping::m_grouped_masked).back();
    EXPECT_EQ(shape_key(masked), (std::vector<std::int64_t>{64, 128, 12, 4096, 1536}));
    EXPECT_EQ(masked.max_m, 128);
}

TEST(PeerShapes, NoShapeIsThereTwice) {
    for (const Grouping grouping :
         {Grouping::dense, Grouping::m_grouped_offsets, Grouping::m_grouped_masked, Grouping::k_grouped}) {
        std::set<std::vector<std::int64_t>> keys;
        for (const std::string& suite : peer_suites()) {
            for (const BenchShape& shape : peer_shapes(suite, grouping)) {
                EXPECT_TRUE(keys.insert(shape_key(shape)).second) << suite << " " << shape_text(shape);
            }
        }
        EXPECT_FALSE(keys.empty()) << name(grouping);
    }
}

/// Python's sum(int(8192 * random.uniform(0.7, 1.3)) ...) with seed 1, and so on.
TEST(PeerShapes, GroupsHaveTheSizesThatPythonDraws) {
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

TEST(PeerShapes, LinesThatCannotBeReadAreNamed) {
    const std::string good = "suite\top\tshape\nx\tdense\t1 2 3\n";
    const std::vector<PeerShape> rows = parse_peer_shapes(good);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].suite, "x");
    EXPECT_EQ(rows[0].key, (std::vector<std::int64_t>{1, 2, 3}));
    const auto complaint = [&](const std::string& more) {
        try {
            parse_peer_shapes(good + more);
        } catch (const std::runtime_error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_EQ(complaint("x\tdense\n"),
              "benchmarks/peers/shapes.tsv: line 3: got 2 cells; expected 3 (suite, op, shape), separated by tabs");
    for (const char* wrong : {"dense\t1 2", "dense\t1 2 x", "dense\t1  2 3", "sparse\t1 2 3", "dense\t"}) {
        const std::string said = complaint(std::string("x\t") + wrong + "\n");
        EXPECT_NE(said.find("line 3: got "), std::string::npos) << wrong << ": " << said;
        EXPECT_NE(said.find("expected an operation and the numbers of its shape"), std::string::npos) << said;
    }
}

}  // namespace
}  // namespace tilewright::bench
