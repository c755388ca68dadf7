// Bulk conversion gives the codec's bits: every exponent of f32 with rounding boundaries and random mantissas, every
// code, every length of the tail.
#include "formats/convert.h"

#include "formats/element.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <string>
#include <vector>

namespace tilewright::formats {
namespace {

constexpr std::array floating{Format::e4m3,  Format::e5m2, Format::e2m1, Format::ue8m0,
                              Format::ue4m3, Format::bf16, Format::f16,  Format::f32};
constexpr std::array overflows{Overflow::saturate, Overflow::saturate_finite, Overflow::propagate};

u32 codec_encode(Format format, float number, Overflow overflow) {
    if (format == Format::ue8m0) return encode_ue8m0(number, Rounding::nearest, overflow);
    return format == Format::ue4m3 ? encode_ue4m3(number, overflow) : encode(fields(format), number, overflow);
}

float codec_decode(Format format, u32 code) {
    if (format == Format::ue8m0) return decode_ue8m0(code);
    return format == Format::ue4m3 ? decode_ue4m3(code) : decode(fields(format), code);
}

/// Element `index` of packed memory.
u32 code_at(const std::vector<std::uint8_t>& memory, Format format, std::size_t index) {
    if (bits(format) == 4) return memory[index / 2] >> (index % 2 * 4) & 15U;
    u32 code = 0;
    const std::size_t width = static_cast<std::size_t>(bits(format)) / 8;
    for (std::size_t i = 0; i < width; ++i) code |= u32{memory[index * width + i]} << 8 * i;
    return code;
}

std::size_t bytes(Format format, std::size_t count) { return (count * static_cast<std::size_t>(bits(format)) + 7) / 8; }

/// Both signs, all 256 exponents, every pattern of 8 leading mantissa bits with the tail at, below and above its
/// middle (the ties of all formats but f16), ties of f16, and random mantissas.
std::vector<float> all_exponents() {
    std::mt19937 random(7);
    std::vector<float> numbers;
    for (u32 high = 0; high < 1U << 17; ++high) {
        const u32 top = high << 15;
        for (const u32 tail : {0U, 1U, 0x7FFFU, u32(random()) & 0x7FFFU, 0x1000U, 0x0FFFU, 0x1001U, 0x3000U}) {
            numbers.push_back(std::bit_cast<float>(top | tail));
        }
    }
    return numbers;
}

class EachFormat : public testing::TestWithParam<Format> {};

INSTANTIATE_TEST_SUITE_P(Formats, EachFormat, testing::ValuesIn(floating),
                         [](const auto& tested) { return std::string(name(tested.param)); });

TEST_P(EachFormat, EncodesAsTheCodec) {
    const Format format = GetParam();
    const std::vector<float> numbers = all_exponents();
    for (const Overflow overflow : overflows) {
        std::vector<std::uint8_t> memory(bytes(format, numbers.size()));
        encode(format, numbers.data(), std::ssize(numbers), memory.data(), overflow);
        std::size_t differences = 0;
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            const bool same = code_at(memory, format, i) == codec_encode(format, numbers[i], overflow);
            if (!same && ++differences <= 5) ADD_FAILURE() << numbers[i] << " overflow " << int(overflow);
        }
        EXPECT_EQ(differences, 0U);
    }
}

TEST_P(EachFormat, DecodesAsTheCodec) {
    const Format format = GetParam();
    // All codes of the narrow formats in ascending order; random ones of f32.
    const std::size_t count = bits(format) == 4 ? 256 : bits(format) == 8 ? 256 : 65536;
    std::mt19937 random(3);
    std::vector<std::uint8_t> memory(bytes(format, count));
    for (std::size_t i = 0; i < memory.size(); ++i) {
        const std::size_t width = bytes(format, 1);
        memory[i] = static_cast<std::uint8_t>(width == 4 ? random() : i / width >> 8 * (i % width));
    }
    std::vector<float> numbers(count);
    decode(format, memory.data(), std::ssize(numbers), numbers.data());
    for (std::size_t i = 0; i < count; ++i) {
        const float expected = codec_decode(format, code_at(memory, format, i));
        ASSERT_EQ(std::bit_cast<u32>(numbers[i]), std::bit_cast<u32>(expected)) << code_at(memory, format, i);
    }
}

TEST_P(EachFormat, WritesNoByteMoreThanItMust) {
    const Format format = GetParam();
    const std::vector<float> numbers(600, 1.0F);
    for (std::size_t count = 0; count < numbers.size(); count += count < 70 ? 1 : 53) {
        std::vector<std::uint8_t> memory(bytes(format, numbers.size()), 0xCD);
        encode(format, numbers.data(), static_cast<std::int64_t>(count), memory.data(), Overflow::saturate);
        std::vector<float> back(numbers.size(), -5.0F);
        decode(format, memory.data(), static_cast<std::int64_t>(count), back.data());
        for (std::size_t i = 0; i < back.size(); ++i) ASSERT_EQ(back[i], i < count ? 1.0F : -5.0F) << count;
        for (std::size_t i = bytes(format, count); i < memory.size(); ++i) ASSERT_EQ(memory[i], 0xCD) << count;
        const bool half_used = bits(format) == 4 && count % 2 != 0;
        ASSERT_TRUE(!half_used || memory[count / 2] >> 4 == 0) << count;
    }
}

}  // namespace
}  // namespace tilewright::formats
