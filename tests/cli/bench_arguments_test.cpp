// What the options of `bench` and `tune` mean.
#include "cli/bench_arguments.h"

#include <gtest/gtest.h>

#include "bench/peers_table.h"
#include "cli/commands.h"

namespace tilewright::cli {
namespace {

TEST(BenchArguments, SuitesAndShortRecipes) {
    BenchArguments arguments;
    EXPECT_THROW(chosen_shapes(arguments, "tune"), UsageError);
    arguments.suite = "peers";
    EXPECT_EQ(chosen_shapes(arguments, "tune").size(), 25U);
    arguments.m = {4096};
    EXPECT_EQ(chosen_shapes(arguments, "tune").size(), 6U);
    arguments.m = {5};
    EXPECT_THROW(chosen_shapes(arguments, "tune"), UsageError);
    for (const char* word : {"1d2d", "1d1d", "tensor", "row", "mxfp8:mxfp4"}) {
        EXPECT_TRUE(parse_recipe(full_recipe(word))) << word;
    }
}

}  // namespace
}  // namespace tilewright::cli
