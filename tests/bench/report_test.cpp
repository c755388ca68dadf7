// What a run prints and records, on the CPU and on a GPU.
#include "bench/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

#include "bench/peers_table.h"
#include "bench/record.h"

namespace tilewright::bench {
namespace {

Result result_of(std::int64_t m, double us) {
    Result result{.shape = {.m = m, .n = 7168, .k = 2048}, .tile = PlannedTile{}};
    result.work = {.flops = 1e9, .bytes = 1e6};
    result.timings = {{.seconds = us * 1e-6, .hertz = 1.75e9, .calls = 12},
                      {.peer = Peer::blas_tensor,
                       .seconds = peer_seconds(peers_table(), blas_peer, result.shape).value(),
                       .calls = 12}};
    return result;
}

Run gpu_run() {
    return {.settings = {.recipe = parse_recipe("1x128:128x128").value(), .backend = Backend::hopper},
            .peaks = {.flops_per_second = 1e15, .bytes_per_second = 4e12},
            .device = "NVIDIA H200",
            .date = today(),
            .command = command_line(),
            .blas_version = "13.1.0"};
}

std::vector<nlohmann::json> parsed(const std::string& lines) {
    std::vector<nlohmann::json> list;
    std::istringstream text(lines);
    for (std::string line; std::getline(text, line);) list.push_back(nlohmann::json::parse(line));
    return list;
}

TEST(Report, SummaryHasTheMeanAndTheWorstOfEachClass) {
    const double first = peer_seconds(peers_table(), "DeepGEMM", {.m = 64, .n = 7168, .k = 2048}).value() * 1e6;
    const double second = peer_seconds(peers_table(), "DeepGEMM", {.m = 128, .n = 7168, .k = 2048}).value() * 1e6;
    const std::string text = summary({result_of(64, first / 2), result_of(128, second / 0.5)}, gpu_run());
    EXPECT_NE(text.find("m <= 128: 2 shapes, 1.000x the speed of DeepGEMM"), std::string::npos) << text;
    EXPECT_NE(text.find("worst 0.500x at [128, 7168, 2048]"), std::string::npos) << text;
    EXPECT_EQ(text.find("m >= 4096"), std::string::npos) << text;
}

TEST(Report, RecordsSayWhatRepeatsThem) {
    const bench::Run run = gpu_run();
    const auto lines = parsed(result_records(result_of(64, 8), run));
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].at("us"), 8);
    EXPECT_EQ(lines[0].at("ratio"), 8);
    EXPECT_EQ(lines[0].at("clock_ghz"), 1.75);
    EXPECT_EQ(lines[0].at("flush"), "clean");
    EXPECT_EQ(lines[0].at("date").get<std::string>().size(), 10U);
    EXPECT_EQ(lines[0].at("command").get<std::string>().rfind("bench_test", 0), 0U);
    EXPECT_EQ(lines[0].at("baseline"), "DeepGEMM");
    EXPECT_TRUE(lines[0].contains("tile"));
    EXPECT_EQ(lines[1].at("peer"), "cuBLASLt 13.1.0 per-tensor scale");
    Result wrong = result_of(64, 8);
    wrong.failure = "emulation: 3 of 10 failed";
    EXPECT_EQ(result_records(wrong, run), "");
    EXPECT_NE(result_lines(result_table({wrong.shape}, run), wrong, run).find("WRONG"), std::string::npos);
}

TEST(Report, TheCpuHasALineForEachPeer) {
    bench::Run run = gpu_run();
    run.settings.backend = Backend::cpu;
    run.settings.arithmetic = Arithmetic::bit_exact;
    Result result = result_of(64, 8);
    result.tile.reset();
    result.timings = {{.seconds = 8e-6, .calls = 3}, {.peer = Peer::sgemm, .seconds = 4e-6, .calls = 3}};
    const std::string text = result_lines(result_table({result.shape}, run), result, run);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
    EXPECT_NE(text.find("1x128:128x128 (bit_exact)"), std::string::npos) << text;
    EXPECT_NE(text.find("OpenBLAS sgemm on f32"), std::string::npos) << text;
    const auto lines = parsed(result_records(result, run));
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].at("arithmetic"), "bit_exact");
    EXPECT_EQ(lines[0].at("ratio"), 8);
    EXPECT_FALSE(lines[0].contains("clock_ghz"));
    EXPECT_FALSE(lines[0].contains("tile"));
    EXPECT_EQ(lines[1].at("peer"), "OpenBLAS sgemm on f32");
    EXPECT_EQ(lines[1].at("recipe"), "1x128:128x128");
}

TEST(Report, SequencesAddTwoColumns) {
    bench::Run run = gpu_run();
    Result result = result_of(64, 8);
    const std::string without = result_table({result.shape}, run).header();
    EXPECT_EQ(without.find("overlap"), std::string::npos) << without;
    EXPECT_FALSE(parsed(result_records(result, run))[0].contains("sequence_us"));

    run.settings.overlap = true;
    result.sequence = {.apart = 9.25e-6, .overlapping = 6.5e-6};
    const output::Table table = result_table({result.shape}, run);
    const std::string header = table.header();
    const std::string line = result_lines(table, result, run);
    for (const auto& [title, time] : {std::pair{"in turn us", "9.25"}, std::pair{"overlap us", "6.50"}}) {
        const std::size_t end = header.find(title) + std::string(title).size();
        EXPECT_EQ(line.substr(0, end).substr(end - 5), std::string(" ") + time) << header << line;
    }
    const auto json = parsed(result_records(result, run));
    EXPECT_EQ(json[0].at("sequence_us"), 9.25);
    EXPECT_EQ(json[0].at("sequence_overlap_us"), 6.5);
    EXPECT_EQ(json[0].at("sequence_calls"), measure::sequence_calls);
    EXPECT_FALSE(json[1].contains("sequence_us"));  // cuBLASLt
}

}  // namespace
}  // namespace tilewright::bench
