// The meaning of the options of `bench` and `tune`.
#include "cli/bench_arguments.h"

#include <gtest/gtest.h>

#include "cli/commands.h"
#include "cli/words.h"

namespace tilewright::cli {
namespace {

TEST(BenchArguments, SuitesAndShortRecipes) {
    BenchArguments arguments;
    EXPECT_THROW(chosen_shapes(arguments, "tune"), UsageError);
    arguments.suite = "peers";
    EXPECT_EQ(chosen_shapes(arguments, "tune").size(), 25U);
    arguments.m = {4096};
    EXPECT_EQ(chosen_shapes(arguments, "tune").size(), 6U);
    arguments.suite = "peers-ragged";
    EXPECT_THROW(chosen_shapes(arguments, "tune"), UsageError) << "m = 4096";
    arguments.m = {};
    arguments.operations = {"dense", "m_grouped_indices", "m_grouped_masked"};
    EXPECT_EQ(chosen_shapes(arguments, "tune").size(), 40U + 7U + 7U);
    arguments.m = {5};
    EXPECT_THROW(chosen_shapes(arguments, "tune"), UsageError);
    for (const char* word : {"1d2d", "1d1d", "tensor", "row", "mxfp8:mxfp4"}) {
        EXPECT_TRUE(parse_recipe(full_recipe(word))) << word;
    }
}

TEST(BenchArguments, AHotGroupNeedsGroupsAndRoom) {
    BenchArguments arguments;
    arguments.m = {64};
    arguments.n = 256;
    arguments.k = 128;
    arguments.hot = 5;
    const auto complaint = [&] {
        try {
            chosen_shapes(arguments, "bench");
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_EQ(complaint(), "bench: --hot needs groups that share rows or k; dense has none. Choose a grouped --op");
    arguments.operations = {"m_grouped_masked"};
    EXPECT_EQ(complaint(), "bench: --hot 5 gives a group 160 rows, but --max-m is 128; increase --max-m");
    arguments.max_m = 160;
    EXPECT_EQ(complaint(), "");
    EXPECT_EQ(chosen_shapes(arguments, "bench").front().sizes, (std::vector<std::int64_t>{160, 32, 32, 32}));
    arguments.suite = "deepseek-v3";
    arguments.n = arguments.k = 0;
    EXPECT_EQ(complaint(), "bench: --suite sets the sizes of groups; with --hot pass --m, --n and --k");
}

TEST(BenchArguments, SecondsMeanTheCpusOrContinuousLoad) {
    BenchArguments arguments;
    const auto first = [&] { return all_settings(arguments, Backend::hopper).front(); };
    EXPECT_EQ(first().seconds, 2);
    EXPECT_TRUE(first().tuned_rows);
    arguments.settings.sustained = true;
    arguments.model_alone = true;
    EXPECT_EQ(first().seconds, 4);
    EXPECT_FALSE(first().tuned_rows);
    arguments.seconds = 7;
    EXPECT_EQ(first().seconds, 7);
}

}  // namespace
}  // namespace tilewright::cli
