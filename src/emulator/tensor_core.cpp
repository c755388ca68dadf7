// The product itself. Operands are read through their descriptors and multiplied by the CPU's kernels of the arithmetic
// `bit_exact`, so that results have the GPU's bits.
#include "cpu/exact/tensor_core.h"
#include "base/math.h"
#include "cpu/exact/kernels.h"
#include "cpu/isa.h"
#include "emulator/machine.h"
#include "formats/codec.h"
#include "formats/element.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace tilewright::emulator {
namespace {

constexpr int rows = hopper::wgmma_m;
constexpr int step = 32;        // bytes of k
constexpr int row_bytes = 128;  // of an operand in shared memory
constexpr u32 descriptor_limit = 1U << 14;

Format format(hopper::ValueFormat storage) {
    if (storage == hopper::ValueFormat::bf16) return Format::bf16;
    return storage == hopper::ValueFormat::e5m2 ? Format::e5m2 : Format::e4m3;
}
const formats::Fields& fields(hopper::ValueFormat storage) { return formats::fields(format(storage)); }
bool is_bf16(hopper::ValueFormat storage) { return storage == hopper::ValueFormat::bf16; }
int element_bytes(hopper::ValueFormat storage) { return is_bf16(storage) ? 2 : 1; }
int products(hopper::ValueFormat storage) { return step / element_bytes(storage); }

const float* fp8_values(hopper::ValueFormat storage) {
    static const auto table = [] {
        std::array<std::array<float, 256>, 2> t{};
        for (u32 code = 0; code < 256; ++code) {
            t[0][code] = formats::decode(formats::e4m3_fields, code);
            t[1][code] = formats::decode(formats::e5m2_fields, code);
        }
        return t;
    }();
    return table[storage == hopper::ValueFormat::e5m2 ? 1 : 0].data();
}

std::vector<float> values_of(const std::vector<u8>& bytes, hopper::ValueFormat storage) {
    std::vector<float> values(bytes.size() / element_bytes(storage));
    const float* const table = fp8_values(storage);
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = is_bf16(storage) ? std::bit_cast<float>(u32{bytes[2 * i]} << 16 | u32{bytes[2 * i + 1]} << 24)
                                     : table[bytes[i]];
    }
    return values;
}

/// The bytes [count, 32] that a descriptor selects. They are in groups of 8 rows of 128 bytes, in which 16-byte chunks
/// are exchanged by address (PTX ISA, "Shared Memory Matrix Layout", 128-byte swizzling).
std::vector<u8> read_rows(const Thread& reader, hopper::MatrixDescriptor descriptor, int count) {
    const u32 start = descriptor * 16;
    const u32 end = start / row_bytes * row_bytes + count * row_bytes;
    if (descriptor >= descriptor_limit || end > static_cast<u32>(machine().options().shared_bytes)) {
        fail(reader, fmt::format("wgmma: {} rows at offset {} are not in shared memory", count, start));
    }
    if (start % hopper::tile_alignment > row_bytes - step) {
        fail(reader, fmt::format("wgmma: rows at offset {} do not begin with a group of 8 rows", start));
    }
    std::vector<u8> bytes(static_cast<std::size_t>(count) * step);
    for (int row = 0; row < count; ++row) {
        for (int chunk = 0; chunk < step; chunk += 16) {
            const u32 at = start + row * row_bytes + chunk;
            const u32 swizzled = at ^ (at >> 7 & 7U) << 4;
            check_visible(reader, "wgmma", swizzled, 16);
            std::copy_n(reader.block->shared + swizzled, 16, &bytes[row * step + chunk]);
        }
    }
    return bytes;
}

/// An operand in the form that the kernels take: panels of rows, k by k. A panel of one row is a row.
struct Decoded {
    std::vector<float> values;
    std::vector<u32> codes;
    // fp8: finite; bf16: also far from the ends of fp32's range.
    bool usual;
};

bool is_usual(const cpu::Extent& extent, hopper::ValueFormat storage) {
    if (!is_bf16(storage)) return extent.largest < 0x7F80'0000;
    constexpr float smallest = 0x1p-50F, beyond = 0x1p51F;
    static_assert(cpu::bf16_range_exponent == 50);
    return extent.largest < std::bit_cast<std::int32_t>(beyond) &&
           extent.smallest >= std::bit_cast<std::int32_t>(smallest);
}

Decoded decode(const std::vector<u8>& bytes, hopper::ValueFormat storage, int panel, int lanes) {
    const std::vector<float> values = values_of(bytes, storage);
    const int length = products(storage), count = static_cast<int>(values.size()) / length;
    const int panels = ceil_div(count, panel);
    Decoded result{.values = std::vector<float>(static_cast<std::size_t>(panels) * panel * length),
                   .codes = std::vector<u32>(static_cast<std::size_t>(panels) * lanes * length),
                   .usual = true};
    for (int row = 0; row < count; ++row) {
        float* const to = &result.values[row / panel * panel * length + row % panel];
        for (int k = 0; k < length; ++k) to[k * panel] = values[row * length + k];
    }
    const cpu::ExactKernels& kernels = cpu::exact_kernels(cpu::best_isa());
    const cpu::CodeArguments arguments{.values = result.values.data(),
                                       .codes = result.codes.data(),
                                       .count = static_cast<std::int64_t>(result.values.size()),
                                       .smallest_exponent = fields(storage).smallest_exponent()};
    const auto row_codes = is_bf16(storage) ? kernels.bf16_row_codes : kernels.fp8_row_codes;
    const auto panel_codes = is_bf16(storage) ? kernels.bf16_panel_codes : kernels.fp8_panel_codes;
    result.usual = is_usual((panel == 1 ? row_codes : panel_codes)(arguments), storage);
    return result;
}

