// The model against what users get today: benchmarks/peers/h200.jsonl, measured on one H200.
#include <gtest/gtest.h>
#include <tilewright/plan.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/problems.h"

namespace tilewright::planner {
namespace {

using Shape = std::vector<std::int64_t>;

struct Peer {
    std::string name;
    double seconds = 0;
};

std::map<Shape, std::vector<Peer>> peers_of(const std::string& operation) {
    std::map<Shape, std::vector<Peer>> peers;
    std::ifstream file(TILEWRIGHT_PEERS);
    for (std::string line; std::getline(file, line);) {
        const nlohmann::json row = nlohmann::json::parse(line);
        if (row["op"] != operation) continue;
        peers[row["shape"].get<Shape>()].push_back({row["peer"], row["us"].get<double>() * 1e-6});
    }
    return peers;
}

/// The fastest of the peers whose name contains one of `words`.
double best(const std::vector<Peer>& peers, const std::vector<std::string>& words) {
    double seconds = std::numeric_limits<double>::infinity();
    for (const Peer& peer : peers) {
        const bool wanted = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
            return peer.name.find(word) != std::string::npos;
        });
        if (wanted) seconds = std::min(seconds, peer.seconds);
    }
    return seconds;
}

/// Of the model's own choice, whatever a tuned row says.
double predicted(const ProblemSizes& sizes) {
    const Explanation explanation = explain(problem_of(sizes));
    return (explanation.model_choice ? *explanation.model_choice : explanation.chosen.value()).cost.seconds;
}

struct Band {
    double least;
    double most;
    double geomean_least;
    double geomean_most;
};

/// Predicted over measured, shape by shape.
void expect_within(const std::map<Shape, double>& ratios, const Band& band) {
    double logarithms = 0;
    for (const auto& [shape, ratio] : ratios) {
        EXPECT_GE(ratio, band.least) << testing::PrintToString(shape);
        EXPECT_LE(ratio, band.most) << testing::PrintToString(shape);
        logarithms += std::log(ratio);
    }
    const double geomean = std::exp(logarithms / static_cast<double>(ratios.size()));
    EXPECT_GE(geomean, band.geomean_least);
    EXPECT_LE(geomean, band.geomean_most);
}

// The model is fitted to the kernels of this library (tests/plan/record_test.cpp), so a band here says how far those
// and the peers may lie apart; a model that has gone astray leaves it. Far above: 64 and 128 x 2112 x 7168, where peers
// split k and no kernel of ours does.
TEST(Peers, DensePredictionsLieNearTheBestPeer) {
    std::map<Shape, double> scaled;
    std::map<Shape, double> unscaled;
    for (const auto& [shape, peers] : peers_of("dense")) {
        ProblemSizes sizes = dense(shape[0], shape[1], shape[2]);
        scaled[shape] = predicted(sizes) / best(peers, {"DeepGEMM", "1x128"});
        sizes.recipe = per_tensor;
        sizes.accumulation = Accumulation::unpromoted;
        unscaled[shape] = predicted(sizes) / best(peers, {"per-tensor", "per-row"});
    }
    ASSERT_EQ(scaled.size(), 25U);
    expect_within(scaled, {.least = 0.75, .most = 1.60, .geomean_least = 0.90, .geomean_most = 1.12});
    expect_within(unscaled, {.least = 0.70, .most = 1.75, .geomean_least = 0.90, .geomean_most = 1.15});
}

// Groups of 192 and 256 rows compute a good part of their last tiles for nothing, here as there.
TEST(Peers, GroupedPredictionsLieNearDeepGemm) {
    std::map<Shape, double> ratios;
    for (const auto& [shape, peers] : peers_of("m_grouped_contiguous")) {
        const ProblemSizes sizes{.grouping = Grouping::m_grouped_offsets,
                                 .recipe = block_scaled,
                                 .m = shape[0] * shape[1],
                                 .n = shape[2],
                                 .k = shape[3],
                                 .groups = shape[0]};
        ratios[shape] = predicted(sizes) / best(peers, {"DeepGEMM"});
    }
    for (const auto& [shape, peers] : peers_of("m_grouped_masked")) {
        const ProblemSizes sizes{.grouping = Grouping::m_grouped_masked,
                                 .recipe = block_scaled,
                                 .m = shape[1],
                                 .n = shape[3],
                                 .k = shape[4],
                                 .groups = shape[0],
                                 .expected_m = shape[2]};
        ratios[shape] = predicted(sizes) / best(peers, {"DeepGEMM"});
    }
    ASSERT_EQ(ratios.size(), 16U);
    expect_within(ratios, {.least = 0.70, .most = 1.25, .geomean_least = 0.83, .geomean_most = 1.12});
}

}  // namespace
}  // namespace tilewright::planner
