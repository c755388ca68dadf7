// The scalar model of the tensor core against what an H200 returned: 144 recorded chains, and the special values.
#include "cpu/exact/tensor_core.h"
#include "cpu/exact/records.h"
#include "formats/element.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

namespace tilewright::tests {
namespace {

using cpu::TensorCore;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

void expect_bits(const std::vector<MmaRecord>& records) {
    for (std::size_t index = 0; index < records.size(); ++index) {
        const MmaRecord& record = records[index];
        const TensorCore core{.a = record.a_format, .b = record.b_format};
        for (int i = 0; i < MmaRecord::rows * MmaRecord::columns; ++i) {
            const float d = core.chain(record.a_row(i / MmaRecord::columns), record.b_column(i % MmaRecord::columns),
                                       record.steps, record.c[i]);
            ASSERT_EQ(std::bit_cast<std::uint32_t>(d), std::bit_cast<std::uint32_t>(record.d[i]))
                << "record " << index << ", output " << i;
        }
    }
}

TEST(TensorCore, ReturnsTheBitsOfEveryRecord) {
    ASSERT_EQ(read_mma_records().size(), 144U);
    expect_bits(read_mma_records());
}

TEST(TensorCore, ReturnsTheBitsOfEveryExtremeRecord) {
    ASSERT_EQ(read_extreme_records().size(), 82U);
    expect_bits(read_extreme_records());
}

TEST(TensorCore, TheRecordsCoverEveryKindLengthAndStart) {
    std::vector<std::vector<int>> seen;
    for (const MmaRecord& record : read_mma_records()) {
        const std::vector<int> key{int(record.a_format), int(record.b_format), record.steps,
                                   int(record.starts_from_zero())};
        if (std::ranges::find(seen, key) == seen.end()) seen.push_back(key);
    }
    EXPECT_EQ(seen.size(), 5U * 3U * 2U);  // A from registers has the formats of another kind
}

/// One step with the given products first and zeros after them.
struct Step {
    Format a_format = Format::e4m3;
    Format b_format = Format::e4m3;
    std::vector<float> a{};
    std::vector<float> b{};
    float c = 0;

    std::uint32_t bits() const {
        std::array<std::byte, 32> a_bytes{};
        std::array<std::byte, 32> b_bytes{};
        for (std::size_t i = 0; i < a.size(); ++i) {
            put(a_bytes, a_format, i, a[i]);
            put(b_bytes, b_format, i, b[i]);
        }
        const TensorCore core{.a = a_format, .b = b_format};
        return std::bit_cast<std::uint32_t>(core.add_products(a_bytes.data(), b_bytes.data(), c));
    }

private:
    static void put(std::array<std::byte, 32>& bytes, Format format, std::size_t i, float value) {
        const std::uint32_t code = formats::encode(formats::fields(format), value, formats::Overflow::propagate);
        std::memcpy(&bytes[i * tilewright::bits(format) / 8], &code, tilewright::bits(format) / 8);
    }
};

constexpr std::uint32_t canonical_nan = 0x7FFF'FFFF;
std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST(TensorCore, NanOperandsAndAccumulatorsGiveTheCanonicalNan) {
    EXPECT_EQ((Step{.a = {nan_value}, .b = {1}}.bits()), canonical_nan);
    EXPECT_EQ((Step{.a = {1}, .b = {nan_value}}.bits()), canonical_nan);
    EXPECT_EQ((Step{.a = {0}, .b = {nan_value}}.bits()), canonical_nan);
    EXPECT_EQ((Step{.a = {1}, .b = {1}, .c = -nan_value}.bits()), canonical_nan);
    EXPECT_EQ((Step{.a_format = Format::bf16, .b_format = Format::bf16, .a = {nan_value}, .b = {1}}.bits()),
              canonical_nan);
}

TEST(TensorCore, InfinityFollowsIeee) {
    Step step{.a_format = Format::e5m2, .b_format = Format::e5m2, .a = {infinity}, .b = {-2}};
    EXPECT_EQ(step.bits(), bits_of(-infinity));
    step.b = {0};
    EXPECT_EQ(step.bits(), canonical_nan);
    step.b = {-2};
    step.c = infinity;
    EXPECT_EQ(step.bits(), canonical_nan);
    step.c = -infinity;
    EXPECT_EQ(step.bits(), bits_of(-infinity));
    step = {.a_format = Format::e5m2, .b_format = Format::e5m2, .a = {infinity, infinity}, .b = {1, -1}};
    EXPECT_EQ(step.bits(), canonical_nan);
    EXPECT_EQ((Step{.a = {1}, .b = {1}, .c = infinity}.bits()), bits_of(infinity));
}

TEST(TensorCore, AZeroSumIsPositive) {
    EXPECT_EQ((Step{.a = {}, .b = {}, .c = -0.0F}.bits()), 0U);
    EXPECT_EQ((Step{.a = {-0.0F}, .b = {1}, .c = -0.0F}.bits()), 0U);
    EXPECT_EQ((Step{.a = {1, -1}, .b = {1, 1}}.bits()), 0U);
}

TEST(TensorCore, AnAccumulatorAloneIsCutTo14Bits) {
    EXPECT_EQ((Step{.c = std::numeric_limits<float>::max()}.bits()), 0x7F7F'FC00U);
    EXPECT_EQ((Step{.c = 1e-40F}.bits()), 0x0001'1400U);
}

TEST(TensorCore, Bf16KeepsAnAccumulatorAndLeavesFp32sRangeAsItShould) {
    Step step{.a_format = Format::bf16, .b_format = Format::bf16, .c = std::numeric_limits<float>::max()};
    EXPECT_EQ(step.bits(), bits_of(step.c));
    step = {.a_format = Format::bf16, .b_format = Format::bf16, .a = {1e-30F}, .b = {1e-30F}};
    EXPECT_EQ(step.bits(), 0U);
    step = {.a_format = Format::bf16, .b_format = Format::bf16, .a = {1e30F}, .b = {1e30F}};
    EXPECT_EQ(step.bits(), bits_of(infinity));
    step.a.push_back(-step.a[0]);  // beyond fp32's range, and back before the sum is complete
    step.b.push_back(step.b[0]);
    EXPECT_EQ(step.bits(), 0U);
}

TEST(TensorCore, SubnormalInputsCountWithTheSmallestExponent) {
    // 2^-9 is subnormal in e4m3 and counts as 2^-6: with 2^-4 * 2^-9 the accumulator is cut at 2^(-10 - 13).
    Step step{.a = {0x1p-4F}, .b = {0x1p-9F}, .c = 0x1.8p-24F};
    EXPECT_EQ(step.bits(), bits_of(0x1p-13F));
    // In e5m2 it is a normal number, and the cut is at 2^(-13 - 13).
    step.b_format = Format::e5m2;
    EXPECT_EQ(step.bits(), bits_of(0x1p-13F + 0x1.8p-24F));
}

}  // namespace
}  // namespace tilewright::tests