/// The kernels of fp8 take an accumulator that is a sum of products. Such a sum is a multiple of the smallest product's
/// last place.
bool is_sum_of_fp8(float x) {
    if (std::abs(x) >= 0x1p-18F || x == 0 || std::isnan(x)) return true;
    const float units = x * 0x1p41F;
    return units == std::trunc(units);
}

/// Whether the kernels for usual operands take it.
bool is_usual_sum(float x, hopper::ValueFormat storage) {
    if (!is_bf16(storage)) return std::isfinite(x);
    return x == 0 || (std::abs(x) >= 0x1p-100F && std::abs(x) < 0x1p110F);
}

auto step_of(const cpu::ExactKernels& kernels, hopper::ValueFormat storage, bool usual) {
    if (is_bf16(storage)) return usual ? kernels.bf16 : kernels.bf16_general;
    return usual ? kernels.fp8 : kernels.fp8_general;
}

void multiply_scalar(const WgmmaCall& call, const std::vector<u8>& a, const std::vector<u8>& b, float* d) {
    const cpu::TensorCore core{.a = format(call.a), .b = format(call.b)};
    for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < call.n; ++column) {
            float& c = d[row * call.n + column];
            c = core.add_products(&a[row * step], &b[column * step], c);
        }
    }
}

/// Whether each row has a NaN; rows with a NaN become zeros.
std::vector<bool> take_out_nan_rows(std::vector<u8>& bytes, hopper::ValueFormat storage) {
    const std::vector<float> values = values_of(bytes, storage);
    std::vector<bool> has_nan(bytes.size() / step);
    for (std::size_t row = 0; row < has_nan.size(); ++row) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row) * products(storage);
        has_nan[row] = std::any_of(begin, begin + products(storage), [](float value) { return std::isnan(value); });
        if (has_nan[row]) std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(row) * step, step, u8{0});
    }
    return has_nan;
}

void multiply_numbers(const WgmmaCall& call, const std::vector<u8>& a_bytes, const std::vector<u8>& b_bytes, float* d) {
    const std::vector<float> sums(d, d + static_cast<std::size_t>(rows) * call.n);
    const bool bf16 = is_bf16(call.a);
    if (!bf16 && !std::all_of(sums.begin(), sums.end(), is_sum_of_fp8)) {
        return multiply_scalar(call, a_bytes, b_bytes, d);
    }
    const cpu::ExactKernels& kernels = cpu::exact_kernels(cpu::best_isa());
    const int panel = kernels.lanes * (bf16 ? cpu::bf16_codes : cpu::fp8_codes).columns_per_word();
    const Decoded a = decode(a_bytes, call.a, 1, 1);
    const Decoded b = decode(b_bytes, call.b, panel, kernels.lanes);
    const bool usual =
        a.usual && b.usual && std::all_of(sums.begin(), sums.end(), [&](float x) { return is_usual_sum(x, call.a); });
    std::vector<float> c(static_cast<std::size_t>(rows) * panel);
    for (int first = 0; first < call.n; first += panel) {
        const int columns = std::min(panel, call.n - first);
        for (int row = 0; row < rows; ++row) std::copy_n(d + row * call.n + first, columns, &c[row * panel]);
        const std::size_t line = static_cast<std::size_t>(first / panel) * products(call.a);
        step_of(kernels, call.a, usual)({.a = a.values.data(),
                                         .a_codes = a.codes.data(),
                                         .b = &b.values[line * panel],
                                         .b_codes = &b.codes[line * kernels.lanes],
                                         .c = c.data(),
                                         .a_stride = products(call.a),
                                         .rows = rows});
        for (int row = 0; row < rows; ++row) std::copy_n(&c[row * panel], columns, d + row * call.n + first);
    }
}

}  // namespace

/// Rows with NaN are handled separately, because only NaN gives NaN. The kernels take three times as long with special
/// numbers, and most of a small group's tile is poison.
void multiply(const Product& product, float* d) {
    const WgmmaCall& call = product.call;
    std::vector<u8> a = call.a_in_registers ? product.a : read_rows(*product.caller, call.a_rows, rows);
    std::vector<u8> b = read_rows(*product.caller, call.b_rows, call.n);
    const std::vector<bool> nan_rows = take_out_nan_rows(a, call.a), nan_columns = take_out_nan_rows(b, call.b);
    std::vector<int> is_nan;
    for (int i = 0; i < rows * call.n; ++i) {
        if (!std::isnan(d[i]) && !nan_rows[i / call.n] && !nan_columns[i % call.n]) continue;
        is_nan.push_back(i);
        d[i] = 0;
    }
    multiply_numbers(call, a, b, d);
    for (const int i : is_nan) d[i] = std::bit_cast<float>(0x7FFF'FFFFU);
}

}  // namespace tilewright::emulator
