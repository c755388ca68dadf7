// The quantizers' short divisions: each quotient has the code of the rounded one.
#include "emulator/emulator.h"
#include "hopper/quantize/scale.h"

#include "emulator/primitives.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace tilewright::tests {
namespace {

using namespace hopper;

/// All hard cases of `divide_short`, and some others. Scales are close to multiples of 2^20, as integers of 24 bits.
/// All numbers of 11 bits; quotients from below the smallest code to the largest.
template <ValueFormat storage>
void expect_codes_of_rounded_quotients(std::uint32_t scale_bits) {
    constexpr CopySpec copy{.scaled = ScaledBy::square, .storage = storage};
    const auto scale = std::bit_cast<float>(scale_bits);
    const auto by = denominator_of<copy, true>(scale);
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

void expect_short_quotients() {
    std::mt19937 random(3);
    for (std::uint32_t leading = 8; leading < 16; ++leading) {
        for (int d = -20; d <= 20; ++d) {
            const std::uint32_t significand = (leading << 20) + static_cast<std::uint32_t>(d);
            if (significand < 1U << 23) continue;
            for (const std::uint32_t exponent : {1U, 127U, 245U}) {
                const std::uint32_t scale = (significand & 0x7F'FFFF) | exponent << 23;
                expect_codes_of_rounded_quotients<ValueFormat::e4m3>(scale);
                expect_codes_of_rounded_quotients<ValueFormat::e5m2>(scale);
            }
        }
        expect_codes_of_rounded_quotients<ValueFormat::e4m3>((random() & 0x7F'FFFF) | 120U << 23);
    }
    constexpr CopySpec copy{.scaled = ScaledBy::square};
    for (const float scale : {1.0F, 0.7F, 1.1F, 1.3F, 1e-30F}) {
        EXPECT_TRUE(std::signbit(divide_short(-0.0F, denominator_of<copy, true>(scale)))) << scale;
    }
}

/// Counts numbers of 24 bits that get another code than the rounded quotient. Their quotients by the scale are close to
/// the middle of two numbers of fp32, one of which is the middle of two codes.
template <ValueFormat storage, bool is_short>
int count_wrong_codes(float scale) {
    constexpr CopySpec copy{.scaled = ScaledBy::square, .storage = storage};
    const Inverse by = inverse_of<copy>(scale);
    const double significand = std::ldexp(scale, 23 - std::ilogb(scale));
    int wrong = 0;
    for (int tie = 16; tie < 32; ++tie) {
        for (const int side : {-1, 1}) {
            const double middle = std::ldexp(tie, 20) + side;
            const int bits = is_short ? 11 : 24;
            const double nearest = significand * middle;
            const int shift = std::ilogb(nearest) - bits + 1;
            for (int step = -1; step <= 1; ++step) {
                const double x = std::nearbyint(std::ldexp(nearest, -shift)) + step;
                for (const int exponent : {-9, -6, 0, 5}) {
                    const int to_x = shift - 23 - 24 + exponent + std::ilogb(scale);
                    const auto number = static_cast<float>(std::ldexp(x, to_x));
                    const float quotients[] = {divide<copy>(number, by), divide<copy>(-number, by), 0, 0};
                    const float rounded[] = {number / scale, -number / scale, 0, 0};
                    wrong += encode<storage>(quotients) != encode<storage>(rounded) ? 1 : 0;
                }
            }
        }
    }
    return wrong;
}

void expect_regular_scales_to_be_exact() {
    constexpr CopySpec copy{.scaled = ScaledBy::square};
    int wrong_of_irregular = 0;
    for (std::uint32_t leading = 8; leading < 16; ++leading) {
        for (int d = -20; d <= 20; ++d) {
            const std::uint32_t significand = (leading << 20) + static_cast<std::uint32_t>(d);
            if (significand < 1U << 23) continue;
            for (const std::uint32_t exponent : {1U, 20U, 127U, 228U}) {
                const auto scale = std::bit_cast<float>((significand & 0x7F'FFFF) | exponent << 23);
                EXPECT_TRUE((is_regular<copy, true>(scale)));
                EXPECT_EQ((is_regular<copy, false>(scale)), d == 0 || std::abs(d) > 16) << d;
                EXPECT_EQ((count_wrong_codes<ValueFormat::e4m3, true>(scale)), 0) << scale;
                EXPECT_EQ((count_wrong_codes<ValueFormat::e5m2, true>(scale)), 0) << scale;
                const int wrong = count_wrong_codes<ValueFormat::e4m3, false>(scale) +
                                  count_wrong_codes<ValueFormat::e5m2, false>(scale);
                if (is_regular<copy, false>(scale)) {
                    EXPECT_EQ(wrong, 0) << scale;
                } else {
                    wrong_of_irregular += wrong;
                }
            }
        }
    }
    EXPECT_GT(wrong_of_irregular, 0);  // of 0xDFFFFD
    EXPECT_FALSE((is_regular<copy, true>(0x1.000002p102F)));
}

TEST(Quantize, ShortNumbersHaveTheCodesOfRoundedQuotients) {
    emulator::launch({.threads = warp_threads, .shared_bytes = 1024}, [] {
        if (thread_index() == 0) expect_short_quotients();
    });
}

TEST(Quantize, RegularScalesGiveTheCodesOfRoundedQuotients) {
    emulator::launch({.threads = warp_threads, .shared_bytes = 1024}, [] {
        if (thread_index() == 0) expect_regular_scales_to_be_exact();
    });
}

}  // namespace
}  // namespace tilewright::tests
