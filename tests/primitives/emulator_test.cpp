// The primitives' kernels on the emulator, against results written down from the formats' and the model's definitions.
#include "emulator/emulator.h"
#include "cpu/tensor_core.h"
#include "formats/codec.h"
#include "primitives/kernels.h"

#include "emulator/primitives.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace tilewright::primitives {
namespace {

constexpr int rows = 80, k = 176;

struct Operands {
    alignas(16) std::array<u8, std::size_t{rows} * k> a{};
    alignas(16) std::array<u8, std::size_t{rows} * k> b{};
};

/// 128 codes of a row from (x, y) on, zeros outside.
std::array<u8, 128> box_row(const std::array<u8, std::size_t{rows} * k>& codes, int x, int y) {
    std::array<u8, 128> row{};
    for (int i = 0; i < 128; ++i) {
        if (y >= 0 && y < rows && x + i >= 0 && x + i < k) row[i] = codes[std::size_t{1} * y * k + x + i];
    }
    return row;
}

void expect_product(const Operands& operands, int x, int y) {
    const auto map = [](const u8* base) {
        return emulator::encode({.base = base,
                                 .element_bytes = 1,
                                 .sizes = {k, rows, 1},
                                 .strides = {k, k * rows},
                                 .box = {128, 64, 1},
                                 .swizzled = true});
    };
    std::vector<float> out(128 * 32, NAN);
    const PrimitiveArguments arguments{
        .a = map(operands.a.data()), .b = map(operands.b.data()), .d = {}, .out = out.data(), .x = x, .y = y};
    emulator::launch({.threads = 128, .shared_bytes = sizeof(PrimitiveShared)}, [&] { multiply_box(arguments); });
    for (int thread = 0; thread < 128; ++thread) {
        for (int i = 0; i < 32; ++i) {
            const int row = 16 * (thread / 32) + thread % 32 / 4 + 8 * (i / 2 % 2);
            const int column = 8 * (i / 4) + 2 * (thread % 4) + i % 2;
            const float expected = cpu::TensorCore{}.chain(box_row(operands.a, x, y + row).data(),
                                                           box_row(operands.b, x, y + column).data(), 4, 0);
            ASSERT_EQ(std::bit_cast<u32>(out[thread * 32 + i]), std::bit_cast<u32>(expected))
                << "row " << row << " column " << column << " of the box at " << x << ", " << y;
        }
    }
}

TEST(Primitives, ProductsOfBoxes) {
    Operands operands;
    for (std::size_t i = 0; i < operands.a.size(); ++i) {
        operands.a[i] = static_cast<u8>(i * 37 % 120 | (i & 8U) << 4);
        operands.b[i] = static_cast<u8>(i * 91 % 113 | (i & 4U) << 5);
    }
    expect_product(operands, 0, 0);
    expect_product(operands, 64, 30);   // hangs over both ends
    expect_product(operands, -16, -5);  // and both beginnings
}

/// Row i of A is 1 at k = 2 i and row j of B is 2^(j % 8) everywhere: every byte of the box is found in one place only.
TEST(Primitives, OneHotRows) {
    Operands operands;
    for (int row = 0; row < rows; ++row) {
        if (2 * row < k) operands.a[std::size_t{1} * row * k + 2 * row] = 0x38;
        for (int i = 0; i < k; ++i) operands.b[std::size_t{1} * row * k + i] = static_cast<u8>(0x38 + (row % 8 << 3));
    }
    expect_product(operands, 0, 0);
}

TEST(Primitives, StoresAreClipped) {
    constexpr int columns = 72, d_rows = 20;
    for (const auto& [x, y] : {std::pair{0, 0}, std::pair{40, 9}, std::pair{-8, -3}}) {
        alignas(16) std::array<u16, std::size_t{columns} * d_rows> d{};
        const PrimitiveArguments arguments{.a = {},
                                           .b = {},
                                           .d = emulator::encode({.base = d.data(),
                                                                  .element_bytes = 2,
                                                                  .sizes = {columns, d_rows, 1},
                                                                  .strides = {columns * 2, columns * 2 * d_rows},
                                                                  .box = {64, 16, 1},
                                                                  .swizzled = true}),
                                           .out = nullptr,
                                           .x = x,
                                           .y = y};
        emulator::launch({.threads = 32, .shared_bytes = sizeof(PrimitiveShared), .tma = emulator::Timing::late},
                         [&] { stage_and_store(arguments); });
        for (int row = 0; row < d_rows; ++row) {
            for (int column = 0; column < columns; ++column) {
                const int r = row - y, c = column - x;
                const bool inside = r >= 0 && r < 16 && c >= 0 && c < 64;
                ASSERT_EQ(d[std::size_t{1} * row * columns + column], inside ? 1 + 64 * r + c : 0)
                    << "row " << row << " column " << column << " of the box at " << x << ", " << y;
            }
        }
    }
}

TEST(Primitives, Conversions) {
    for (u32 code = 0; code < 65536; ++code) {
        const auto half = static_cast<u16>(code);
        ASSERT_EQ(std::bit_cast<u32>(from_bf16(half)), code << 16);
        const bool bf16_nan = (code & 0x7FFFU) > 0x7F80U, f16_nan = (code & 0x7FFFU) > 0x7C00U;
        ASSERT_EQ(to_bf16(from_bf16(half)), bf16_nan ? 0x7FFF : half);
        ASSERT_EQ(to_f16(from_f16(half)), f16_nan ? 0x7FFF : half);
    }
    EXPECT_EQ(pack_bf16(1.00390625F, -1.01171875F), 0xBF82'3F80U);  // ties to even
    EXPECT_EQ(pack_f16(65520.0F, 65519.0F), 0x7BFF'7C00U);          // to infinity, to the largest
    EXPECT_EQ(std::bit_cast<u32>(fma(INFINITY, 0, 1)), 0x7FFF'FFFFU);
    EXPECT_EQ(fma(1 + 0x1p-12F, 1 + 0x1p-12F, -1), 0x1p-11F + 0x1p-24F);  // rounded once
}

}  // namespace
}  // namespace tilewright::primitives
