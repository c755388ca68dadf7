// What `tilewright support` says of a call, and how its tables are written.
#include "cli/support_table.h"

#include <gtest/gtest.h>

#include "cli/running.h"

namespace tilewright::cli {
namespace {

Support of(const char* recipe, Grouping grouping = Grouping::dense, Layout layout = Layout::nt, bool packed = true) {
    return support({.recipe = *parse_recipe(recipe), .grouping = grouping, .layout = layout, .packed = packed}).support;
}

TEST(Support, FollowsFromThePackAndFromTheRulesOfEachBackend) {
    EXPECT_EQ(of("1x128:128x128"), Support::precompiled);
    EXPECT_EQ(of("1x128:mxfp4"), Support::precompiled);
    EXPECT_EQ(of("bf16:mxfp4"), Support::partly);  // weights that are expanded to bf16 have no precompiled kernel
    EXPECT_EQ(of("1x128:mxfp4", Grouping::dense, Layout::nt, false), Support::compiled);
    EXPECT_EQ(of("1x128:nvfp4"), Support::compiled);
    EXPECT_EQ(of("e5m2.row:row"), Support::compiled);
    EXPECT_EQ(of("bf16:bf16"), Support::cpu);
    EXPECT_EQ(of("tensor:row"), Support::none);
}

TEST(Support, DependsOnGroupingAndLayout) {
    EXPECT_EQ(of("1x128:128x128", Grouping::k_grouped_aligned_offsets), Support::precompiled);
    EXPECT_EQ(of("1x128:128x128", Grouping::k_grouped), Support::compiled);
    EXPECT_EQ(of("mxfp8:mxfp8", Grouping::m_grouped_masked), Support::compiled);
    EXPECT_EQ(of("mxfp8:mxfp8", Grouping::k_grouped), Support::cpu);
    EXPECT_EQ(of("row:mxfp4", Grouping::dense, Layout::nn), Support::cpu);
    EXPECT_EQ(of("mxfp4:mxfp4", Grouping::dense, Layout::tt), Support::compiled);
    EXPECT_FALSE(support({.recipe = *parse_recipe("row:row")}).has_workspace);
    EXPECT_TRUE(support({.recipe = *parse_recipe("row:row"), .layout = Layout::tn}).has_workspace);
}

TEST(Support, TablesAreMarkdownOrAligned) {
    const SupportTable table{.title = "t", .note = "n", .head = {"recipe", "dense"}, .rows = {{"`row:row`", "●"}}};
    EXPECT_EQ(markdown(table), "| recipe | dense |\n|---|:-:|\n| `row:row` | ● |\n");
    EXPECT_EQ(aligned_text(table), "recipe   dense\n-------  -----\nrow:row  ●\n");
}

TEST(Support, TheProgramPrintsTheShortForm) {
    const std::string text = test::run_program({"support", "--short"}).out;
    EXPECT_EQ(text.rfind("● Hopper, precompiled", 0), 0U) << text;
    EXPECT_TRUE(test::contains(text, "\nfp8, 1x128  "));
    EXPECT_FALSE(test::contains(text, "|"));
}

}  // namespace
}  // namespace tilewright::cli
