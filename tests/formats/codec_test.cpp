// The codec against its own definition: every code, every rounding boundary, special values. test_codec.py compares it
// with an independent implementation.
#include "formats/codec.h"

#include "formats/element.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace tilewright::formats {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// Values that the specifications print.
static_assert(decode(e4m3_fields, e4m3_fields.largest()) == 448);
static_assert(decode(e4m3_fields, 0x01) == power_of_two(-9));
static_assert(decode(e4m3_fields, 0x08) == power_of_two(-6));
static_assert(decode(e5m2_fields, e5m2_fields.largest()) == 57344);
static_assert(decode(e5m2_fields, 0x01) == power_of_two(-16));
static_assert(decode(e5m2_fields, 0x7C) == __builtin_inff());
static_assert(decode(e2m1_fields, 0x01) == 0.5F && decode(e2m1_fields, 0x0F) == -6);
static_assert(decode(f16_fields, f16_fields.largest()) == 65504);
static_assert(decode(bf16_fields, 0x3F80) == 1);
static_assert(decode_ue8m0(127) == 1 && decode_ue8m0(0) == power_of_two(-127) &&
              decode_ue8m0(254) == power_of_two(127));
static_assert(decode_ue4m3(0x7E) == 448 && decode_ue4m3(0x80) == 0);

static_assert(encode(e4m3_fields, 464) == 0x7E && encode(e4m3_fields, 464, Overflow::propagate) == 0x7E);
static_assert(encode(e4m3_fields, 465) == 0x7E && encode(e4m3_fields, 465, Overflow::propagate) == 0x7F);
static_assert(encode(e5m2_fields, -61440, Overflow::propagate) == 0xFC && encode(e5m2_fields, -61440) == 0xFB);
static_assert(encode(e2m1_fields, 2.5) == 4 && encode(e2m1_fields, 3.5) == 6 && encode(e2m1_fields, 5) == 6);
static_assert(encode(e2m1_fields, -0.25) == 8 && encode(e2m1_fields, 1e30, Overflow::propagate) == 7);
static_assert(encode(f32_fields, 1e39, Overflow::propagate) == 0x7F80'0000 && encode(f32_fields, 1e39) == 0x7F7F'FFFF);

static_assert(encode_ue8m0(1.5) == 128 && encode_ue8m0(1.49) == 127 && encode_ue8m0(3) == 129);
static_assert(encode_ue8m0(1.001, Rounding::up) == 128 && encode_ue8m0(1, Rounding::up) == 127);
static_assert(encode_ue8m0(1.999, Rounding::down) == 127 && encode_ue8m0(1e-300, Rounding::up) == 0);
static_assert(encode_ue8m0(0) == 0 && encode_ue8m0(-0.0) == 0 && encode_ue8m0(0, Rounding::up) == 0);
static_assert(encode_ue8m0(-1) == 255 && encode_ue8m0(__builtin_nan("")) == 255);
static_assert(encode_ue8m0(1e300) == 254 && encode_ue8m0(1e300, Rounding::up, Overflow::propagate) == 255);
static_assert(encode_ue8m0(__builtin_inf()) == 254);
static_assert(encode_ue8m0(__builtin_inf(), Rounding::up, Overflow::saturate_finite) == 255);
static_assert(encode_ue4m3(448) == 0x7E && encode_ue4m3(1e9) == 0x7E && encode_ue4m3(-0.0) == 0);
static_assert(encode_ue4m3(-1) == 0x7F && encode_ue4m3(1e9, Overflow::propagate) == 0x7F);

static_assert(pack_e2m1(0x3, 0xA) == 0xA3 && first_e2m1(0xA3) == 0x3 && second_e2m1(0xA3) == 0xA);

struct Named {
    const char* name;
    Fields fields;
};
constexpr std::array signed_formats{Named{"e4m3", e4m3_fields}, Named{"e5m2", e5m2_fields}, Named{"e2m1", e2m1_fields},
                                    Named{"f16", f16_fields}, Named{"bf16", bf16_fields}};

class Signed : public testing::TestWithParam<Named> {};

