// The output and the records of a run, on the CPU and on a GPU.
#include "bench/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

#include "bench/record.h"

namespace tilewright::bench {
namespace {

/// cuBLASLt takes 12 us.
Result result_of(std::int64_t m, double us) {
    Result result{.shape = {.m = m, .n = 7168, .k = 2048}, .tile = planner::PlannedTile{}};
    result.work = {.flops = 1e9, .bytes = 1e6};
    result.timings = {{.seconds = us * 1e-6, .hertz = 1.75e9, .calls = 12},
                      {.peer = Peer::blas_tensor, .seconds = 12e-6, .calls = 12}};
    return result;
}

Run gpu_run() {
    return {.settings = {.recipe = parse_recipe("1x128:128x128").value(), .backend = Backend::hopper},
            .peaks = {.flops_per_second = 1e15, .bytes_per_second = 4e12},
            .device = "NVIDIA H200",
            .date = today(),
            .command = command_line(),
            .blas_version = "13.1.0",
            .started = now()};
}

std::vector<nlohmann::json> parsed(const std::string& lines) {
    std::vector<nlohmann::json> list;
    std::istringstream text(lines);
    for (std::string line; std::getline(text, line);) list.push_back(nlohmann::json::parse(line));
    return list;
}

TEST(Report, SummaryHasTheMeanAndTheWorstOfEachClass) {
    Result without = result_of(4096, 6);
    without.timings.pop_back();
    const std::string text = summary({result_of(64, 6), result_of(128, 24), without}, gpu_run());
    EXPECT_EQ(text,
              "m <= 128: 2 shapes, 1.000x the speed of cuBLASLt in the geometric mean, worst 0.500x at [128, 7168, "
              "2048]\n");
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
    EXPECT_EQ(lines[0].at("started").get<std::string>().size(), 20U);
    EXPECT_EQ(lines[0].at("tuned_rows"), true);
    EXPECT_TRUE(lines[0].contains("tile"));
    EXPECT_EQ(lines[1].at("peer"), "cuBLASLt 13.1.0 per-tensor scale");
    Result wrong = result_of(64, 8);
    wrong.failure = "emulation: 3 of 10 failed";
    EXPECT_EQ(result_records(wrong, run), "");
    EXPECT_NE(result_lines(result_table({wrong.shape}, run), wrong, run).find("WRONG"), std::string::npos);
}

TEST(Report, GroupsHaveCuBlasLtsGroupedProducts) {
    Result result = result_of(64, 8);
    result.shape.grouping = Grouping::k_grouped;
    result.timings = {result.ours(),
                      {.peer = Peer::blas_groups, .seconds = 10e-6, .hertz = 1.5e9, .calls = 12},
                      {.peer = Peer::blas_bf16_groups, .seconds = 16e-6, .calls = 12}};
    const bench::Run run = gpu_run();
    const output::Table table = result_table({result.shape}, run);
    EXPECT_NE(table.header().find("x cuBLASLt    in bf16 us"), std::string::npos) << table.header();
    const std::string line = result_lines(table, result, run);
    EXPECT_NE(line.find("10.00  1.50       1.250         16.00"), std::string::npos) << line;
    EXPECT_NE(summary({result}, run).find("1 shapes, 1.250x the speed of cuBLASLt"), std::string::npos);
    const auto lines = parsed(result_records(result, run));
    ASSERT_EQ(lines.size(), 3U);
    EXPECT_EQ(lines[1].at("peer"), "cuBLASLt 13.1.0 grouped product, e4m3");
    EXPECT_EQ(lines[2].at("peer"), "cuBLASLt 13.1.0 grouped product, bf16");
}

TEST(Report, RecordsOfGroupsHaveTheirHintAndDrawnSizes) {
    Result result = result_of(64, 8);
    result.shape = {.grouping = Grouping::m_grouped_masked, .groups = 2, .m = 20, .n = 64, .k = 64, .max_m = 64};
    result.timings.pop_back();
    EXPECT_EQ(parsed(result_records(result, gpu_run()))[0].at("expected_m"), 24);
    EXPECT_FALSE(parsed(result_records(result, gpu_run()))[0].contains("group_sizes"));
    result.shape.sizes = {11, 29};
    EXPECT_EQ(parsed(result_records(result, gpu_run()))[0].at("group_sizes"), nlohmann::json({11, 29}));
}

TEST(Report, TunedLinesSayHowTheirOperandsWere) {
    const TunedShape tuned{.shape = {.m = 64, .n = 7168, .k = 2048}};
    const TriedTile tried{.measured = {.seconds = 8e-6, .hertz = 1.75e9}};
    bench::Run run = gpu_run();
    for (const char* key : {"layout", "unpacked", "wide_rows"}) EXPECT_FALSE(record(tuned, tried, run).contains(key));
    run.settings.layout = Layout::tn;
    run.settings.unpacked = true;
    run.settings.wide_rows = 100;
    const nlohmann::ordered_json line = record(tuned, tried, run);
    EXPECT_EQ(line.at("layout"), "tn");
    EXPECT_EQ(line.at("unpacked"), true);
    EXPECT_EQ(line.at("wide_rows"), 100);
}

TEST(Report, ContinuousLoadHasWattsAndPicojoules) {
    bench::Run run = gpu_run();
    run.settings.sustained = true;
    run.settings.peers = true;
    run.settings.seconds = 4;
    Result result{.shape = {.m = 4096, .n = 4096, .k = 7168},
                  .tile = planner::PlannedTile{},
                  .work = {.flops = 2e11, .bytes = 1e6}};
    result.timings = {{.seconds = 160e-6, .hertz = 1.4e9, .calls = 25000, .watts = 690},
                      {.peer = Peer::blas_tensor, .seconds = 150e-6, .hertz = 1.5e9, .calls = 26000}};
    const output::Table table = result_table({result.shape}, run);
    const std::string text = table.header() + result_lines(table, result, run);
    for (const char* word : {"TFLOP/s", "pJ/FLOP", "160.00", "1.40", "1250", "690", "0.552", "150.00"}) {
        EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
    }
    const auto lines = parsed(result_records(result, run));
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].at("watts"), 690);
    EXPECT_NEAR(lines[0].at("pj_per_flop"), 0.552, 1e-6);
    EXPECT_EQ(lines[0].at("sustained_s"), 4);
    EXPECT_EQ(lines[0].at("flush"), "none");
    EXPECT_FALSE(lines[1].contains("watts")) << "not measured";
    EXPECT_EQ(summary({result}, run), "");
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
