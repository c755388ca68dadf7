// What `tilewright support` says of a call, and how its tables are written.
#include "cli/support_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cli/running.h"

namespace tilewright::cli {
namespace {

Support of(const char* recipe, Grouping grouping = Grouping::dense, Layout layout = Layout::nt, bool packed = true) {
    return support({.recipe = *parse_recipe(recipe), .grouping = grouping, .layout = layout, .packed = packed}).support;
}

template <class Value>
bool is_in(const std::vector<Value>& list, Value value) {
    return std::find(list.begin(), list.end(), value) != list.end();
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

/// Every call that the program's tables are about: a GPU runs it where the short table says so, and nowhere else.
TEST(Support, RulesAreExactAndDoNotOverlap) {
    const std::vector<SupportRule> rules = support_rules();
    std::set<std::string> recipes;
    for (const SupportRule& rule : rules) {
        EXPECT_FALSE(rule.recipes.empty()) << rule.title;
        for (const Recipe& recipe : rule.recipes) {
            EXPECT_TRUE(recipes.insert(name(recipe)).second) << "in two rules: " << name(recipe);
            for (const Grouping grouping : all_groupings) {
                for (const Layout layout : all_layouts) {
                    const bool listed = is_in(rule.groupings, grouping) && is_in(rule.layouts, layout);
                    const Support found = support({.recipe = recipe, .grouping = grouping, .layout = layout}).support;
                    EXPECT_EQ(found >= Support::compiled, listed)
                        << name(recipe) << " " << name(grouping) << " " << name(layout);
                    EXPECT_GE(found, Support::cpu) << name(recipe) << " " << name(grouping) << " " << name(layout);
                }
            }
        }
    }
    const auto is_marked = [](const std::string& cell) { return !cell.empty() && cell != "c"; };
    const std::vector<SupportTable> tables = short_support();
    std::size_t marked = 0;
    for (const std::vector<std::string>& row : tables.front().rows)
        marked += static_cast<std::size_t>(std::count_if(row.begin() + 1, row.end(), is_marked));
    EXPECT_EQ(recipes.size(), marked);
    EXPECT_EQ(rules.size(), tables.back().rows.size());
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