INSTANTIATE_TEST_SUITE_P(Formats, Signed, testing::ValuesIn(signed_formats),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(Signed, EveryCodeSurvivesDecodingAndEncoding) {
    const Fields f = GetParam().fields;
    for (u32 code = 0; code < 2 * f.sign_bit(); ++code) {
        const float number = decode(f, code);
        const u32 again = encode(f, number, Overflow::propagate);
        if (std::isnan(number)) {
            EXPECT_EQ(again, f.all_ones());
        } else {
            EXPECT_EQ(again, code);
        }
    }
}

TEST_P(Signed, CodesAscend) {
    const Fields f = GetParam().fields;
    for (u32 code = 0; code < f.largest(); ++code) EXPECT_LT(decode(f, code), decode(f, code + 1));
}

TEST_P(Signed, RoundsToTheNearestAndTiesToEven) {
    const Fields f = GetParam().fields;
    for (u32 code = 0; code < f.largest(); ++code) {
        const double middle = (double{decode(f, code)} + decode(f, code + 1)) / 2;
        for (const u32 sign : {0U, f.sign_bit()}) {
            const double tie = sign != 0 ? -middle : middle;
            EXPECT_EQ(encode(f, tie), sign | (code + (code & 1))) << tie;
            EXPECT_EQ(encode(f, std::nextafter(tie, 0)), sign | code) << tie;
            EXPECT_EQ(encode(f, std::nextafter(tie, 2 * tie)), sign | (code + 1)) << tie;
        }
    }
}

TEST_P(Signed, OverflowsAsAsked) {
    const Fields f = GetParam().fields;
    const double largest = decode(f, f.largest());
    const double step = largest - decode(f, f.largest() - 1);
    const bool has_special = f.special != Special::none;
    const u32 beyond = f.special == Special::infinity_and_nan ? f.infinity() : f.all_ones();
    // nan_only formats: the next code is NaN and the tie goes to it or to the largest, whichever is even.
    const double tie = largest + step / 2;
    const double too_large = std::nextafter(tie, infinity);
    for (const Overflow overflow : {Overflow::saturate, Overflow::saturate_finite, Overflow::propagate}) {
        const u32 finite = overflow == Overflow::propagate && has_special ? beyond : f.largest();
        const u32 infinite = overflow != Overflow::saturate && has_special ? beyond : f.largest();
        EXPECT_EQ(encode(f, std::nextafter(tie, 0), overflow), f.largest());
        EXPECT_EQ(encode(f, tie, overflow), f.largest() % 2 == 0 ? f.largest() : finite);
        EXPECT_EQ(encode(f, too_large, overflow), finite);
        EXPECT_EQ(encode(f, std::numeric_limits<double>::max(), overflow), finite);
        EXPECT_EQ(encode(f, infinity, overflow), infinite);
    }
}

TEST_P(Signed, TinyNumbersKeepTheirSign) {
    const Fields f = GetParam().fields;
    const double half = double{decode(f, 1)} / 2;
    for (const double tiny : {0.0, half, std::numeric_limits<double>::denorm_min(), 1e-300}) {
        EXPECT_EQ(encode(f, tiny), 0U);
        EXPECT_EQ(encode(f, -tiny), f.sign_bit());
    }
    EXPECT_EQ(encode(f, std::nextafter(half, 1)), 1U);
}

TEST_P(Signed, NanIsCanonical) {
    const Fields f = GetParam().fields;
    for (const Overflow overflow : {Overflow::saturate, Overflow::saturate_finite, Overflow::propagate}) {
        EXPECT_EQ(encode(f, not_a_number, overflow), f.all_ones());
        EXPECT_EQ(encode(f, -not_a_number, overflow), f.all_ones());
    }
}

TEST(Codec, F32IsTheHostsOwnConversion) {
    std::uint64_t state = 1;
    for (int i = 0; i < 200'000; ++i) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        // Exponents -160..136: all of f32 and a little beyond.
        const std::uint64_t bits = (state & 0x800F'FFFF'FFFF'FFFFULL) | (1023ULL - 160 + state % 297) << 52;
        const double number = __builtin_bit_cast(double, bits);
        EXPECT_EQ(encode(f32_fields, number, Overflow::propagate), __builtin_bit_cast(u32, static_cast<float>(number)));
    }
}

TEST(Codec, UnsignedScalesSurviveDecodingAndEncoding) {
    for (u32 code = 0; code < 255; ++code) EXPECT_EQ(encode_ue8m0(decode_ue8m0(code)), code);
    EXPECT_TRUE(std::isnan(decode_ue8m0(255)));
    for (u32 code = 0; code < 128; ++code) EXPECT_EQ(encode_ue4m3(decode_ue4m3(code)), code);
}

TEST(Codec, Ue8m0RoundsEachWay) {
    for (u32 code = 0; code < 254; ++code) {
        const double power = decode_ue8m0(code);
        EXPECT_EQ(encode_ue8m0(std::nextafter(1.5 * power, 0)), code);
        EXPECT_EQ(encode_ue8m0(1.5 * power), code + 1);
        EXPECT_EQ(encode_ue8m0(std::nextafter(power, infinity), Rounding::up), code + 1);
        EXPECT_EQ(encode_ue8m0(std::nextafter(2 * power, 0), Rounding::down), code);
    }
}

TEST(Element, StoresAndLoadsEveryFormat) {
    for (const Format format : {Format::e4m3, Format::e5m2, Format::e2m1, Format::ue8m0, Format::ue4m3, Format::bf16,
                                Format::f16, Format::f32}) {
        std::array<std::uint32_t, 4> memory{};
        store(memory.data(), format, 3, 4);
        store(memory.data(), format, 2, 1);
        store(memory.data(), format, 3, 2);
        EXPECT_EQ(load(memory.data(), format, 2), 1) << name(format);
        EXPECT_EQ(load(memory.data(), format, 3), 2) << name(format);
    }
}

}  // namespace
}  // namespace tilewright::formats
