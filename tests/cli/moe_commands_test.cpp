// The commands for layers of experts as users run them: their tables, records and messages.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/running.h"

namespace tilewright::cli {
namespace {

using nlohmann::json;
using test::contains;
using test::Outcome;
using test::run_program;
using test::TemporaryFolder;

std::vector<std::string> explain_of(const std::string& recipe, const std::string& tokens,
                                    const std::vector<std::string>& more = {}, const std::string& experts = "128") {
    std::vector<std::string> words{"explain", "moe", "--experts", experts, "--top",    "8",    "--hidden", "2048",
                                   "--inner", "768", "--tokens",  tokens,  "--recipe", recipe, "--device", "h200"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

std::vector<std::string> kernels_of(const json& report) {
    std::vector<std::string> names;
    for (const json& kernel : report.at("kernels")) names.push_back(kernel.at("name"));
    return names;
}

TEST(MoeCommands, EachHasHelpWithAnExample) {
    for (const std::string command : {"explain", "verify", "bench"}) {
        const Outcome help = run_program({command, "moe", "--help"});
        EXPECT_EQ(help.exit_code, 0) << help.err;
        EXPECT_TRUE(contains(help.out, "Example:\n  tilewright " + command + " moe")) << help.out;
    }
}

TEST(MoeCommands, ExplainPrintsAKernelPerLineAndATotal) {
    const Outcome outcome = run_program(explain_of("1x128:128x128", "512"));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    for (const char* word : {"route", "permute", "up", "activate", "down", "combine", "total"}) {
        EXPECT_TRUE(contains(outcome.out, std::string("\n") + word + " ")) << word << " in\n" << outcome.out;
    }
}

TEST(MoeCommands, ExplainCountsTheKernelsOfEveryRecipe) {
    const auto kernels = [](const std::string& recipe, const std::string& tokens,
                            const std::vector<std::string>& more = {}) {
        std::vector<std::string> words = explain_of(recipe, tokens, more);
        words.emplace_back("--json");
        const Outcome outcome = run_program(words);
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        const json report = json::parse(outcome.out);
        double seconds = 0;
        int launches = 0;
        for (const json& kernel : report.at("kernels")) {
            EXPECT_GT(kernel.at("us"), 1) << recipe;
            EXPECT_GT(kernel.at("memory_bytes"), 0) << recipe;
            if (kernel.at("name") == "quantize") {  // of a whole tensor; its missing rows are cleared first
                EXPECT_GE(kernel.at("launches"), 4);
                EXPECT_LE(kernel.at("launches"), 5);
            } else {
                EXPECT_EQ(kernel.at("launches"), 1) << recipe << kernel.at("name");
            }
            seconds += kernel.at("us").get<double>();
            launches += kernel.at("launches").get<int>();
        }
        EXPECT_EQ(launches, report.at("launches"));
        EXPECT_NEAR(seconds, report.at("us"), 1e-6 * seconds);
        return kernels_of(report);
    };
    using Names = std::vector<std::string>;
    EXPECT_EQ(kernels("1x128:128x128", "512"), (Names{"route", "permute", "up", "activate", "down", "combine"}));
    EXPECT_EQ(kernels("1x128:128x128", "128"), (Names{"permute", "up", "activate", "down", "combine"}));
    EXPECT_EQ(kernels("bf16:mxfp4", "128", {"--unit", "situ"}),
              (Names{"permute", "up", "activate", "down", "combine"}));
    EXPECT_EQ(kernels("tensor:tensor", "128"),
              (Names{"quantize", "permute", "up", "activate", "quantize", "down", "combine"}));
    EXPECT_EQ(kernels("tensor:tensor", "128", {"--weights-at", "input", "--shared", "1"}),
              (Names{"route", "permute", "quantize", "up", "activate", "quantize", "down", "combine"}));
}

json explained(std::vector<std::string> words) {
    words.emplace_back("--json");
    const Outcome outcome = run_program(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out);
}

TEST(MoeCommands, ExplainCountsTheKernelsThatPrepareAProduct) {
    for (const json& kernel : explained(explain_of("bf16:mxfp4", "128", {"--unpacked"})).at("kernels")) {
        const bool is_product = kernel.at("name") == "up" || kernel.at("name") == "down";
        EXPECT_EQ(kernel.at("launches") > 1, is_product) << kernel.at("name");
    }
}

TEST(MoeCommands, ExplainOverRanksHasTheirStepsAndLink) {
    using Names = std::vector<std::string>;
    const auto steps = [](const std::string& tokens, const std::vector<std::string>& more) {
        const json report = explained(explain_of("1x128:128x128", tokens, more));
        std::int64_t link_bytes = 0;
        for (const json& step : report.at("kernels")) link_bytes += step.at("link_bytes").get<std::int64_t>();
        EXPECT_EQ(link_bytes, report.at("link_bytes"));
        EXPECT_GT(link_bytes, 0);
        EXPECT_GT(report.at("exposed_us"), 0);
        EXPECT_LT(report.at("exposed_us"), report.at("us"));
        return kernels_of(report);
    };
    // Few tokens return rows, and more return sums.
    EXPECT_EQ(steps("8", {"--ranks", "2"}),
              (Names{"announce", "barrier", "permute", "up", "activate", "down", "barrier", "combine"}));
    EXPECT_EQ(steps("512", {"--ranks", "2"}), (Names{"announce", "barrier", "route", "permute", "up", "activate",
                                                     "down", "sums", "barrier", "combine"}));
    EXPECT_EQ(steps("512", {"--ranks", "4", "--exchange", "collectives", "--combine", "rows"}),
              (Names{"announce", "all-gather", "route", "permute", "up", "activate", "down", "rows", "all-to-all",
                     "combine"}));
    EXPECT_EQ(steps("512", {"--ranks", "4", "--exchange", "addresses", "--invariant"}),
              (Names{"announce", "barrier", "route", "permute", "up", "activate", "down", "barrier", "combine"}));
}

TEST(MoeCommands, ExplainOverRanksTakesTokensOfEachAndExpertsOfAll) {
    // 128 of 129 experts are divided, and each rank has the shared one. 650 tokens of 9 choices are 90 rows per expert.
    const json two = explained(explain_of("1x128:128x128", "650", {"--ranks", "2", "--shared", "1"}, "129"));
    EXPECT_EQ(two.at("layer").at("tokens"), 650);
    EXPECT_EQ(two.at("layer").at("experts"), 129);
    EXPECT_EQ(two.at("layer").at("ranks"), 2);
    const json one = explained(explain_of("1x128:128x128", "650", {"--shared", "1"}, "65"));
    const auto product_of = [](const json& report, const std::string& name) {
        for (const json& step : report.at("kernels")) {
            if (step.at("name") == name) return step;
        }
        return json{};
    };
    EXPECT_EQ(product_of(two, "up").at("memory_bytes"), product_of(one, "up").at("memory_bytes"));
    EXPECT_EQ(product_of(two, "down").at("us"), product_of(one, "down").at("us"));
}

TEST(MoeCommands, OnlyExplainOverRanksShowsBytesFromOthers) {
    const Outcome one = run_program(explain_of("1x128:128x128", "512"));
    EXPECT_FALSE(contains(one.out, "from others")) << one.out;
    EXPECT_FALSE(contains(one.out, "exposed")) << one.out;
    EXPECT_FALSE(explained(explain_of("1x128:128x128", "512")).contains("link_bytes"));
    EXPECT_TRUE(contains(one.out, "\nall figures measured\n")) << one.out;
    const Outcome ranks = run_program(explain_of("1x128:128x128", "512", {"--ranks", "8"}));
    EXPECT_EQ(ranks.exit_code, 0) << ranks.err;
    EXPECT_TRUE(contains(ranks.out, "512 tokens on each of 8 ranks, 128 experts")) << ranks.out;
    EXPECT_TRUE(contains(ranks.out, "from others")) << ranks.out;
    EXPECT_TRUE(contains(ranks.out, "exposed")) << ranks.out;
}

TEST(MoeCommands, MistakesAreNamedInOneLine) {
    const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
        {{"explain"}, "tilewright explain: --m is required"},
        {{"explain", "moe"}, "tilewright explain moe: "},
        {{"explain", "moe", "--top"}, "--top"},
        {explain_of("1x128:128x128", "0"), "--tokens: got '0'"},
        {explain_of("1x128:128x128", "8", {"--shared", "129"}), "--shared: got 129; expected 0 to 128, the experts"},
        {explain_of("1x128:128x128", "4294967296"), "--tokens: got '4294967296'; expected an integer from 1 to 214"},
        {{"explain", "moe", "--inner", "9223372036854775807"}, "--inner: got '9223372036854775807'; expected an int"},
        {explain_of("1x128:128x128", "8", {"--unit", "gelu"}), "got 'gelu'; expected swiglu, situ"},
        {explain_of("1x128:128x128", "8", {"--weights-at", "x"}), "got 'x'; expected combine, activation"},
        {explain_of("128x128:128x128", "8"), "activations: got 128x128"},
        {explain_of("1x128:128x128", "8", {"--ranks", "0"}), "--ranks: got '0'; expected an integer from 1 to"},
        {explain_of("1x128:128x128", "8", {"--ranks", "3"}),
         "--experts: got 128 without shared ones; expected a multiple"},
        {explain_of("1x128:128x128", "8", {"--ranks", "2"}, "1"), "--experts: got 1 without shared ones"},
        {explain_of("1x128:128x128", "8", {"--exchange", "addresses"}), "--exchange requires --ranks"},
        {explain_of("1x128:128x128", "8", {"--combine", "rows"}), "--combine requires --ranks"},
        {explain_of("1x128:128x128", "8", {"--ranks", "2", "--exchange", "nccl"}), "got 'nccl'"},
        {explain_of("1x128:128x128", "8", {"--ranks", "2", "--combine", "all"}), "got 'all'"},
        {explain_of("1x128:128x128", "8", {"--ranks", "2", "--combine", "sums", "--invariant"}),
         "combine: got sums; expected rows"},
        {explain_of("1x128:128x128", "8", {"--sums", "f32"}), "--sums requires --ranks"},
        {explain_of("1x128:128x128", "8", {"--ranks", "2", "--sums", "f16"}), "got 'f16'"},
        {explain_of("128x128:128x128", "8", {"--ranks", "2"}), "activations: got 128x128"},
        {{"verify", "moe", "--filter", "no such row"}, "matches no row"},
        {{"bench", "moe"}, "bench moe: expected --model (qwen3-30b, qwen3-235b, deepseek-v3-ep8, gpt-oss-120b) or"},
        {{"bench", "moe", "--model", "gpt-9"}, "got 'gpt-9'"},
        {{"bench", "moe", "--model", "qwen3-30b", "--fast"}, "tilewright bench moe: unknown option '--fast'"},
        {{"bench", "moe", "--model", "qwen3-30b", "--backend", "cpu"}, "--backend requires --ranks"},
        {{"bench", "moe", "--model", "qwen3-30b", "--backend", "cpu", "--ranks", "3", "--tokens", "1"},
         "--experts: got 128 without shared ones; expected a multiple of 3 ranks"},
        {{"bench", "moe", "--model", "qwen3-30b", "--ranks", "17"},
         "--ranks: got '17'; expected an integer from 1 to 16"},
        {{"verify", "moe", "--ranks", "0"}, "--ranks: got '0'; expected an integer from 1 to 16"}};
    for (const auto& [arguments, message] : cases) {
        const Outcome outcome = run_program(arguments);
        EXPECT_EQ(outcome.exit_code, 2) << message;
        EXPECT_TRUE(contains(outcome.err, message)) << outcome.err;
        EXPECT_EQ(outcome.out, "");
    }
}

TEST(MoeCommands, VerifyJudgesARowOnTheCpu) {
    const TemporaryFolder folder;
    const std::string path = folder.file("report.json");
    const Outcome outcome = run_program(
        {"verify", "moe", "--quick", "--backend", "cpu", "--filter", "^moe 1x128:128x128$", "--json", path});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    const json report = json::parse(test::read_file(path));
    ASSERT_EQ(report.at("rows").size(), 1U);
    EXPECT_EQ(report.at("failed"), 0);
    EXPECT_GE(report.at("cases"), 8);
    const double ratio = report.at("rows")[0].at("ratio");
    EXPECT_GT(ratio, 0.1);
    EXPECT_LE(ratio, 1);
}

TEST(MoeCommands, VerifyComparesRanksWithOne) {
    const TemporaryFolder folder;
    const std::string path = folder.file("report.json");
    const Outcome outcome = run_program({"verify", "moe", "--quick", "--backend", "cpu", "--ranks", "2", "--filter",
                                         "ranks 1x128:128x128$", "--json", path});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    EXPECT_TRUE(contains(outcome.out, "moe over 2 ranks"));
    const json report = json::parse(test::read_file(path));
    ASSERT_EQ(report.at("rows").size(), 1U);
    EXPECT_EQ(report.at("failed"), 0);
    EXPECT_GE(report.at("cases"), 12);  // two arithmetics, two exchanges; rows, and sums in two formats
}

TEST(MoeCommands, BenchOverRanksSaysThatTheyShareTheDevice) {
    const TemporaryFolder folder;
    const std::string path = folder.file("times.jsonl");
    const Outcome outcome = run_program({"bench",     "moe", "--experts", "9",   "--shared", "1",    "--top",   "2",
                                         "--hidden",  "64",  "--inner",   "32",  "--tokens", "4,80", "--ranks", "2",
                                         "--repeats", "1",   "--backend", "cpu", "--json",   path});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_TRUE(contains(outcome.out, "2 ranks that share one device: ")) << outcome.out;
    EXPECT_TRUE(contains(outcome.out, "Their times are not those of 2 devices.")) << outcome.out;
    const Outcome in_f32 =
        run_program({"bench",    "moe", "--experts", "8", "--top",  "2",   "--hidden",  "64", "--inner",   "32",
                     "--tokens", "80",  "--ranks",   "2", "--sums", "f32", "--repeats", "1",  "--backend", "cpu"});
    EXPECT_EQ(in_f32.exit_code, 0) << in_f32.err;
    EXPECT_TRUE(contains(in_f32.out, "sums f32")) << in_f32.out;
    const auto lines = test::read_file(path);
    const json few = json::parse(lines.substr(0, lines.find('\n')));
    const json many = json::parse(lines.substr(lines.find('\n')));
    EXPECT_EQ(few.at("sent"), "rows");
    EXPECT_EQ(many.at("sent"), "sums");
    for (const json& line : {few, many}) {
        EXPECT_EQ(line.at("op"), "moe_over_ranks");
        EXPECT_EQ(line.at("shape").at("ranks"), 2);
        EXPECT_EQ(line.at("ranks_share_the_device"), true);
        EXPECT_GT(line.at("us"), 0);
        EXPECT_GT(line.at("one_rank_us"), 0);
    }
    EXPECT_EQ(many.at("shape").at("tokens_of_a_rank"), 80);
}

}  // namespace
}  // namespace tilewright::cli
