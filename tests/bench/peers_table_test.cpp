#include "bench/peers_table.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>

#include "bench/gpu_report.h"

namespace tilewright::bench {
namespace {

const Recipe blocks = parse_recipe("1x128:128x128").value();

TEST(PeersTable, ShipsTheDenseShapesOfTheMarks) {
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
            EXPECT_GT(peer_seconds(peers_table(), rival(blocks, shape.grouping), shape).value_or(0), 1e-6);
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

/// The rule of the marks: ours x (cuBLASLt in the table / cuBLASLt live) against the rival in the table.
TEST(PeersTable, SpeedsAreComparedInUnitsOfTheSameRunsCublas) {
    const std::vector<PeerTime> table =
        parse_peers(R"({"peer": "DeepGEMM", "op": "dense", "shape": [64, 8, 16], "us": 100})"
                    "\n"
                    R"({"peer": "cuBLASLt 13.0 per-tensor scale", "op": "dense", "shape": [64, 8, 16], "us": 80})");
    const BenchShape shape{.m = 64, .n = 8, .k = 16};
    EXPECT_NEAR(speed_against_rival(table, blocks, shape, 50e-6, 80e-6).value(), 2.0, 1e-12);
    EXPECT_NEAR(speed_against_rival(table, blocks, shape, 50e-6, 40e-6).value(), 1.0, 1e-12);
    EXPECT_NEAR(speed_against_rival(table, parse_recipe("tensor:tensor").value(), shape, 50e-6, 40e-6).value(), 0.8,
                1e-12);
    EXPECT_FALSE(speed_against_rival(table, blocks, shape, 50e-6, std::nullopt));
    EXPECT_FALSE(speed_against_rival(table, parse_recipe("row:row").value(), shape, 50e-6, 40e-6));
    EXPECT_FALSE(speed_against_rival(table, blocks, {.m = 65, .n = 8, .k = 16}, 50e-6, 40e-6));
}

GpuResult result_of(std::int64_t m, double us) {
    GpuResult result{.shape = {.m = m, .n = 7168, .k = 2048}};
    result.work = {.flops = 1e9, .bytes = 1e6};
    result.ours = {.seconds = us * 1e-6, .hertz = 1.75e9, .calls = 12};
    result.blas_tensor = {.seconds = peer_seconds(peers_table(), blas_peer, result.shape).value(), .calls = 12};
    return result;
}

GpuRun block_run() {
    GpuRun run;
    run.settings.recipe = blocks;
    run.peaks.flops_per_second = 1e15;
    run.peaks.bytes_per_second = 4e12;
    run.device = "NVIDIA H200";
    run.date = today();
    run.command = command_line();
    run.blas_version = "13.1.0";
    return run;
}

TEST(GpuReport, SummaryHasTheMeanAndTheWorstOfEachClass) {
    const GpuRun run = block_run();
    const double rival_us = peer_seconds(peers_table(), "DeepGEMM", {.m = 64, .n = 7168, .k = 2048}).value() * 1e6;
    const double other_us = peer_seconds(peers_table(), "DeepGEMM", {.m = 128, .n = 7168, .k = 2048}).value() * 1e6;
    const std::string text = gpu_summary({result_of(64, rival_us / 2), result_of(128, other_us / 0.5)}, run);
    EXPECT_NE(text.find("m <= 128: 2 shapes, 1.000x the speed of DeepGEMM"), std::string::npos) << text;
    EXPECT_NE(text.find("worst 0.500x at [128, 7168, 2048]"), std::string::npos) << text;
    EXPECT_EQ(text.find("m >= 4096"), std::string::npos) << text;
}

TEST(GpuReport, JsonLinesSayWhatRepeatsThem) {
    const GpuRun run = block_run();
    const auto lines = gpu_json(result_of(64, 8), run);
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].at("us"), 8);
    EXPECT_EQ(lines[0].at("ratio"), 8);
    EXPECT_EQ(lines[0].at("clock_ghz"), 1.75);
    EXPECT_EQ(lines[0].at("flush"), "clean");
    EXPECT_EQ(lines[0].at("date").get<std::string>().size(), 10U);
    EXPECT_EQ(lines[0].at("command").get<std::string>().rfind("bench_test", 0), 0U);
    EXPECT_EQ(lines[1].at("peer"), "cuBLASLt 13.1.0 per-tensor scale");
    GpuResult wrong = result_of(64, 8);
    wrong.failure = "emulation: 3 of 10 failed";
    EXPECT_TRUE(gpu_json(wrong, run).empty());
    EXPECT_NE(gpu_line(gpu_table({wrong.shape}, run.settings), wrong, run).find("WRONG"), std::string::npos);
}

TEST(GpuReport, ChainsAddTwoColumns) {
    GpuRun run = block_run();
    GpuResult result = result_of(64, 8);
    const std::string without = gpu_table({result.shape}, run.settings).header();
    EXPECT_EQ(without.find("overlap"), std::string::npos) << without;
    EXPECT_FALSE(gpu_json(result, run)[0].contains("chain_us"));

    run.settings.overlap = true;
    result.chain = {.apart = 9.25e-6, .overlapping = 6.5e-6};
    const output::Table table = gpu_table({result.shape}, run.settings);
    const std::string header = table.header();
    const std::string line = gpu_line(table, result, run);
    for (const auto& [title, time] : {std::pair{"chain us", "9.25"}, std::pair{"overlap us", "6.50"}}) {
        const std::size_t end = header.find(title) + std::string(title).size();
        EXPECT_EQ(line.substr(0, end).substr(end - 5), std::string(" ") + time) << header << line;
    }
    const auto json = gpu_json(result, run);
    EXPECT_EQ(json[0].at("chain_us"), 9.25);
    EXPECT_EQ(json[0].at("chain_overlap_us"), 6.5);
    EXPECT_EQ(json[0].at("chain_calls"), measure::chain_calls);
    EXPECT_FALSE(json[1].contains("chain_us"));  // cuBLASLt
}

}  // namespace
}  // namespace tilewright::bench
