// The arithmetic of device code: short divisions of quantizers give the codes of rounded quotients, and codes of e2m1
// and factors of windows are the CPU's.
#include "emulator/emulator.h"
#include "formats/codec.h"
#include "formats/packed_layout.h"
#include "hopper/multiply/feed_windows.h"
#include "hopper/quantize/e2m1.h"
#include "hopper/quantize/scale.h"
#include "problem/canonical_order.h"
#include "sample.h"

#include "emulator/primitives.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace tilewright::tests {
namespace {

using namespace hopper;

constexpr CopySpec copy_of(ValueFormat storage) { return {.scaled = ScaledBy::square, .storage = storage}; }
constexpr CopySpec e4m3 = copy_of(ValueFormat::e4m3);

/// In one thread of the emulator.
void on_device(void (*test)()) {
    emulator::launch({.threads = warp_threads, .shared_bytes = 1024}, [&] {
        if (thread_index() == 0) test();
    });
}

/// Calls test(scale, d) for scales whose significands are d from a multiple of 2^20, as integers of 24 bits: all hard
/// cases of divisions.
template <class Test>
void for_hard_scales(std::initializer_list<std::uint32_t> exponents, Test test) {
    Sample sample(19);
    for (std::uint32_t leading = 8; leading < 16; ++leading) {
        for (int d = -20; d <= 20; ++d) {
            const std::uint32_t significand = (leading << 20) + static_cast<std::uint32_t>(d);
            if (significand < 1U << 23) continue;
            for (const std::uint32_t exponent : exponents) {
                if (!sample.takes_next()) continue;
                test(std::bit_cast<float>((significand & 0x7F'FFFF) | exponent << 23), d);
            }
        }
    }
}

/// All numbers of 11 bits; quotients from below the smallest code to the largest.
template <ValueFormat storage>
void expect_codes_of_rounded_quotients(float scale) {
    const auto by = denominator_of<copy_of(storage), true>(scale);
    int wrong = 0;
    for (int exponent = -18; exponent <= 7; ++exponent) {
        for (int significand = 1024; significand < 2048; significand += 4) {
            float quotients[4], rounded[4];
            for (int i = 0; i < 4; ++i) {
                const float x = std::ldexp(static_cast<float>(significand + i), exponent - 10 + std::ilogb(scale));
                quotients[i] = divide_short(i % 2 == 0 ? x : -x, by);
                rounded[i] = (i % 2 == 0 ? x : -x) / scale;
            }
            wrong += encode<storage>(quotients) != encode<storage>(rounded) ? 1 : 0;
        }
    }
    EXPECT_EQ(wrong, 0) << "scale " << scale;
}

TEST(Quotients, OfShortNumbersHaveTheCodesOfRoundedOnes) {
    on_device([] {
        for_hard_scales({1, 127, 245}, [](float scale, int /*d*/) {
            expect_codes_of_rounded_quotients<ValueFormat::e4m3>(scale);
            expect_codes_of_rounded_quotients<ValueFormat::e5m2>(scale);
        });
        std::mt19937 random(3);
        for (int i = 0; i < sampled(8, 8); ++i) {
            const auto scale = std::bit_cast<float>((static_cast<std::uint32_t>(random()) & 0x7F'FFFF) | 120U << 23);
            expect_codes_of_rounded_quotients<ValueFormat::e4m3>(scale);
        }
        for (const float scale : {1.0F, 0.7F, 1.1F, 1.3F, 1e-30F}) {
            EXPECT_TRUE(std::signbit(divide_short(-0.0F, denominator_of<e4m3, true>(scale)))) << scale;
        }
    });
}

/// Counts numbers of 24 bits that get another code than the rounded quotient. Their quotients by the scale are close to
/// the middle of two numbers of fp32, one of which is the middle of two codes.
template <ValueFormat storage, bool is_short>
int count_wrong_codes(float scale) {
    constexpr CopySpec copy = copy_of(storage);
    const Inverse by = inverse_of<copy>(scale);
    const double significand = std::ldexp(scale, 23 - std::ilogb(scale));
    int wrong = 0;
    for (int i = 32; i < 64; ++i) {
        const double nearest = significand * (std::ldexp(i / 2, 20) + (i % 2 == 0 ? -1 : 1));
        const int shift = std::ilogb(nearest) - (is_short ? 11 : 24) + 1;
        for (int step = -1; step <= 1; ++step) {
            const double x = std::nearbyint(std::ldexp(nearest, -shift)) + step;
            for (const int exponent : {-9, -6, 0, 5}) {
                const auto number = static_cast<float>(std::ldexp(x, shift - 23 - 24 + exponent + std::ilogb(scale)));
                const float quotients[] = {divide<copy>(number, by), divide<copy>(-number, by), 0, 0};
                const float rounded[] = {number / scale, -number / scale, 0, 0};
                wrong += encode<storage>(quotients) != encode<storage>(rounded) ? 1 : 0;
            }
        }
    }
    return wrong;
}

TEST(Quotients, ByRegularScalesHaveTheCodesOfRoundedOnes) {
    on_device([] {
        int wrong_of_irregular = 0;
        for_hard_scales({1, 20, 127, 228}, [&](float scale, int d) {
            EXPECT_TRUE((is_regular<e4m3, true>(scale)));
            const bool regular = is_regular<e4m3, false>(scale);
            EXPECT_EQ(regular, d == 0 || std::abs(d) > 16) << d;
            EXPECT_EQ((count_wrong_codes<ValueFormat::e4m3, true>(scale)), 0) << scale;
            EXPECT_EQ((count_wrong_codes<ValueFormat::e5m2, true>(scale)), 0) << scale;
            const int wrong =
                count_wrong_codes<ValueFormat::e4m3, false>(scale) + count_wrong_codes<ValueFormat::e5m2, false>(scale);
            EXPECT_TRUE(!regular || wrong == 0) << scale;
            wrong_of_irregular += wrong;
        });
        EXPECT_TRUE(sanitizes || wrong_of_irregular > 0);  // of 0xDFFFFD
        EXPECT_FALSE((is_regular<e4m3, true>(0x1.000002p102F)));
    });
}

/// The code of a number that is at this place of eight.
std::uint32_t code_at(int place, float number) {
    float eight[8]{};
    eight[place] = number * e2m1_shift;
    if (place == 5) eight[place] = keep_inexact(eight[place]);
    return encode_e2m1(eight) >> 4 * place;
}

TEST(E2m1, IsRoundedAsTheCpuRounds) {
    int wrong = 0;
    const auto expect_code = [&](int place, float number) {
        wrong += (code_at(place, number) & 15U) != formats::encode(formats::e2m1_fields, number) ? 1 : 0;
    };
    // Quotients are below 2^9; every number of bf16 that is.
    for (std::uint32_t code = 0; code < 1U << 16; ++code) {
        const auto number = std::bit_cast<float>(code << 16);
        if (!(std::fabs(number) < 512)) continue;
        for (const int place : {5, 2}) expect_code(place, number);
    }
    for (const float middle : {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F, 0.5F, 1.0F, 6.0F}) {
        for (int d = -70000; d <= 70000; ++d) {
            const std::uint32_t bits = std::bit_cast<std::uint32_t>(middle) + static_cast<std::uint32_t>(d);
            for (const std::uint32_t sign : {0U, 1U << 31}) expect_code(5, std::bit_cast<float>(bits | sign));
        }
    }
    EXPECT_EQ(wrong, 0);
}

/// Device code cannot include the host's headers: it states the exponents of the packed layout and the two halves of a
/// factor once more.
TEST(Windows, FactorsOfAWindowAreTheCanonicalOrders) {
    EXPECT_FALSE(window_factors(formats::no_window).given);
    for (int exponent = formats::no_window + 1; exponent <= 127; ++exponent) {
        const WindowFactors factors = window_factors(exponent);
        const int half = window_half(exponent);
        EXPECT_TRUE(factors.given);
        EXPECT_EQ(factors.of_sum, std::ldexp(1.0F, half)) << exponent;
        EXPECT_EQ(factors.of_scale, std::ldexp(1.0F, exponent - formats::fp8_top_exponent - half)) << exponent;
    }
    EXPECT_EQ(window_factors(formats::unit_window).of_sum, 1.0F);
    EXPECT_EQ(window_factors(formats::unit_window).of_scale, 1.0F);
}

}  // namespace
}  // namespace tilewright::tests
