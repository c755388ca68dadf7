// Layers over ranks of this process: what is compared, and that other bits are found.
#include "verify/moe_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tilewright::verify {
namespace {

MoeFamily family_named(const std::string& name) {
    const std::vector<MoeFamily> all = all_moe_families();
    return *std::ranges::find(all, name, &MoeFamily::name);
}

RowResult run_on_cpu(const MoeFamily& family, int ranks) {
    const VerifySettings settings{.arithmetics = {Arithmetic::bit_exact}, .quick = true};
    return run_ranked_moe(family, ranks, settings, [] {});
}

TEST(MoeRanks, ScalesOfTensorsAndWideFormatsAreLeftOut) {
    std::vector<std::string> names;
    for (const MoeFamily& family : ranked_moe_families()) {
        for (const Recipe& recipe : family.recipes) names.push_back(name(recipe));
    }
    for (const char* name : {"1x128:128x128", "row:row", "mxfp8:mxfp4", "bf16:bf16"}) {
        EXPECT_EQ(std::ranges::count(names, tilewright::name(recipe_named(name))), 1) << name;
    }
    for (const char* name : {"tensor:tensor", "nvfp4:nvfp4", "f16:f16", "f32:f32"}) {
        EXPECT_EQ(std::ranges::count(names, tilewright::name(recipe_named(name))), 0) << name;
    }
}

TEST(MoeRanks, CasesAreInvariantLayersOfTokensWithExpertsForAllRanks) {
    for (const bool quick : {false, true}) {
        const std::vector<check::MoeSpec> cases = ranked_cases_of(family_named("1x128:128x128"), 3, quick);
        EXPECT_GE(cases.size(), quick ? 2U : 12U);
        for (const check::MoeSpec& spec : cases) {
            EXPECT_EQ(spec.form, check::MoeForm::tokens);
            EXPECT_EQ((spec.experts - spec.shared) % 3, 0);
            EXPECT_EQ(spec.reproducibility, Reproducibility::invariant);
            EXPECT_FALSE(spec.packed || spec.with_map);
        }
    }
}

TEST(MoeRanks, RanksHaveTheBitsOfOne) {
    for (const int ranks : {1, 3}) {
        const RowResult row = run_on_cpu(family_named("1x128:128x128"), ranks);
        EXPECT_EQ(row.failed, 0) << (row.failures.empty() ? "" : row.failures[0]);
        EXPECT_EQ(row.cases % 6, 0);  // two exchanges; rows, and sums in two formats
        EXPECT_GE(row.cases, 6);
        EXPECT_GT(row.seconds, 0);
    }
}

/// A scale of a whole tensor is that of h on a rank.
TEST(MoeRanks, OtherBitsAreFound) {
    const RowResult row = run_on_cpu(family_named("tensor:tensor"), 3);
    EXPECT_GT(row.failed, 0);
    ASSERT_FALSE(row.failures.empty());
    EXPECT_NE(row.failures[0].find("of out is not that of one rank"), std::string::npos) << row.failures[0];
    EXPECT_NE(row.failures[0].find("3 ranks by "), std::string::npos) << row.failures[0];
}

}  // namespace
}  // namespace tilewright::verify
