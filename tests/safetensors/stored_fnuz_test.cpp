// The fnuz formats: numbers by their definition, and how they become OCP's.
#include "safetensors/stored_formats.h"

#include <cmath>
#include <functional>

#include "safetensors/fnuz.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

/// A number of each code by the definition: exponents have one more of bias, 0x80 is NaN, there is no infinity.
double fnuz(Format sibling, unsigned code) {
    const int digits = sibling == Format::e4m3 ? 3 : 2;
    const int bias = sibling == Format::e4m3 ? 8 : 16;
    if (code == 0x80) return NAN;
    const int exponent = static_cast<int>((code & 127) >> digits);
    const double fraction = (code & ((1U << digits) - 1)) / static_cast<double>(1 << digits);
    const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
    return (code & 128) != 0 ? -magnitude : magnitude;
}

TEST(StoredFormats, FnuzCodes) {
    for (const Format sibling : {Format::e4m3, Format::e5m2}) {
        for (unsigned code = 0; code < 256; ++code) {
            const float number = fnuz_number(sibling, static_cast<std::uint8_t>(code));
            if (code == 0x80) {
                EXPECT_TRUE(std::isnan(number));
            } else {
                EXPECT_EQ(number, fnuz(sibling, code)) << code;
            }
        }
    }
}

TEST(StoredFormats, FnuzIsReadWithHalfTheScaleOrAsItsNumbers) {
    const TemporaryFolder folder;
    const std::string e4m3 = "F8_E4M3FNUZ", e5m2 = "F8_E5M2FNUZ";
    struct Case {
        std::string dtype;
        std::function<unsigned(std::size_t)> code;
        bool exact;
        std::string scales;
    };
    const auto any = [](std::size_t i) { return static_cast<unsigned>(i * 37 % 127) | (i % 2 != 0 ? 128U : 0U); };
    const auto large = [](std::size_t i) {
        return i % 5 == 0 ? 0x7FU : i % 7 == 0 ? 0xFFU : 16U + static_cast<unsigned>(i % 110);
    };
    for (const Case& one :
         {Case{e4m3, any, true, "F32"},    // 0x80 in it, which is NaN
          Case{e4m3, large, true, "F32"},  // 240, and nothing below 2^-6
          Case{e4m3, [&](std::size_t i) { return i == 3 ? 0x7FU : 1U; }, false, "F32"}, Case{e5m2, any, false, "F32"},
          Case{e5m2, [&](std::size_t i) { return any(i) & 0xBFU; }, true, "F32"}, Case{e4m3, any, true, "BF16"},
          Case{e4m3, large, true, "F8_E8M0"}}) {
        const Format sibling = one.dtype == e4m3 ? Format::e4m3 : Format::e5m2;
        std::string bytes(static_cast<std::size_t>(130) * 140, '\0');
        for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(one.code(i));
        const std::vector<FileTensor> tensors{{"a.weight", one.dtype, {130, 140}, bytes},
                                              scales_of("a.weight_scale_inv", one.scales, {2, 2})};
        const Checkpoint checkpoint(folder_with(folder, tensors, ""));
        const StoredMatrix matrix = only(checkpoint);
        EXPECT_EQ(matrix.recipe.values, sibling);
        const std::vector<float> given = by_ranges(checkpoint, matrix);
        for (std::size_t i = 0; i < given.size(); ++i) {
            const double scale = load(tensors[1], format_of_scales(one.scales), i / 140 / 128 * 2 + i % 140 / 128);
            const double expected = fnuz(sibling, static_cast<unsigned char>(bytes[i])) * scale;
            ASSERT_TRUE(given[i] == static_cast<float>(expected) || (std::isnan(given[i]) && std::isnan(expected)))
                << one.dtype << " " << i << ": " << given[i] << " " << expected;
        }
        if (one.exact) {
            EXPECT_NO_THROW(load_matrix(checkpoint, matrix));
        } else {
            EXPECT_THROW(load_matrix(checkpoint, matrix), std::runtime_error);
        }
        const ConvertResult result =
            convert(job(folder.file("model"), folder.file("out"), one.dtype == e4m3 ? "128x128" : "e5m2.128x128"));
        EXPECT_EQ(result.matrices[0].error == 0, one.exact) << one.dtype;
        std::filesystem::remove_all(folder.file("out"));
    }
}

/// Rows that keep their codes count in the error of a matrix as well.
TEST(StoredFormats, FnuzErrorIsThatOfAllRows) {
    const TemporaryFolder folder;
    std::string bytes(static_cast<std::size_t>(2) * 32 * 64, '\x40');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(0x40 + i % 32);
    bytes[0] = '\x7F';  // in the first expert, next to a number of which e4m3 has the double only
    bytes[1] = '\x01';
    const std::vector<FileTensor> tensors{{"a.weight", "F8_E4M3FNUZ", {2, 32, 64}, bytes},
                                          floats("a.weight_scale", {2, 1, 1}, {1.0F})};
    const Checkpoint before(folder_with(folder, tensors, ""));
    const std::vector<float> old = by_ranges(before, only(before));
    const ConvertResult result = convert(job(folder.file("model"), folder.file("out"), "tensor"));
    const Checkpoint after(folder.file("out"));
    const std::vector<float> made = numbers(after, only(after));
    double errors = 0;
    double squares = 0;
    for (std::size_t i = 0; i < old.size(); ++i) {
        errors += (double{made[i]} - old[i]) * (double{made[i]} - old[i]);
        squares += double{old[i]} * old[i];
    }
    EXPECT_GT(errors, 0);
    EXPECT_NEAR(result.matrices[0].error, std::sqrt(errors / squares), 1e-9);
}

}  // namespace
}  // namespace tilewright::safetensors
