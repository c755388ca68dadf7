// The primitives' kernels on the emulator, against results written down from the formats' and the model's definitions;
// tests/gpu/primitives_test.cpp holds a GPU against the emulator. And NVRTC compiles all of them.
#include "emulator/emulator.h"

#include <gtest/gtest.h>
#include <tilewright/error.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cpu/exact/tensor_core.h"
#include "cuda/compiler.h"
#include "emulator/primitives.h"
#include "primitives/cases.h"

namespace tilewright::primitives {
namespace {

using emulator::Timing;

template <class T>
T at(const std::vector<std::byte>& bytes, std::size_t index) {
    T value;
    std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
    return value;
}

/// 128 codes of a row from (x, y) on, zeros outside.
std::array<std::byte, 128> box_row(const std::vector<std::byte>& codes, int x, int y) {
    std::array<std::byte, 128> row{};
    for (int i = 0; i < 128; ++i) {
        if (y >= 0 && y < case_rows && x + i >= 0 && x + i < case_k)
            row[i] = codes[std::size_t{1} * y * case_k + x + i];
    }
    return row;
}

void expect_product(const PrimitiveCase& product, const cpu::TensorCore& core) {
    const PrimitiveResult result = run_on_emulator(product, Timing::early);
    for (int thread = 0; thread < 128; ++thread) {
        for (int i = 0; i < 32; ++i) {
            const int row = 16 * (thread / 32) + thread % 32 / 4 + 8 * (i / 2 % 2);
            const int column = 8 * (i / 4) + 2 * (thread % 4) + i % 2;
            const float expected = core.chain(box_row(product.a.bytes, product.x, product.y + row).data(),
                                              box_row(product.b.bytes, product.x, product.y + column).data(), 4, 0);
            ASSERT_EQ(at<u32>(result.out, std::size_t{1} * thread * 32 + i), std::bit_cast<u32>(expected))
                << product.name << ": row " << row << " column " << column;
        }
    }
}

TEST(Primitives, ProductsOfBoxes) {
    int products = 0;
    for (const PrimitiveCase& each : cases()) {
        if (each.name.rfind("product", 0) != 0) continue;
        const auto is_e5m2 = [&](const char* side) { return each.name.find(side) != std::string::npos; };
        expect_product(each, {.a = is_e5m2("e5m2 x") ? Format::e5m2 : Format::e4m3,
                              .b = is_e5m2("x e5m2") ? Format::e5m2 : Format::e4m3});
        ++products;
    }
    EXPECT_EQ(products, 12);
}

/// Rows of A are those of memory's columns, B's begin at x and its k at y.
TEST(Primitives, ProductsOfTransposedBoxes) {
    int products = 0;
    for (const PrimitiveCase& each : cases()) {
        if (each.name.rfind("transposed product", 0) != 0) continue;
        const bool is_e5m2 = each.name.find("e5m2 x") != std::string::npos;
        const cpu::TensorCore core{.a = is_e5m2 ? Format::e5m2 : Format::e4m3, .b = Format::e4m3};
        const PrimitiveResult result = run_on_emulator(each, Timing::late);
        for (int thread = 0; thread < 128; ++thread) {
            for (int i = 0; i < 32; ++i) {
                const int row = 16 * (thread / 32) + thread % 32 / 4 * 2 + i / 2 % 2;
                const int column = 8 * (i / 4) + 2 * (thread % 4) + i % 2;
                std::array<std::byte, 64> a{};
                for (int k = 0; k < 64; ++k) a[k] = box_row(each.a.bytes, each.x + row, each.y + k)[0];
                const std::array<std::byte, 128> b = box_row(each.b.bytes, each.y, each.x + column);
                ASSERT_EQ(at<u32>(result.out, std::size_t{1} * thread * 32 + i),
                          std::bit_cast<u32>(core.chain(a.data(), b.data(), 2, 0)))
                    << each.name << ": row " << row << " column " << column;
            }
        }
        ++products;
    }
    EXPECT_EQ(products, 6);
}

/// Row i of A is 1 at k = 2 i and row j of B is 2^(j % 8) everywhere: every byte of the box is found in one place only.
TEST(Primitives, OneHotRows) {
    std::vector<std::byte> a(std::size_t{case_rows} * case_k);
    std::vector<std::byte> b(a.size());
    for (int row = 0; row < case_rows; ++row) {
        const std::size_t begin = std::size_t{1} * row * case_k;
        if (2 * row < case_k) a[begin + 2 * row] = std::byte{0x38};
        for (int i = 0; i < case_k; ++i) b[begin + i] = static_cast<std::byte>(0x38 + (row % 8 << 3));
    }
    expect_product(product_case(a, b, 0, 0), {});
}

void expect_clipped_stores(bool transposed) {
    constexpr int columns = 72, d_rows = 20;
    for (const auto& [x, y] : {std::pair{0, 0}, std::pair{40, 9}, std::pair{8, 19}}) {
        const PrimitiveResult result = run_on_emulator(store_case(x, y, transposed), Timing::late);
        for (int row = 0; row < d_rows; ++row) {
            for (int column = 0; column < columns; ++column) {
                const int r = row - y, c = column - x;
                const bool inside = r >= 0 && r < 16 && c >= 0 && c < 64;
                ASSERT_EQ(at<u16>(result.d, std::size_t{1} * row * columns + column), inside ? 1 + 64 * r + c : 0)
                    << "row " << row << " column " << column << " of the box at " << x << ", " << y;
            }
        }
    }
}

TEST(Primitives, StoresAreClipped) { expect_clipped_stores(false); }
TEST(Primitives, StoresOfTransposedMatricesAreClipped) { expect_clipped_stores(true); }

/// Each block has the whole box: rows of 128 bytes, in each the 16-byte chunks exchanged by the row's last three bits.
TEST(Primitives, SharedBoxesArriveInBothBlocks) {
    for (const Timing timing : {Timing::early, Timing::late}) {
        for (const auto& [x, y] : {std::pair{0, 0}, std::pair{64, 30}, std::pair{-16, -5}}) {
            const PrimitiveCase shared = share_case(x, y);
            const PrimitiveResult result = run_on_emulator(shared, timing);
            for (int i = 0; i < 2 * 64 * 128; ++i) {
                const int row = i / 128 % 64, byte = i % 128;
                const std::byte expected = box_row(shared.a.bytes, x, y + row)[byte ^ row % 8 * 16];
                ASSERT_EQ(result.out[i], expected) << shared.name << ": byte " << byte << " of row " << row;
            }
        }
    }
}

TEST(Primitives, CopiesOfNumbersAreThereWhenTheirArrivalsAre) {
    for (const Timing timing : {Timing::early, Timing::late}) {
        for (const auto& [step, first] : {std::pair{1, 3}, std::pair{23, 0}}) {
            const PrimitiveResult result = run_on_emulator(copy_case(step, first), timing);
            EXPECT_EQ(at<u64>(result.words, 0), 0U) << "complete without the barrier's own arrival";
            for (int i = 0; i < 128; ++i) {
                const int from = first + (127 - i) * step;
                ASSERT_EQ(at<float>(result.out, i), from < 500 ? static_cast<float>(from + 1) : 0.0F) << i;
            }
        }
    }
}

// Bits of complete_phases' notes, in order: parity 0 no, 1 yes; after one arrival 0 no; after both 0 yes, 1 no;
// expected bytes 1 no; the other block missing 1 no; all there 1 yes, 0 no.
TEST(Primitives, PhasesOfABarrier) {
    for (const Timing timing : {Timing::early, Timing::late}) {
        EXPECT_EQ(at<u64>(run_on_emulator(phases_case(), timing).words, 0), 0b01'0'0'01'0'10U);
    }
}

TEST(Primitives, AWaitInVainNamesItsBarrier) {
    try {
        run_on_emulator(time_out_case(), Timing::early);
        ADD_FAILURE() << "no error";
    } catch (const emulator::Error& error) {
        EXPECT_NE(std::string(error.what()).find("work_empty[5]"), std::string::npos) << error.what();
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

TEST(Primitives, ConvertWritesWhatItsFunctionsReturn) {
    const std::vector<float> in{1.00390625F, -1.01171875F, 0x1p-25F, NAN, INFINITY, -0x1p-134F};
    const PrimitiveResult result = run_on_emulator(convert_case(in), Timing::early);
    for (std::size_t i = 0; i < 2; ++i) {
        const float x = in[3 * i], y = in[3 * i + 1], z = in[3 * i + 2];
        EXPECT_EQ(at<u16>(result.words, 8 * i), to_bf16(x));
        EXPECT_EQ(at<u16>(result.words, 8 * i + 1), to_f16(x));
        EXPECT_EQ(at<u32>(result.words, 4 * i + 1), pack_bf16(x, y));
        EXPECT_EQ(at<u32>(result.words, 4 * i + 2), pack_f16(y, x));
        EXPECT_EQ(at<u16>(result.words, 8 * i + 6), to_f16(z));
        EXPECT_EQ(at<u16>(result.words, 8 * i + 7), to_bf16(z));
        EXPECT_EQ(at<u32>(result.out, 3 * i), std::bit_cast<u32>(fma(x, y, z)));
        EXPECT_EQ(at<u32>(result.out, 3 * i + 2), std::bit_cast<u32>(from_f16(static_cast<u16>(i))));
    }
}

/// So that what a GPU runs is known to compile where there is none.
TEST(Primitives, NvrtcCompilesEveryCase) {
    const cuda::OpenLibrary found(cuda::nvrtc_candidates());
    if (!found.is_open()) GTEST_SKIP() << "NVRTC was not found";
    const cuda::Compiler compiler(cuda::nvrtc_candidates());
    std::vector<std::string> compiled;
    for (const PrimitiveCase& each : cases()) {
        if (std::find(compiled.begin(), compiled.end(), each.expression) != compiled.end()) continue;
        compiled.push_back(each.expression);
        EXPECT_NO_THROW({
            const cuda::Compilation result = compiler.compile({.text = kernels_text, .expression = each.expression});
            EXPECT_FALSE(result.kernel.cubin.empty()) << each.name;
        }) << each.name;
    }
    EXPECT_EQ(compiled.size(), 12U);
}

}  // namespace
}  // namespace tilewright::primitives
