// Packed weights: unpacking gives the same bytes, and the bytes are where a tensor core's registers want them.
#include "formats/codec.h"
#include "formats/fp4_weights.h"
#include "formats/packed_layout.h"

#include <tilewright/error.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <tuple>
#include <vector>

namespace tilewright::formats {
namespace {

void expect_inverse(const OwnedOperand& weights, PackedFor activations, const std::string& what) {
    const OwnedPackedWeights packed = pack_weights(weights, activations);
    EXPECT_EQ(packed.packed.bytes, packed_bytes(weights, activations)) << what;
    EXPECT_TRUE(packed.packed.shape() == weights.operand().values.shape) << what;
    EXPECT_TRUE(same_operand(unpack_weights(packed), weights)) << what;
}

TEST(Pack, UnpackInvertsItForAnyShape) {
    for (const OperandRecipe& recipe : {mxfp4, nvfp4}) {
        for (const PackedFor activations : {PackedFor::fp8, PackedFor::bf16}) {
            for (const Dims& shape : {Dims{1, 2}, Dims{64, 128}, Dims{65, 130}, Dims{130, 2880}, Dims{200, 72},
                                      Dims{3, 70, 96}, Dims{0, 128}, Dims{8, 0}, Dims{0, 64, 64}}) {
                expect_inverse(random_weights(recipe, shape, 100, 111), activations,
                               name(recipe) + " " + to_string(shape));
            }
        }
    }
}

TEST(Pack, UnpackInvertsItForAnyScales) {
    for (const PackedFor activations : {PackedFor::fp8, PackedFor::bf16}) {
        for (int most = 0; most <= 255; most += 15) {
            for (const int difference : {0, 1, 11, 12, 23, 24, 60, 120, 121, 200, 255}) {
                expect_inverse(random_weights(mxfp4, {67, 320}, std::max(most - difference, 0), most), activations,
                               "scales up to " + std::to_string(most));
            }
        }
        for (const int most : {0, 10, 126, 127, 255})
            expect_inverse(random_weights(nvfp4, {67, 320}, 0, most), activations, "nvfp4");
    }
}

TEST(Pack, KeepsBlocksOfZerosNanScalesAndSigns) {
    for (const PackedFor activations : {PackedFor::fp8, PackedFor::bf16}) {
        const OwnedOperand weights = random_weights(mxfp4, {130, 256}, 120, 122);
        const Operand& operand = weights.operand();
        for (std::int64_t row = 0; row < 130; ++row) {
            fill_block(operand, row, row % 8, row % 2 == 0 ? 0 : 8);
            scale_of_block(operand, row, row % 8) = static_cast<std::uint8_t>(row % 3 == 0 ? 127 : row * 2);
            if (row % 7 == 0) scale_of_block(operand, row, 3) = 255;
            if (row % 11 == 0) scale_of_block(operand, row, 5) = static_cast<std::uint8_t>(row);
        }
        expect_inverse(weights, activations, "zeros");
    }
}

/// Packed NVFP4 scales have a separate byte for NaN and no top bit. Rows with other codes keep their scales.
TEST(Pack, ScalesOfNvfp4ThatKernelsTakeOtherwiseAreKept) {
    const OwnedOperand weights = random_weights(nvfp4, {70, 130}, 0, 126);
    const auto scale_at = [](const PackedWeights& packed, std::int64_t row, std::int64_t column) {
        const auto* const bytes = static_cast<const std::uint8_t*>(packed.data);
        const PackedSections sections = packed_sections(packed);
        return int{bytes[sections.tile_at(0, row / 64, column / 8) + packed_scale_at(row % 64, 8) + column % 8]};
    };
    const std::int64_t bytes = packed_bytes(weights, PackedFor::bf16);
    EXPECT_EQ(bytes, packed_sections(pack_weights(weights, PackedFor::bf16)).kept_at());
    scale_of_block(weights.operand(), 3, 8) = 0x7F;
    scale_of_block(weights.operand(), 66, 2) = 0xFF;
    scale_of_block(weights.operand(), 66, 4) = 0x85;
    const OwnedPackedWeights packed = pack_weights(weights, PackedFor::bf16);
    EXPECT_EQ(packed.packed.bytes, bytes + 128);
    EXPECT_EQ(scale_at(packed, 3, 8), 0xFF);
    EXPECT_EQ(scale_at(packed, 66, 2), 0xFF);
    EXPECT_EQ(scale_at(packed, 66, 4), 0x05);
    expect_inverse(weights, PackedFor::bf16, "scales of any bits");
}

/// The bits of what `dequantize` makes of an operand.
std::vector<std::uint32_t> numbers_of(const Operand& operand, const Dims& shape) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    std::vector<std::uint32_t> bits(static_cast<std::size_t>(count));
    dequantize(operand, row_major(bits.data(), Format::f32, shape));
    return bits;
}

TEST(Pack, PackedWeightsDequantiseToTheNumbersOfTheirCodes) {
    const Dims shape{2, 70, 160};
    for (const auto& [recipe, least, most] :
         {std::tuple{mxfp4, 120, 127}, {mxfp4, 3, 250}, {nvfp4, 0, 126}, {nvfp4, 0, 255}}) {
        const OwnedOperand weights = random_weights(recipe, shape, least, most);
        for (const PackedFor activations : {PackedFor::fp8, PackedFor::bf16}) {
            const OwnedPackedWeights packed = pack_weights(weights, activations);
            EXPECT_EQ(numbers_of({.packed = packed}, shape), numbers_of(weights, shape)) << name(recipe) << most;
        }
    }
}

std::string dequantize_message(const Operand& operand, const Dims& shape) {
    try {
        numbers_of(operand, shape);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(Pack, DequantizeRefusesPackedWeightsThatItCannotRead) {
    const OwnedOperand weights = random_weights(mxfp4, {64, 128}, 120, 127);
    const OwnedPackedWeights packed = pack_weights(weights, PackedFor::fp8);
    Operand both = weights.operand();
    both.packed = packed;
    EXPECT_EQ(dequantize_message(both, {64, 128}),
              "operand.packed: got packed weights together with values or scales; expected only one of them.");
    Operand elsewhere{.packed = packed};
    elsewhere.packed.device = {.kind = DeviceId::Kind::cuda, .index = 0};
    EXPECT_EQ(dequantize_message(elsewhere, {64, 128}),
              "packed: got memory of cuda:0; expected host memory. Copy it to the host.");
    EXPECT_EQ(dequantize_message({.packed = packed}, {64, 64}),
              "out: got [64, 64]; expected [64, 128], the shape of operand.values.");
}

TEST(Pack, RowsOfNeighbouringExponentsTakeNoMoreThanTheirTiles) {
    const OwnedOperand weights = random_weights(mxfp4, {128, 256}, 116, 127);
    const std::int64_t tiles = 128 / 64 * 256 / 128 * 4352;
    const std::int64_t rows = 128 * 8;
    EXPECT_EQ(packed_bytes(weights, PackedFor::fp8), 128 + rows + tiles + 128);
}

// ---- where the bytes are, read as a kernel reads them ----

std::uint32_t prmt(std::uint32_t lo, std::uint32_t hi, std::uint32_t selector) {
    std::uint32_t out = 0;
    for (int i = 0; i < 4; ++i) {
        const std::uint32_t from = selector >> (4 * i) & 7;
        out |= (from < 4 ? lo >> (8 * from) & 255 : hi >> (8 * (from - 4)) & 255) << (8 * i);
    }
    return out;
}

struct Fragment {
    std::uint32_t a0 = 0;  // of row g: k = 4 t .. 4 t + 3
    std::uint32_t a2 = 0;  // k = 16 + 4 t ..
};

/// The table of e4m3 codes of 0, 0.5, 1, 1.5 | 2, 3, 4, 6 times 2^(e - 6), and two look-ups.
Fragment decode_word(std::uint32_t word, std::uint32_t e) {
    const std::uint32_t lo = e * 0x0808'0800U + 0x0C08'0000U;
    const std::uint32_t hi = e * 0x0808'0808U + 0x1C18'1410U;
    const std::uint32_t selector = word & 0x7777'7777U;
    return {.a0 = prmt(lo, hi, selector & 0xFFFF) | (word & 0x8080'8080U),
            .a2 = prmt(lo, hi, selector >> 16) | (word * 16 & 0x8080'8080U)};
}

class Reader {
public:
    Reader(const OwnedOperand& weights, PackedFor activations)
        : packed(pack_weights(weights, activations)), sections(packed_sections(packed.packed)) {}

    const std::uint8_t* at(std::int64_t offset) const {
        return static_cast<const std::uint8_t*>(packed.packed.data) + offset;
    }
    template <class T>
    T load(std::int64_t offset) const {
        T value;
        std::memcpy(&value, at(offset), sizeof value);
        return value;
    }

    OwnedPackedWeights packed;
    PackedSections sections;
};

TEST(Pack, Fp8TilesDecodeToTheFragmentsOfTheTensorCore) {
    const OwnedOperand weights = random_weights(mxfp4, {128, 256}, 116, 127);
    const Reader reader(weights, PackedFor::fp8);
    for (std::int64_t row = 0; row < 128; ++row) {
        const std::int64_t tile_row = row % 64;
        const std::int64_t warp = tile_row / 16;
        const std::int64_t g = tile_row % 8;
        const std::int64_t upper = tile_row % 16 / 8;
        const auto info = reader.load<PackedRow>(128 + row * 8);
        for (std::int64_t k = 0; k < 256; ++k) {
            // 128 rows and 256 k-elements are stored k-block by k-block, both row tiles of each.
            const std::int64_t tile = 128 + 128 * 8 + (k / 128 * 2 + row / 64) * 4352;
            const std::int64_t half = k % 128 / 64;
            const std::int64_t step = k % 64 / 32;
            const std::int64_t t = k % 16 / 4;
            const std::int64_t word_at = tile + ((2 * warp + half) * 32 + 4 * g + t) * 16 + (2 * step + upper) * 4;
            const auto e = *reader.at(tile + 4096 + (warp * 8 + g) * 8 + upper * 4 + k % 128 / 32);
            const Fragment fragment = decode_word(reader.load<std::uint32_t>(word_at), e);
            const std::uint32_t codes = k % 32 < 16 ? fragment.a0 : fragment.a2;
            const float decoded = decode(e4m3_fields, codes >> (8 * (k % 4)) & 255);
            const double scale = std::ldexp(1.0, scale_of_block(weights.operand(), row, k / 32) - 127);
            const double expected = double{decode(e2m1_fields, code_of(weights.operand(), row, k))} * scale;
            ASSERT_EQ(double{decoded} * info.end_factor, expected) << row << ", " << k;
        }
    }
}

/// The part of a word that a lane gets by shifts and the mask.
std::uint32_t half_word(std::uint32_t word, int pair) {
    constexpr std::uint32_t mask = 0x81C0'81C0U;
    if (pair == 0) return word & mask;
    if (pair == 1) return word << 6 & mask;
    if (pair == 2) return std::rotr(word, 4) & mask;
    return (word << 2 & 0x80C0'80C0U) | (word >> 6 & 0x0100'0100U);
}

void expect_bf16_tiles(const OwnedOperand& weights, const Reader& reader, std::int64_t tiles_at) {
    const Operand& operand = weights.operand();
    const bool is_mxfp4 = operand.granularity == Granularity::block_1x32;
    const std::int64_t block = k_block(operand.granularity);
    for (std::int64_t row = 0; row < 64; ++row) {
        for (std::int64_t k = 0; k < 128; ++k) {
            const std::int64_t warp = row / 16;
            const std::int64_t g = row % 8;
            const std::int64_t upper = row % 16 / 8;
            const std::int64_t lane = 4 * g + k % 8 / 2;
            const std::int64_t word_at =
                tiles_at + ((2 * warp + k / 64) * 32 + lane) * 16 + (k % 64 / 32 * 2 + upper) * 4;
            const std::uint32_t pair = half_word(reader.load<std::uint32_t>(word_at), static_cast<int>(k % 32 / 8));
            const float small = decode(bf16_fields, pair >> (k % 2 * 16) & 0xFFFF);
            const double value = decode(e2m1_fields, code_of(operand, row, k));
            ASSERT_EQ(double{small} * 0x1p126, value) << row << ", " << k;
            const std::int64_t per_row = 128 / block;
            const auto stored =
                *reader.at(tiles_at + 4096 + (warp * 8 + g) * 2 * per_row + upper * per_row + k / block);
            if (!is_mxfp4) {
                ASSERT_EQ(stored, scale_of_block(operand, row, k / block));
                continue;
            }
            const float factor = decode(bf16_fields, std::uint32_t{stored} << 7);
            const double end = reader.load<PackedRow>(128 + row * 8).end_factor;
            const double scale = std::ldexp(1.0, scale_of_block(operand, row, k / block) - 127);
            ASSERT_EQ(double{small} * factor * end, value * scale) << row << ", " << k;
        }
    }
}

TEST(Pack, Bf16TilesDecodeToTheFragmentsOfTheTensorCore) {
    const OwnedOperand mx = random_weights(mxfp4, {64, 128}, 60, 180);
    expect_bf16_tiles(mx, Reader(mx, PackedFor::bf16), 128 + 64 * 8);
    const OwnedOperand nv = random_weights(nvfp4, {64, 128}, 0, 126);
    expect_bf16_tiles(nv, Reader(nv, PackedFor::bf16), 128 + 128 + 64 * 8);
}

/// A weight in its window, times 2^(the window's exponent - 6), or the row's end factor.
double wide_weight(const Reader& reader, std::int64_t row, std::int64_t k) {
    const auto info = reader.load<PackedRow>(reader.sections.rows_at() + row * 8);
    const std::int64_t tile = reader.sections.tile_at(0, 0, k / 128);
    const std::int64_t word_at = tile + (packed_word(row, k % 128 / 32) + k % 16 / 4 * 4) * 4;
    const auto byte = *reader.at(tile + packed_scale_at(row, 4) + k % 128 / 32);
    const Fragment fragment = decode_word(reader.load<std::uint32_t>(word_at), byte & 15);
    const std::uint32_t codes = k % 32 < 16 ? fragment.a0 : fragment.a2;
    const double decoded = decode(e4m3_fields, codes >> (8 * (k % 4)) & 255);
    const std::int64_t at = tile + reader.sections.windows_in_tile();
    const auto head = reader.load<PackedWindows>(at);
    const bool wide = (head.wide[static_cast<std::size_t>(row % 16 / 8)] >> (row / 16 * 8 + row % 8) & 1) != 0;
    EXPECT_EQ(wide, (info.flags & packed_row_wide) != 0) << row;
    EXPECT_LT(byte >> packed_window_shift, head.windows) << row;
    EXPECT_LE(head.windows, reader.sections.windows);
    const auto exponent =
        static_cast<std::int8_t>(*reader.at(at + 16 + packed_exponent_at(row, byte >> packed_window_shift)));
    EXPECT_NE(exponent, no_window) << row;
    if (!wide) {
        EXPECT_EQ(exponent, fp8_top_exponent) << row;
    }
    EXPECT_EQ(std::signbit(info.end_factor), wide) << row;
    return std::ldexp(decoded, exponent - fp8_top_exponent) * std::abs(info.end_factor);
}

TEST(Pack, WindowsOfWideRowsHaveTheWeights) {
    const OwnedOperand weights = random_weights(mxfp4, {64, 256}, 60, 180);
    for (std::int64_t column = 0; column < 8; ++column) scale_of_block(weights.operand(), 5, column) = 127;
    const Reader reader(weights, PackedFor::fp8);
    EXPECT_EQ(reader.sections.windows, 4);
    EXPECT_EQ(reader.sections.tile_bytes(), 4352 + 16 + 4 * 64);
    for (std::int64_t row = 0; row < 64; ++row) {
        for (std::int64_t k = 0; k < 256; ++k) {
            const double scale = std::ldexp(1.0, scale_of_block(weights.operand(), row, k / 32) - 127);
            const double expected = double{decode(e2m1_fields, code_of(weights.operand(), row, k))} * scale;
            ASSERT_EQ(wide_weight(reader, row, k), expected) << row << ", " << k;
        }
    }
}

}  // namespace
}  // namespace tilewright::formats
