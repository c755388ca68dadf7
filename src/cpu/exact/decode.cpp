#include "cpu/exact/decode.h"

#include "base/math.h"
#include "cpu/exact/folded.h"
#include "formats/element.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>

namespace tilewright::cpu {
namespace {

using Table = std::array<float, 256>;

template <formats::Fields f>
constexpr Table table_of() {
    Table table{};
    for (std::uint32_t code = 0; code < table.size(); ++code) table[code] = formats::decode(f, code);
    return table;
}
constexpr Table e4m3_table = table_of<formats::e4m3_fields>();
constexpr Table e5m2_table = table_of<formats::e5m2_fields>();
constexpr Table e2m1_table = table_of<formats::e2m1_fields>();

const Table& table(Format format) {
    if (format == Format::e5m2) return e5m2_table;
    return format == Format::e2m1 ? e2m1_table : e4m3_table;
}

struct ReadByte {
    const std::uint8_t* data;
    const Table& values;
    float operator()(std::int64_t index) const { return values[data[index]]; }
};
struct ReadNibble {
    const std::uint8_t* data;
    const Table& values;
    float operator()(std::int64_t index) const { return values[data[index >> 1] >> ((index & 1) * 4) & 15]; }
};
struct ReadBf16 {
    const std::byte* data;
    float operator()(std::int64_t index) const {
        std::uint16_t code = 0;
        std::memcpy(&code, data + index * 2, 2);
        return std::bit_cast<float>(std::uint32_t{code} << 16);
    }
};

/// Reads along the dimension of the smaller stride.
template <class Read>
void copy(const OperandRange& range, const TileLayout& layout, Read read, float* out) {
    const std::int64_t row_stride = range.origin.row_stride, k_stride = range.operand.value_strides.k;
    const std::int64_t begin = value_index(range.operand, range.origin, range.row_begin, range.k);
    if (k_stride == 1) {
        // In short runs of k, so that the cache lines that one row writes are still in the cache for the next row.
        constexpr std::int64_t run = 16;
        for (std::int64_t k_begin = 0; k_begin < range.k_count; k_begin += run) {
            const std::int64_t k_end = std::min(k_begin + run, range.k_count);
            for (std::int64_t row = 0; row < range.rows; ++row) {
                float* to = out + tile_index(layout, row);
                const std::int64_t from = begin + row * row_stride;
                for (std::int64_t k = k_begin; k < k_end; ++k) to[k * layout.panel] = read(from + k);
            }
        }
        return;
    }
    for (std::int64_t row = 0; row < range.rows; row += layout.panel) {
        const std::int64_t count = std::min<std::int64_t>(layout.panel, range.rows - row);
        for (std::int64_t k = 0; k < range.k_count; ++k) {
            float* to = out + tile_index(layout, row) + k * layout.panel;
            const std::int64_t from = begin + row * row_stride + k * k_stride;
            for (std::int64_t i = 0; i < count; ++i) to[i] = read(from + i * row_stride);
        }
    }
}

void copy_values(const OperandRange& range, const TileLayout& layout, float* out) {
    const Format format = range.operand.recipe.values;
    const void* data = range.operand.values;
    if (format == Format::bf16) {
        copy(range, layout, ReadBf16{static_cast<const std::byte*>(data)}, out);
    } else if (format == Format::e2m1) {
        copy(range, layout, ReadNibble{static_cast<const std::uint8_t*>(data), table(format)}, out);
    } else {
        copy(range, layout, ReadByte{static_cast<const std::uint8_t*>(data), table(format)}, out);
    }
}

/// NVFP4: value times block scale, relative to 2^8, exact in bf16.
void apply_block_scales(const OperandRange& range, const TileLayout& layout, float* out) {
    const OperandGeometry& operand = range.operand;
    const int block = operand.k_block();
    for (std::int64_t row = 0; row < range.rows; ++row) {
        for (std::int64_t k = 0; k < range.k_count; k += block) {
            const std::int64_t column = range.origin.block + (range.k + k) / block;
            const auto scale =
                static_cast<float>(formats::load(operand.scales, operand.recipe.scales,
                                                 scale_index(operand, range.group, range.row_begin + row, column)));
            const float factor = scale * formats::nvfp4_value_factor();
            float* values = out + tile_index(layout, row) + k * layout.panel;
            const std::int64_t count = std::min<std::int64_t>(block, range.k_count - k);
            for (std::int64_t i = 0; i < count; ++i) values[i * layout.panel] *= factor;
        }
    }
}

/// Whether the operand has NaN or infinities, or, in bf16, values that lead out of fp32's range.
bool needs_general_kernel(const Extent& extent, StepKind step) {
    constexpr auto infinity = std::bit_cast<std::int32_t>(std::numeric_limits<float>::infinity());
    constexpr auto above = std::bit_cast<std::int32_t>(formats::power_of_two(bf16_range_exponent + 1));
    constexpr auto least = std::bit_cast<std::int32_t>(formats::power_of_two(-bf16_range_exponent));
    if (step == StepKind::fp8) return extent.largest >= infinity;
    return extent.largest >= above || extent.smallest < least;
}

Extent write_codes(const TileLayout& layout, const CodeArguments& arguments) {
    const ExactKernels& kernels = *layout.kernels;
    const bool rows = layout.panel == 1;
    if (layout.step == StepKind::bf16) return (rows ? kernels.bf16_row_codes : kernels.bf16_panel_codes)(arguments);
    return (rows ? kernels.fp8_row_codes : kernels.fp8_panel_codes)(arguments);
}

}  // namespace

TileLayout rows_layout(StepKind step, const ExactKernels& kernels) {
    return {.step = step, .kernels = &kernels, .lanes = 1, .panel = 1};
}

TileLayout panels_layout(StepKind step, const ExactKernels& kernels) {
    const ExponentCode& codes = step == StepKind::fp8 ? fp8_codes : bf16_codes;
    return {
        .step = step, .kernels = &kernels, .lanes = kernels.lanes, .panel = kernels.lanes * codes.columns_per_word()};
}

void DecodedTile::resize(const TileLayout& layout, std::int64_t rows) {
    values.resize(static_cast<std::size_t>(rows * tile_k));
    codes.resize(values.size() / static_cast<std::size_t>(layout.panel) * static_cast<std::size_t>(layout.lanes));
}

void decode_tile(const OperandRange& range, const TileLayout& layout, const FoldPass* fold, DecodedTile& tile) {
    const std::int64_t panels = ceil_div<std::int64_t>(range.rows, layout.panel);
    tile.resize(layout, panels * layout.panel);
    if (range.k_count < tile_k || range.rows % layout.panel != 0) std::ranges::fill(tile.values, 0.0F);
    copy_values(range, layout, tile.values.data());
    if (range.operand.recipe.granularity == Granularity::block_1x16) {
        apply_block_scales(range, layout, tile.values.data());
    }
    if (fold != nullptr) {
        tile.tops.resize(static_cast<std::size_t>(range.rows));
        tile.windows = fold_values(range, layout, *fold, tile.values.data(), tile.tops.data());
    }

    // In the fp8 tensor core, fp8 subnormals count with their format's smallest exponent. In bf16 they are normal.
    const Format multiplied = multiplied_format(range.operand.recipe.values, layout.step);
    const Extent extent = write_codes(layout, {.values = tile.values.data(),
                                               .codes = tile.codes.data(),
                                               .count = std::ssize(tile.values),
                                               .smallest_exponent = formats::fields(multiplied).smallest_exponent()});
    tile.general = needs_general_kernel(extent, layout.step);
}

void load_scales(const OperandRange& range, float* out) {
    const OperandGeometry& operand = range.operand;
    const int block = operand.k_block();
    const std::int64_t column = block == 0 ? 0 : range.origin.block + range.k / block;
    for (std::int64_t row = 0; row < range.rows; ++row) {
        const std::int64_t index = scale_index(operand, range.group, range.row_begin + row, column);
        out[row] = static_cast<float>(formats::load(operand.scales, operand.recipe.scales, index));
    }
}

}  // namespace tilewright::cpu
