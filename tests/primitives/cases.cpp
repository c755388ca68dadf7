#include "primitives/cases.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "emulator/primitives.h"

namespace tilewright::primitives {
namespace {

constexpr int d_columns = 72;
constexpr int d_rows = 20;

Boxed codes_box(std::vector<std::byte> bytes, u32 rows) {
    return {.bytes = std::move(bytes),
            .map = {.base = nullptr,
                    .element_bytes = 1,
                    .sizes = {case_k, case_rows, 1},
                    .strides = {case_k, case_k * case_rows},
                    .box = {128, rows, 1},
                    .swizzled = true}};
}

template <ValueFormat a, ValueFormat b>
PrimitiveCase product_of(const char* formats, int x, int y) {
    PrimitiveCase product = product_case(some_codes(1), some_codes(2), x, y);
    product.name += std::string(" ") + formats;
    product.expression = std::string("tilewright::primitives::multiply_box<tilewright::hopper::ValueFormat(") +
                         std::to_string(static_cast<int>(a)) + "), tilewright::hopper::ValueFormat(" +
                         std::to_string(static_cast<int>(b)) + ")>";
    product.kernel = multiply_box<a, b>;
    return product;
}

template <ValueFormat a, ValueFormat b>
PrimitiveCase transposed_product_of(const char* formats, int x, int y) {
    PrimitiveCase product = product_of<a, b>(formats, x, y);
    product.name = "transposed " + product.name;
    product.expression.replace(product.expression.find("multiply_box"), 12, "multiply_transposed_box");
    product.kernel = multiply_transposed_box<a, b>;
    return product;
}

/// Every bf16 number and the numbers around the tie between it and the next, and likewise for f16. The order is mixed,
/// so that the fma has operands of all kinds.
std::vector<float> awkward_numbers() {
    std::vector<float> numbers;
    for (u32 code = 0; code < 65536; ++code) {
        for (const u32 low : {0U, 0x7FFFU, 0x8000U, 0x8001U}) numbers.push_back(std::bit_cast<float>(code << 16 | low));
        const float half = from_f16(static_cast<u16>(code));
        const float next = from_f16(static_cast<u16>(code + 1));
        const float tie = half / 2 + next / 2;
        for (const float number : {half, tie, std::nextafter(tie, half), std::nextafter(tie, next)}) {
            numbers.push_back(number);
        }
    }
    numbers.insert(numbers.end(), {65519.0F, 65520.0F, 0x1p-25F, 0x1.000002p-25F, 0x1p-133F, 0x1p-134F, 0x1p-149F});
    std::vector<float> mixed(numbers.size() / 3 * 3);
    constexpr std::size_t step = 314'159;  // coprime to the size: every number comes once
    for (std::size_t i = 0; i < mixed.size(); ++i) mixed[i] = numbers[i * step % numbers.size()];
    return mixed;
}

std::vector<std::byte> poisoned(std::size_t bytes) { return std::vector<std::byte>(bytes, std::byte{0xFF}); }

}  // namespace

std::vector<std::byte> some_codes(int seed) {
    std::vector<std::byte> codes(std::size_t{case_rows} * case_k);
    for (std::size_t i = 0; i < codes.size(); ++i) {
        // Signs, and magnitudes without the NaN and infinities of either format.
        const auto random = (i + 1) * (2'654'435'761U * static_cast<unsigned>(2 * seed + 1)) >> 7U;
        codes[i] = static_cast<std::byte>(random % 120 | (random >> 9U & 1U) << 7U);
    }
    return codes;
}

PrimitiveCase product_case(const std::vector<std::byte>& a, const std::vector<std::byte>& b, int x, int y) {
    return {.name = "product at " + std::to_string(x) + ", " + std::to_string(y),
            .expression =
                "tilewright::primitives::multiply_box<tilewright::hopper::ValueFormat::e4m3, "
                "tilewright::hopper::ValueFormat::e4m3>",
            .kernel = multiply_box<ValueFormat::e4m3, ValueFormat::e4m3>,
            .a = codes_box(a, 64),
            .b = codes_box(b, 64),
            .d = {},
            .in = {},
            .out = 128 * 32,
            .x = x,
            .y = y};
}

PrimitiveCase store_case(int x, int y, bool transposed) {
    Boxed d{.bytes = std::vector<std::byte>(std::size_t{d_columns} * d_rows * 2),
            .map = {.base = nullptr,
                    .element_bytes = 2,
                    .sizes = {d_columns, d_rows, 1},
                    .strides = {d_columns * 2, d_columns * 2 * d_rows},
                    .box = {64, 16, 1},
                    .swizzled = true}};
    const std::string kernel = transposed ? "stage_transposed_and_store" : "stage_and_store";
    return {.name = kernel + " at " + std::to_string(x) + ", " + std::to_string(y),
            .expression = "tilewright::primitives::" + kernel,
            .kernel = transposed ? stage_transposed_and_store : stage_and_store,
            .threads = 32,
            .a = {},
            .b = {},
            .d = std::move(d),
            .in = {},
            .x = x,
            .y = y};
}

PrimitiveCase share_case(int x, int y) {
    return {.name = "shared box at " + std::to_string(x) + ", " + std::to_string(y),
            .expression = "tilewright::primitives::share_box",
            .kernel = share_box,
            .blocks = 2,
            .a = codes_box(some_codes(3), 32),
            .b = {},
            .d = {},
            .in = {},
            .out = std::size_t{2} * 64 * 32,
            .x = x,
            .y = y};
}

PrimitiveCase copy_case(int step, int first) {
    std::vector<float> in(500);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i + 1);
    return {.name = "copies of every " + std::to_string(step) + "th number from the " + std::to_string(first) + "th on",
            .expression = "tilewright::primitives::copy_numbers",
            .kernel = copy_numbers,
            .threads = 32,
            .a = {},
            .b = {},
            .d = {},
            .in = std::move(in),
            .out = 128,
            .words = 1,
            .count = 500,
            .x = step,
            .y = first};
}

PrimitiveCase phases_case() {
    return {.name = "phases of a barrier",
            .expression = "tilewright::primitives::complete_phases",
            .kernel = complete_phases,
            .threads = 32,
            .blocks = 2,
            .a = codes_box(some_codes(4), 64),
            .b = {},
            .d = {},
            .in = {},
            .words = 1};
}

PrimitiveCase time_out_case() {
    return {.name = "time-out",
            .expression = "tilewright::primitives::time_out",
            .kernel = time_out,
            .threads = 32,
            .a = {},
            .b = {},
            .d = {},
            .in = {},
            .words = 1,
            .x = 5,
            .y = 2};
}

PrimitiveCase convert_case(std::vector<float> in) {
    const std::size_t count = in.size() / 3;
    return {.name = "conversions",
            .expression = "tilewright::primitives::convert",
            .kernel = convert,
            .a = {},
            .b = {},
            .d = {},
            .in = std::move(in),
            .out = 3 * count,
            .words = 2 * count,
            .count = static_cast<int>(count)};
}

std::vector<PrimitiveCase> cases() {
    std::vector<PrimitiveCase> list;
    for (const auto& [x, y] : {std::pair{0, 0}, std::pair{64, 30}, std::pair{-16, -5}}) {
        list.push_back(product_of<ValueFormat::e4m3, ValueFormat::e4m3>("e4m3 x e4m3", x, y));
        list.push_back(product_of<ValueFormat::e4m3, ValueFormat::e5m2>("e4m3 x e5m2", x, y));
        list.push_back(product_of<ValueFormat::e5m2, ValueFormat::e4m3>("e5m2 x e4m3", x, y));
        list.push_back(product_of<ValueFormat::e5m2, ValueFormat::e5m2>("e5m2 x e5m2", x, y));
        list.push_back(share_case(x, y));
    }
    for (const auto& [x, y] : {std::pair{0, 0}, std::pair{112, 48}, std::pair{-16, -32}}) {
        list.push_back(transposed_product_of<ValueFormat::e4m3, ValueFormat::e4m3>("e4m3 x e4m3", x, y));
        list.push_back(transposed_product_of<ValueFormat::e5m2, ValueFormat::e4m3>("e5m2 x e4m3", x, y));
    }
    for (const bool transposed : {false, true}) {
        for (const auto& [x, y] : {std::pair{0, 0}, std::pair{40, 9}, std::pair{8, 19}}) {
            list.push_back(store_case(x, y, transposed));
        }
    }
    for (const auto& [step, first] : {std::pair{1, 3}, std::pair{23, 0}}) list.push_back(copy_case(step, first));
    list.push_back(phases_case());
    list.push_back(convert_case(awkward_numbers()));
    return list;
}

PrimitiveResult run_on_emulator(const PrimitiveCase& primitive, emulator::Timing timing) {
    PrimitiveResult result{.d = primitive.d.bytes,
                           .out = poisoned(primitive.out * sizeof(float)),
                           .words = poisoned(primitive.words * sizeof(u64))};
    const auto map = [](const Boxed& boxed, const std::byte* base) {
        if (boxed.bytes.empty()) return TensorMap{};
        TensorMapDescription description = boxed.map;
        description.base = base;
        return emulator::encode(description);
    };
    const PrimitiveArguments arguments{.a = map(primitive.a, primitive.a.bytes.data()),
                                       .b = map(primitive.b, primitive.b.bytes.data()),
                                       .d = map(primitive.d, result.d.data()),
                                       .in = primitive.in.data(),
                                       .out = reinterpret_cast<float*>(result.out.data()),
                                       .words = reinterpret_cast<u64*>(result.words.data()),
                                       .count = primitive.count,
                                       .x = primitive.x,
                                       .y = primitive.y};
    emulator::launch({.blocks = primitive.blocks,
                      .cluster = primitive.blocks,
                      .threads = primitive.threads,
                      .shared_bytes = sizeof(PrimitiveShared),
                      .tma = timing,
                      .wgmma = timing},
                     [&] { primitive.kernel(arguments); });
    return result;
}

}  // namespace tilewright::primitives
