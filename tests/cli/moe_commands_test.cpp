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
                                    const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"explain", "moe", "--experts", "128",  "--top",    "8",    "--hidden", "2048",
                                   "--inner", "768", "--tokens",  tokens, "--recipe", recipe, "--device", "h200"};
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
        for (const json& kernel : report.at("kernels")) {
            EXPECT_GT(kernel.at("us"), 1) << recipe;
            EXPECT_GT(kernel.at("memory_bytes"), 0) << recipe;
            seconds += kernel.at("us").get<double>();
        }
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

TEST(MoeCommands, MistakesAreNamedInOneLine) {
    const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
        {{"explain"}, "tilewright explain: --m is required"},
        {{"explain", "moe"}, "tilewright explain moe: "},
        {{"explain", "moe", "--top"}, "--top"},
        {explain_of("1x128:128x128", "0"), "--tokens: got '0'"},
        {explain_of("1x128:128x128", "8", {"--unit", "gelu"}), "invalid unit 'gelu'; expected swiglu, situ"},
        {explain_of("1x128:128x128", "8", {"--weights-at", "x"}), "invalid place 'x'; expected combine, activation"},
        {explain_of("128x128:128x128", "8"), "activations: got 128x128"},
        {{"verify", "moe", "--filter", "no such row"}, "matches no row"},
        {{"bench", "moe"}, "bench moe: expected --model (qwen3-30b, qwen3-235b, deepseek-v3-ep8, gpt-oss-120b) or"},
        {{"bench", "moe", "--model", "gpt-9"}, "invalid model 'gpt-9'"},
        {{"bench", "moe", "--model", "qwen3-30b", "--fast"}, "tilewright bench moe: unknown option '--fast'"}};
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

}  // namespace
}  // namespace tilewright::cli
