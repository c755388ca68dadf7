// `tilewright explain` as its user sees it: what is printed, as text and as JSON, and what it answers to mistakes.
#include <gtest/gtest.h>

#include <set>

#include "cli/commands.h"
#include "cli/explain_report.h"
#include "output/table.h"
#include "plan/choose.h"
#include "plan/problems.h"

namespace tilewright::cli {
namespace {

ExplainedProblem explained(const ProblemSizes& sizes, const std::vector<planner::TunedRow>& rows = {}) {
    return {sizes, h200(), planner::explain(problem_of(sizes), h200(), rows)};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(ExplainReport, TextNamesTheChoiceItsTermsAndEveryKindOfRejection) {
    const ExplainedProblem problem = explained(planner::dense(4096, 7168, 2048));
    const std::string text = explanation_text(problem, false);
    std::set<std::string> words{"dense 1x128:128x128 nt bf16, m 4096, n 7168, k 2048", "predicted", "next best",
                                "rejected: "};
    words.insert(problem.explanation.chosen->tile);
    words.insert(problem.explanation.next_best->tile);
    for (const char* term : {"launch", "memory", "compute", "tensor", "promotion", "epilogue", "waves", "delivery"}) {
        words.insert(term);
    }
    for (const RejectedTile& tile : problem.explanation.rejected) words.insert("\n  " + tile.rule + " (");
    for (const std::string& word : words) EXPECT_TRUE(contains(text, word)) << word << " is not in\n" << text;
}

TEST(ExplainReport, SaysWhichNumbersOfTheDeviceAreAssumed) {
    const Problem problem = problem_of(planner::dense(4096, 7168, 2048));
    const auto text_on = [&](const char* device) {
        const DeviceDescription& on = device_named(device);
        return explanation_text({planner::dense(4096, 7168, 2048), on, explain(problem, on)}, false);
    };
    EXPECT_TRUE(contains(text_on("h100-pcie"), "\nassumed: power_hertz, memory_bytes_per_second, "));
    EXPECT_TRUE(contains(text_on("h100"), "assumed: l2_bytes_per_clock, "));
    EXPECT_TRUE(contains(text_on("h100"), "; all other figures measured\n"));
    EXPECT_TRUE(contains(text_on("h200"), "on h200, 132 SMs\nall figures measured\n"));
}

TEST(ExplainReport, AllShowsEveryReason) {
    const ExplainedProblem problem = explained(planner::dense(64, 2112, 512));
    const std::string text = explanation_text(problem, true);
    for (const RejectedTile& tile : problem.explanation.rejected) ASSERT_TRUE(contains(text, tile.reason + "\n"));
    EXPECT_LT(explanation_text(problem, false).size(), text.size());
}

TEST(ExplainReport, SaysThatATunedRowOverrodeTheModel) {
    const std::vector<planner::TunedRow> rows = planner::parse_tuned(
        "device\tproblem\ttile\tdate\tcommand\nh200\tdense 1x128:128x128 bf16 m=4096 n=7168 k=2048\t"
        "128x128x128 stages=4\t2026-11-21\ttilewright tune\n");
    const ExplainedProblem problem = explained(planner::dense(4096, 7168, 2048), rows);
    const std::string text = explanation_text(problem, false);
    const std::string time = output::format_duration(problem.explanation.chosen->cost.seconds);
    EXPECT_TRUE(contains(text, "chosen     128x128x128 stages=4: " + time + ", fast, k-major scales kernel")) << text;
    EXPECT_TRUE(contains(text, "by a tuned row, 2026-11-21: tilewright tune")) << text;
    EXPECT_TRUE(contains(text, "the model  " + problem.explanation.model_choice->tile)) << text;
    EXPECT_TRUE(contains(text, " faster, ")) << "the model's own choice is the faster one by its own lights\n" << text;
}

TEST(ExplainReport, JsonHoldsTheWholeExplanation) {
    const ExplainedProblem problem = explained(planner::dense(64, 2112, 7168));
    const nlohmann::json report = nlohmann::json::parse(explanation_json(problem).dump());
    const Explanation& explanation = problem.explanation;
    EXPECT_EQ(report["problem"]["recipe"], "1x128:128x128");
    EXPECT_EQ(report["device"], "h200");
    EXPECT_EQ(report["chosen"]["tile"]["name"], explanation.chosen->tile);
    EXPECT_DOUBLE_EQ(report["chosen"]["us"].get<double>(), explanation.chosen->cost.seconds * 1e6);
    EXPECT_EQ(report["rejected"].size(), explanation.rejected.size());
    EXPECT_EQ(report["legal_candidates"], explanation.legal.size());
    EXPECT_TRUE(report["model_choice"].is_null());
}

TEST(ExplainReport, EmptyAndUnservedProblemsAreAnswered) {
    EXPECT_TRUE(contains(explanation_text(explained(planner::dense(0, 7168, 2048)), false), "nothing is launched"));
    ProblemSizes sizes = planner::dense(64, 256, 256);
    sizes.recipe = planner::unscaled_bf16;
    EXPECT_TRUE(contains(explanation_text(explained(sizes), false), "no Hopper kernel:\n  a: got bf16"));
    EXPECT_TRUE(explanation_json(explained(sizes))["chosen"].is_null());
}

TEST(ExplainReport, ShowsWhatACopyTakes) {
    ProblemSizes sizes = planner::dense(1024, 4096, 2048);
    EXPECT_FALSE(contains(explanation_text(explained(sizes), false), "preparation"));
    sizes.layout = Layout::tn;
    EXPECT_TRUE(contains(explanation_text(explained(sizes), false),
                         "packing, decoding or expanding operands into the workspace, 4.00 MiB"));
    const nlohmann::json report = nlohmann::json::parse(explanation_json(explained(sizes)).dump());
    EXPECT_EQ(report["chosen"]["preparation_bytes"], 4 << 20);
    EXPECT_GT(report["chosen"]["terms_us"]["preparation"], 1);
}

/// The output of the command.
std::string printed(const std::string& arguments) {
    CLI::App program;
    add_explain(program);
    testing::internal::CaptureStdout();
    program.parse("explain --m 16 --n 512 --k 256 " + arguments, false);
    return testing::internal::GetCapturedStdout();
}

TEST(ExplainCommand, SaysThatPackedWeightsAreExpanded) {
    const std::string many =
        "m_grouped_offsets --groups 4 --m 32768 --n 4096 --k 7168 --recipe 1x128:mxfp4 --device h200";
    const auto text_of = [](const std::string& arguments) {
        CLI::App program;
        add_explain(program);
        testing::internal::CaptureStdout();
        program.parse("explain " + arguments, false);
        return testing::internal::GetCapturedStdout();
    };
    const std::string expanded = "first      b.packed expanded to e4m3, ";
    const auto first_of = [&](const std::string& arguments) {
        return nlohmann::json::parse(text_of(arguments + " --json"))["first"];
    };
    EXPECT_TRUE(contains(text_of(many), expanded));
    EXPECT_EQ(first_of(many)[0]["what"], "expanded to e4m3");
    EXPECT_FALSE(contains(text_of(many + " --wide-rows 1000"), expanded));
    EXPECT_FALSE(contains(text_of(many + " --unpacked"), expanded));
    const std::string next_to_bf16 =
        "m_grouped_offsets --groups 4 --m 32768 --n 4096 --k 7168 --recipe bf16:mxfp4 --device h200";
    const std::string to_bf16 = "first      b.packed expanded to bf16, ";
    EXPECT_TRUE(contains(text_of(next_to_bf16), to_bf16));
    EXPECT_TRUE(contains(text_of(next_to_bf16), "128x256x64 stages=3"));
    EXPECT_EQ(first_of(next_to_bf16)[0]["operand"], "b.packed");
    EXPECT_FALSE(contains(text_of(next_to_bf16 + " --wide-rows 1000"), to_bf16));
    EXPECT_FALSE(contains(text_of(next_to_bf16 + " --unpacked"), to_bf16));
}

TEST(ExplainCommand, SaysHowTheKernelTakesWideRowsOfTheRecipeAtHand) {
    for (const std::string recipe : {"bf16:mxfp4", "nvfp4:mxfp4", "1x128:mxfp4", "mxfp8:mxfp4"}) {
        const bool as_bf16 = recipe == "bf16:mxfp4" || recipe == "nvfp4:mxfp4";
        const std::string way = as_bf16
                                    ? "\nloop       one sum over k in the tensor core, wide rows again in sums of 32"
                                    : " decoded to e4m3 in registers, wide rows once per exponent window\n";
        for (const char* options : {" --wide-rows 100", " --unpacked"}) {
            const std::string text = printed("--recipe " + recipe + options);
            EXPECT_TRUE(contains(text, way) && contains(text, "the time of wide rows is not predicted")) << text;
            EXPECT_FALSE(contains(text, "src/")) << text;
            EXPECT_EQ(contains(text, ", one wide row in 100\n"), std::string(options) == " --wide-rows 100") << text;
        }
        const nlohmann::json report = nlohmann::json::parse(printed("--json --wide-rows 1 --recipe " + recipe));
        EXPECT_EQ(report["chosen"]["has_wide_rows"], true);
    }
    // With fp8 that has scales per row or per 128 k-elements.
    for (const std::string recipe : {"1x128:mxfp4", "row:mxfp4", "mxfp8:mxfp4", "bf16:mxfp4"}) {
        const bool raw = recipe == "1x128:mxfp4" || recipe == "row:mxfp4";
        const std::string unpacked = "--unpacked --recipe " + recipe;
        EXPECT_EQ(contains(printed(unpacked), "feed       unpacked FP4 weights decoded"), raw) << recipe;
        EXPECT_EQ(nlohmann::json::parse(printed("--json " + unpacked))["first"][0]["operand"], raw ? "b.scales" : "b");
    }
    EXPECT_TRUE(contains(printed("--recipe 1x128:mxfp4"), "feed       packed FP4 weights decoded"));
    EXPECT_FALSE(contains(printed("--recipe 1x128:mxfp4"), "first ")) << "packed before";
    // None is that far down; NVFP4 has none.
    for (const char* none : {"bf16:mxfp4", "bf16:mxfp4 --wide-rows 2000", "bf16:nvfp4 --wide-rows 1"}) {
        const std::string text = printed(std::string("--recipe ") + none);
        EXPECT_FALSE(contains(text, "wide")) << text;
    }
}

/// The command's objection to these arguments; empty if it has none.
std::string objection(const std::string& arguments) {
    CLI::App program;
    add_explain(program);
    try {
        testing::internal::CaptureStdout();
        program.parse("explain " + arguments, false);
        testing::internal::GetCapturedStdout();
        return "";
    } catch (const std::exception& error) {
        testing::internal::GetCapturedStdout();
        return error.what();
    }
}

TEST(ExplainCommand, MistakesListWhatIsKnown) {
    const std::string sizes = " --m 64 --n 256 --k 256";
    EXPECT_EQ(objection("dense" + sizes), "");
    EXPECT_EQ(objection("k_grouped --recipe 1x128:1x128 --output f32 --with-c --groups 4 --json" + sizes), "");
    EXPECT_TRUE(contains(objection("sparse" + sizes), "grouping: got 'sparse'; expected dense, batched, "));
    EXPECT_TRUE(contains(objection("--recipe 1x64" + sizes), "--recipe: got '1x64'; expected tensor:tensor, "));
    EXPECT_TRUE(contains(objection("--recipe row:128x128" + sizes), "--recipe: got 'row:128x128'; expected "));
    EXPECT_TRUE(contains(objection("--device h300" + sizes), "--device: got 'h300'; expected h200, h100, "));
    EXPECT_TRUE(contains(objection("--layout ntt" + sizes), "expected nt, nn, tn, tt"));
    EXPECT_TRUE(contains(objection("--output e4m3" + sizes), "expected bf16, f16, f32"));
    EXPECT_TRUE(contains(objection("--unpromoted" + sizes), "accumulation: got unpromoted; expected promoted for "));
    EXPECT_NE(objection("--m -1 --n 1 --k 1"), "");
    EXPECT_NE(objection("--m 1 --n 1"), "");
}

}  // namespace
}  // namespace tilewright::cli
