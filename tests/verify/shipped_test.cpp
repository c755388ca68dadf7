#include "verify/shipped.h"

#include <gtest/gtest.h>
#include <tilewright/recipe.h>
#include <tilewright/run.h>

#include "check/case.h"
#include "cuda/kernel_pack.h"

namespace tilewright::verify {
namespace {

bool ships_dense(const char* recipe, Layout layout) {
    check::CaseSpec spec;
    spec.recipe = *parse_recipe(recipe);
    spec.layout = layout;
    spec.m = 128;
    spec.n = 256;
    spec.k = 512;
    const check::Case test_case(spec);
    return ships(test_case.problem(), default_device());
}

TEST(Shipped, UsualCallsDoAndOthersWaitForTheCompiler) {
    if (cuda::embedded_pack().kernels().empty()) GTEST_SKIP() << "this library was built without kernels";
    EXPECT_TRUE(ships_dense("1x128:128x128", Layout::nt));
    EXPECT_TRUE(ships_dense("row:row", Layout::nt));
    EXPECT_FALSE(ships_dense("e5m2.row:row", Layout::nt));  // of no e5m2

    EXPECT_FALSE(ships_dense("mxfp8:mxfp4", Layout::nt));  // what packs weights of any scales
}

}  // namespace
}  // namespace tilewright::verify
