// The mainloops that the matrix is to have a kernel of, and the factors of exponent windows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "emulator/kernels.h"
#include "formats/packed_layout.h"
#include "hopper/description/derive.h"
#include "hopper/multiply/feed_windows.h"
#include "problem/canonical_order.h"

#include "emulator/primitives.h"

namespace tilewright::tests {
namespace {

bool any_kernel(bool (*is)(const hopper::Design& tile)) {
    return std::ranges::any_of(emulated_kernels(), [&](const EmulatedKernel& kernel) { return is(kernel.tile); });
}

/// Operands in registers are made ahead of the next multiplication: of 64 rows per warpgroup or 128, in one wgmma along
/// n or two. Or there are too few registers.
TEST(Matrix, HasKernelsOfEachLoop) {
    using hopper::Design;
    constexpr bool (*loops[])(const Design&) = {
        [](const Design& t) {
            return t.mma_a.is_mn_major() && t.loop == hopper::Loop::filling_next && t.wgmmas_along_n == 1 &&
                   t.rows_per_warpgroup == 64;
        },
        [](const Design& t) {
            return t.mma_a.is_mn_major() && t.loop == hopper::Loop::filling_next && t.wgmmas_along_n == 1 &&
                   t.rows_per_warpgroup == 128;
        },
        [](const Design& t) {
            return t.mma_a.is_mn_major() && t.loop == hopper::Loop::filling_next && t.wgmmas_along_n == 2 &&
                   t.rows_per_warpgroup == 64;
        },
        [](const Design& t) {
            return t.mma_a.is_mn_major() && t.loop == hopper::Loop::filling_next && t.wgmmas_along_n == 2 &&
                   t.rows_per_warpgroup == 128;
        },
        [](const Design& t) {
            return t.b.is_packed() && t.loop == hopper::Loop::filling_next && t.rows_per_warpgroup == 64;
        },
        [](const Design& t) {
            return t.b.is_packed() && t.loop == hopper::Loop::filling_next && t.rows_per_warpgroup == 128;
        },
        [](const Design& t) {
            return t.b.is_packed() && t.loop == hopper::Loop::filling_next && t.wgmmas_along_n == 2;
        },
        [](const Design& t) { return t.has_windows() && t.fills_next_window && t.rows_per_warpgroup == 64; },
        [](const Design& t) { return t.has_windows() && t.fills_next_window && t.rows_per_warpgroup == 128; },
        [](const Design& t) { return t.has_windows() && t.fills_next_window && t.wgmmas_along_n == 2; },
        [](const Design& t) { return t.has_windows() && !t.fills_next_window && t.wgmmas_along_n == 2; },
        [](const Design& t) { return t.has_wide_steps() && t.wgmmas_along_n == 2; },
        [](const Design& t) { return t.b.is_nvfp4() && t.partials_in_flight == 2; },
        [](const Design& t) { return t.b.is_nvfp4() && t.partials_in_flight == 1; },
        [](const Design& t) { return t.loop == hopper::Loop::steps && t.subtiles == 4; },
        [](const Design& t) { return t.loop == hopper::Loop::steps && t.b.is_packed() && t.wgmmas_along_n > 1; },
    };
    if (sanitizes) GTEST_SKIP() << "a sample";
    for (std::size_t i = 0; i < std::size(loops); ++i) EXPECT_TRUE(any_kernel(loops[i])) << "loop " << i;
}

/// Device code cannot include the host's headers: it states the exponents of the packed layout and the two halves of a
/// factor once more.
TEST(Windows, FactorsOfAWindowAreTheCanonicalOrders) {
    EXPECT_FALSE(hopper::window_factors(formats::no_window).given);
    for (int exponent = formats::no_window + 1; exponent <= 127; ++exponent) {
        const hopper::WindowFactors factors = hopper::window_factors(exponent);
        const int half = window_half(exponent);
        EXPECT_TRUE(factors.given);
        EXPECT_EQ(factors.of_sum, std::ldexp(1.0F, half)) << exponent;
        EXPECT_EQ(factors.of_scale, std::ldexp(1.0F, exponent - formats::fp8_top_exponent - half)) << exponent;
    }
    EXPECT_EQ(hopper::window_factors(formats::unit_window).of_sum, 1.0F);
    EXPECT_EQ(hopper::window_factors(formats::unit_window).of_scale, 1.0F);
}

}  // namespace
}  // namespace tilewright::tests
