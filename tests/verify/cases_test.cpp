// `tilewright verify` leaves nothing out: its cases are all combinations, each once, and each family has real sizes.
#include "verify/cases.h"

#include <gtest/gtest.h>

#include <set>

#include "formats/packed_layout.h"
#include "verify/choices.h"

namespace tilewright::verify {
namespace {

std::string combination(const check::CaseSpec& spec, Arithmetic arithmetic) {
    std::string text;
    for (std::string_view word : {name(spec.grouping), name(spec.layout), name(spec.output), name(arithmetic)}) {
        text += std::string(word) + " ";
    }
    return text + name(spec.recipe);
}

TEST(VerifyCases, AreEveryCombinationOnce) {
    std::set<std::string> seen;
    for (const Family& family : all_families()) {
        for (const VerifyCase& verify_case : cases_of(family, all_arithmetics(), false)) {
            if (verify_case.is_more()) continue;
            for (Arithmetic arithmetic : verify_case.arithmetics) {
                EXPECT_TRUE(seen.insert(combination(verify_case.spec, arithmetic)).second);
            }
        }
    }
    // Written out here, apart from the cases: 9 operations, 4 layouts, 3 outputs.
    std::size_t expected = 0;
    for (const Recipe& recipe : all_recipes()) {
        bool fast_only = false;
        for (Format values : {recipe.a.values, recipe.b.values}) {
            if (values == Format::f16 || values == Format::f32) fast_only = true;
        }
        expected += std::size_t{9} * 4 * 3 * (fast_only ? 1 : 2);
    }
    EXPECT_EQ(seen.size(), expected);
    EXPECT_EQ(accepted_combinations(all_arithmetics()), static_cast<std::int64_t>(expected));
}

TEST(VerifyCases, HaveEveryDistributionAndARealSize) {
    for (const Family& family : all_families()) {
        SCOPED_TRACE(std::string(name(family.grouping)) + " " + family.recipe_name());
        std::set<check::Distribution> distributions;
        std::int64_t real = 0;
        for (const VerifyCase& verify_case : cases_of(family, all_arithmetics(), false)) {
            EXPECT_EQ(check::impossible(verify_case.spec), "");
            const bool several_blocks = verify_case.spec.m > 128 || verify_case.real_size;
            EXPECT_TRUE(family.a != Granularity::block_128x128 || several_blocks) << check::describe(verify_case.spec);
            if (verify_case.real_size) {
                ++real;
                EXPECT_GE(verify_case.spec.n * std::max(verify_case.spec.k, verify_case.spec.m), 1536 * 4096);
            } else {
                distributions.insert(verify_case.spec.distribution);
            }
        }
        EXPECT_EQ(real, 1);
        EXPECT_EQ(distributions.size(), check::random_distributions().size() + 2);
    }
}

/// Packed for bf16 they have a row that is wide; quickly too, in every operation that takes packed weights.
TEST(VerifyCases, HaveWideRowsNextToBf16) {
    for (const bool quick : {false, true}) {
        std::set<std::string> seen;
        for (const Family& family : all_families()) {
            for (const VerifyCase& verify_case : cases_of(family, all_arithmetics(), quick)) {
                if (!verify_case.wide_rows) continue;
                const check::Case test_case(verify_case.spec);
                const OwnedPackedWeights packed = pack_weights(test_case.problem().b, PackedFor::bf16);
                EXPECT_GE(formats::internal_of(packed).wide_row, 0);
                EXPECT_FALSE(verify_case.arithmetics.empty());
                seen.insert(std::string(name(family.grouping)) + " " + name(verify_case.spec.recipe));
            }
        }
        EXPECT_EQ(seen.size(), std::size_t{6 * 2}) << "operations; bf16 and NVFP4 activations";
    }
}

/// Per tensor and per row, also without scales of B, in every operation.
TEST(VerifyCases, HaveSumsThatAreNotPromoted) {
    for (const bool quick : {false, true}) {
        std::size_t rows = 0, cases = 0;
        for (const Family& family : all_families()) {
            const std::size_t before = cases;
            for (const VerifyCase& verify_case : cases_of(family, all_arithmetics(), quick)) {
                if (verify_case.spec.accumulation != Accumulation::unpromoted) continue;
                EXPECT_GT(verify_case.spec.k, 128) << "one chain either way";
                EXPECT_TRUE(verify_case.is_more());
                EXPECT_EQ(verify_case.arithmetics.size(), 2U);
                ++cases;
            }
            rows += cases > before ? 1 : 0;
        }
        EXPECT_EQ(rows, std::size_t{9 * 4}) << "operations; tensor, row, and both with e4m3 or e5m2 alone";
        EXPECT_EQ(cases, quick ? rows : rows * 4) << "formats of values";
    }
}

/// Every operation that has sizes of groups.
TEST(VerifyCases, HaveSizesOfEitherFormat) {
    for (const bool quick : {false, true}) {
        std::set<std::string> seen;
        for (const Family& family : all_families()) {
            if (family.grouping == Grouping::dense || family.grouping == Grouping::batched) continue;
            for (const VerifyCase& verify_case : cases_of(family, all_arithmetics(), quick)) {
                const std::string_view format = name(verify_case.spec.size_format);
                seen.insert(std::string(name(family.grouping)) + " " + std::string(format));
            }
        }
        EXPECT_EQ(seen.size(), std::size_t{7 * 2});
    }
}

TEST(VerifyCases, AcceptedByValidate) {
    for (const Family& family : all_families()) {
        for (const VerifyCase& verify_case : cases_of(family, all_arithmetics(), true)) {
            if (verify_case.real_size) continue;
            check::Case test_case(verify_case.spec);
            for (Arithmetic arithmetic : verify_case.arithmetics) {
                test_case.problem().arithmetic = arithmetic;
                for (const Finding& finding : validate(test_case.problem())) ADD_FAILURE() << finding.message();
            }
        }
    }
}

}  // namespace
}  // namespace tilewright::verify
