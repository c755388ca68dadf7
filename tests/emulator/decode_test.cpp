// The kernels that decode fp8 operands to bf16 before a product, on the emulator. Each code becomes its number, in any
// memory order of the operand, and nothing is written after the rows.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "emulator/other_kernels.h"
#include "formats/codec.h"
#include "launch/preparation.h"

namespace tilewright::tests {
namespace {

constexpr std::int64_t matrices = 2, rows = 3, columns = 1100, padded = 1104;
constexpr std::uint16_t untouched = 0xFFFF;

struct Order {
    const char* name;
    Strides strides;
    std::size_t offset;
    bool vectors;
};

/// Every code in every row, from another one on.
std::uint8_t code_at(std::int64_t matrix, std::int64_t row, std::int64_t k) {
    return static_cast<std::uint8_t>(k + 37 * row + 101 * matrix);
}

/// The codes of an operand in their order, at a multiple of eight bytes and an offset.
std::vector<std::uint64_t> codes_of(const Order& order) {
    std::vector<std::uint64_t> words(4500);
    auto* const codes = reinterpret_cast<std::uint8_t*>(words.data()) + order.offset;
    const Strides& strides = order.strides;
    for (std::int64_t i = 0; i < matrices * rows * columns; ++i) {
        const std::int64_t matrix = i / (rows * columns), row = i / columns % rows, k = i % columns;
        codes[matrix * strides.group + row * strides.row + k * strides.k] = code_at(matrix, row, k);
    }
    return words;
}

/// Zeros after the end of a row, and nothing after the last row.
bool is_right(Format format, std::int64_t row, std::int64_t k, std::uint16_t given) {
    if (row >= matrices * rows) return given == untouched;
    if (k >= columns) return given == 0;
    const formats::Fields& fields = format == Format::e4m3 ? formats::e4m3_fields : formats::e5m2_fields;
    const float expected = formats::decode(fields, code_at(row / rows, row % rows, k));
    const auto bits = std::uint32_t{given} << 16;
    return std::isnan(expected) ? std::isnan(std::bit_cast<float>(bits))
                                : std::bit_cast<std::uint32_t>(expected) == bits;
}

TEST(DecodeFp8, EveryCodeIsItsNumberInAnyOrder) {
    constexpr Order orders[] = {{"along k", {.group = 4 * 1120, .row = 1120, .k = 1}, 0, true},
                                {"rows anywhere", {.group = 4 * 1111, .row = 1111, .k = 1}, 0, false},
                                {"an address anywhere", {.group = 4 * 1120, .row = 1120, .k = 1}, 3, false},
                                {"along the rows", {.group = 16 * 1100, .row = 1, .k = 16}, 0, false}};
    for (const Format format : {Format::e4m3, Format::e5m2}) {
        for (const Order& order : orders) {
            const std::vector<std::uint64_t> words = codes_of(order);
            const auto* const codes = reinterpret_cast<const std::uint8_t*>(words.data()) + order.offset;
            std::vector<std::uint16_t> numbers(matrices * rows * padded + 64, untouched);
            const DecodedOperand operand{.from = {.recipe = {.values = format, .granularity = Granularity::row},
                                                  .values = codes,
                                                  .value_strides = order.strides},
                                         .matrices = matrices,
                                         .rows = rows,
                                         .k = columns,
                                         .to = {.group = rows * padded, .row = padded, .k = 1}};
            const launch::OtherLaunch launch = launch::lower_workspace({.decode_a = operand}, numbers.data()).at(0);
            EXPECT_EQ(launch.of<launch::DecodeCodes>().kernel.spec.vectors, order.vectors) << order.name;
            run_on_emulator(launch);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < numbers.size(); ++i) {
                const auto at = static_cast<std::int64_t>(i);
                if (!is_right(format, at / padded, at % padded, numbers[i])) ++wrong;
            }
            EXPECT_EQ(wrong, 0U) << name(format) << " " << order.name;
        }
    }
}

/// A matrix of each group, of 40 groups, whose counts are more than a warp reads at once; some are not counts.
template <class Count>
void expect_rows_of_counts(Format format, int matrices_at_once) {
    constexpr std::int64_t groups = 40, room = 5, k = 16, behind = 64;
    std::vector<Count> counts(2 * groups);  // every second one
    const auto count_of = [&](std::int64_t group) { return static_cast<Count>(group % 9 - 1); };
    for (std::int64_t group = 0; group < groups; ++group) counts[2 * static_cast<std::size_t>(group)] = count_of(group);
    const std::vector<std::uint64_t> codes(groups * room * k / 8, 0x3838'3838'3838'3838);  // ones of e4m3
    std::vector<std::uint16_t> numbers(groups * room * k + behind, untouched);
    const DecodedOperand operand{
        .from = {.recipe = {.values = Format::e4m3, .granularity = Granularity::row},
                 .values = codes.data(),
                 .value_strides = {.group = room * k, .row = k, .k = 1}},
        .matrices = groups,
        .rows = room,
        .k = k,
        .to = {.group = room * k, .row = k, .k = 1},
        .row_counts = {.data = counts.data(), .format = format, .shape = {groups}, .strides = {2}}};
    launch::OtherLaunch launch = launch::lower_workspace({.decode_a = operand}, numbers.data()).at(0);
    auto& arguments = std::get<launch::CallOf<launch::DecodeCodes>>(launch.call).arguments;
    EXPECT_EQ(arguments.matrices_at_once, 32);
    arguments.matrices_at_once = matrices_at_once;
    run_on_emulator(launch);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const std::int64_t row = static_cast<std::int64_t>(i) / k, group = row / room;
        const bool is_there = group < groups && row % room < std::int64_t{count_of(group)};
        ASSERT_EQ(numbers[i], is_there ? 0x3F80 : untouched) << "group " << group << " row " << row % room;
    }
}

TEST(DecodeFp8, OfAMaskedCallTheRowsThatThereAre) {
    for (const int matrices_at_once : {32, 7, 1}) {  // fewer where int does not hold their rows
        expect_rows_of_counts<std::int32_t>(Format::i32, matrices_at_once);
        expect_rows_of_counts<std::int64_t>(Format::i64, matrices_at_once);
    }
}

}  // namespace
}  // namespace tilewright::tests
