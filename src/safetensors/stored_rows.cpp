// Reading the rows of a stored matrix as an operand, whatever its publisher calls its tensors and however they are
// arranged.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "formats/element.h"
#include "safetensors/fnuz.h"
#include "safetensors/stored_matrix.h"

namespace tilewright::safetensors {
namespace {

constexpr std::int64_t scale_rows = 128;  // of 128x128, which no range of rows divides

/// A rectangle of a tensor whose lines follow one another, in units of bytes that nothing divides.
struct Window {
    std::int64_t line_begin = 0;
    std::int64_t lines = 0;
    std::int64_t column_begin = 0;
    std::int64_t columns = 0;
};

std::vector<std::byte> read_window(const Checkpoint& checkpoint, const Checkpoint::Tensor& tensor, std::int64_t width,
                                   std::int64_t unit, const Window& window) {
    const std::int64_t bytes = window.columns * unit;
    std::vector<std::byte> out(static_cast<std::size_t>(window.lines * bytes));
    const bool whole = window.columns == width;
    const std::int64_t reads = whole ? 1 : window.lines;
    for (std::int64_t i = 0; i < reads; ++i) {
        const std::int64_t from = ((window.line_begin + i) * width + window.column_begin) * unit;
        checkpoint.read(tensor, static_cast<std::uint64_t>(from), out.data() + i * bytes,
                        whole ? out.size() : static_cast<std::size_t>(bytes));
    }
    return out;
}

/// In squares that stay in the cache.
std::vector<std::byte> turned(const std::vector<std::byte>& from, std::int64_t lines, std::int64_t columns) {
    constexpr std::int64_t square = 64;
    std::vector<std::byte> out(from.size());
    const std::byte* const source = from.data();
    std::byte* const target = out.data();
    for (std::int64_t first_line = 0; first_line < lines; first_line += square) {
        const std::int64_t line_end = std::min(lines, first_line + square);
        for (std::int64_t first_column = 0; first_column < columns; first_column += square) {
            const std::int64_t column_end = std::min(columns, first_column + square);
            for (std::int64_t column = first_column; column < column_end; ++column) {
                for (std::int64_t line = first_line; line < line_end; ++line) {
                    target[column * lines + line] = source[line * columns + column];
                }
            }
        }
    }
    return out;
}

/// A range of rows of one group.
struct Rows {
    const Checkpoint& checkpoint;
    const StoredMatrix& matrix;
    std::int64_t group = 0;
    std::int64_t row = 0;
    std::int64_t rows = 0;

    /// [rows, k] in the file's codes.
    std::vector<std::byte> values() const {
        const int element = is_fp4() ? 4 : dtype_bits(matrix.values->stored.dtype).value_or(8);
        const std::int64_t units = is_fp4() ? matrix.k / 2 : matrix.k;  // of k
        const std::int64_t unit = is_fp4() ? 1 : element / 8;
        if (!matrix.transposed) {
            return read_window(checkpoint, *matrix.values, units, unit,
                               {.line_begin = group * matrix.n + row, .lines = rows, .columns = units});
        }
        const Window window{.line_begin = group * units, .lines = units, .column_begin = row, .columns = rows};
        return turned(read_window(checkpoint, *matrix.values, matrix.n, unit, window), units, rows);
    }

    bool is_fp4() const { return matrix.recipe.values == Format::e2m1; }
};

/// The scales of a range of rows: those of its blocks, with the blocks' places.
class RowScales {
public:
    explicit RowScales(const Rows& rows) : rows_(rows), stored_(rows.matrix.stored_scales) {
        const StoredMatrix& matrix = rows.matrix;
        unit_ = dtype_bits(matrix.scales->stored.dtype).value_or(8) / 8;
        const std::int64_t first = line_block(stored_, matrix.transposed, rows.row);
        const std::int64_t last = line_block(stored_, matrix.transposed, rows.row + rows.rows - 1);
        const std::int64_t group = stored_.shared ? 0 : rows.group;
        window_ = {.line_begin = group * stored_.lines, .lines = stored_.lines, .columns = stored_.columns};
        if (matrix.transposed) {
            window_.column_begin = first;
            window_.columns = last - first + 1;
        } else {
            window_.line_begin += first;
            window_.lines = last - first + 1;
        }
        first_ = first;
        bytes_ = read_window(rows.checkpoint, *matrix.scales, stored_.columns, unit_, window_);
    }

    std::int64_t unit() const { return unit_; }

    /// The bytes of the scale of an element, by its row of the whole group and its k.
    const std::byte* at(std::int64_t row, std::int64_t k) const {
        const ScaleBlocks& blocks = stored_.blocks;
        const bool transposed = rows_.matrix.transposed;
        const std::int64_t of_row = line_block(stored_, transposed, row) - first_;
        const std::int64_t k_size = transposed ? blocks.rows : blocks.columns;
        const std::int64_t of_k = k_size == 0 ? 0 : k / k_size;
        const std::int64_t line = transposed ? of_k : of_row;
        const std::int64_t column = transposed ? of_row : of_k;
        return bytes_.data() + (line * window_.columns + column) * unit_;
    }

private:
    static std::int64_t line_block(const StoredScales& stored, bool transposed, std::int64_t row) {
        const std::int64_t size = transposed ? stored.blocks.columns : stored.blocks.rows;
        return size == 0 ? 0 : row / size;
    }

    const Rows& rows_;
    StoredScales stored_;
    Window window_;
    std::int64_t unit_ = 1;
    std::int64_t first_ = 0;  // block of rows that was read
    std::vector<std::byte> bytes_;
};

/// U8 and I8 are powers of two where no recipe of NVFP4 is read.
Format scale_format(const StoredMatrix& matrix) {
    const auto format = format_of(matrix.scales->stored.dtype);
    if (matrix.recipe.scales == Format::ue4m3) return Format::ue4m3;
    return format.value_or(Format::ue8m0);
}

float number_of(const std::byte* bytes, Format format) { return static_cast<float>(formats::load(bytes, format, 0)); }

/// The scales of the recipe's blocks, each of which is in one block of the file.
std::vector<std::byte> recipe_scales(const Rows& rows, const RowScales& from) {
    const OperandRecipe& recipe = rows.matrix.recipe;
    const Format stored = scale_format(rows.matrix);
    const Dims shape = scale_shape(recipe.granularity, {rows.rows, rows.matrix.k});
    const std::int64_t of_rows = row_block(recipe.granularity);
    const std::int64_t of_k = k_block(recipe.granularity);
    const std::int64_t columns = shape.rank() == 2 ? shape[1] : 1;
    const std::int64_t unit = bits(recipe.scales) / 8;
    std::vector<std::byte> out(static_cast<std::size_t>(shape[0] * columns * unit));
    for (std::int64_t line = 0; line < shape[0]; ++line) {
        for (std::int64_t column = 0; column < columns; ++column) {
            const std::byte* const bytes = from.at(rows.row + line * of_rows, column * of_k);
            std::byte* const to = out.data() + (line * columns + column) * unit;
            if (stored == recipe.scales) {
                std::memcpy(to, bytes, static_cast<std::size_t>(unit));
            } else {
                const float number = number_of(bytes, stored);
                std::memcpy(to, &number, sizeof number);
            }
        }
    }
    return out;
}

/// f32 rounds a product of a code and a scale once, and keeps its digits as long as it is no subnormal number.
void refuse_scale(const StoredMatrix& matrix, float scale) {
    constexpr float most = 0x1p100F;
    const float magnitude = std::abs(scale);
    if (magnitude == 0 || !std::isfinite(scale) || (magnitude <= most && magnitude >= 1 / most)) return;
    throw std::runtime_error(fmt::format(
        "{}: a scale of {} with {}: f32 cannot represent these numbers; --exclude keeps the matrix unchanged",
        matrix.name, scale, matrix.format()));
}

/// All numbers of the rows, where no recipe has such blocks.
std::vector<float> numbers_of_rows(const Rows& rows, const std::vector<std::byte>& codes, const RowScales& scales) {
    const StoredMatrix& matrix = rows.matrix;
    const auto sibling = fnuz_sibling(matrix.values->stored.dtype);
    const Format format = sibling ? *sibling : format_of(matrix.values->stored.dtype).value();
    const Format stored = scale_format(matrix);
    std::vector<float> of_code(256);
    for (int code = 0; code < 256; ++code) {
        const auto byte = static_cast<std::uint8_t>(code);
        of_code[byte] = sibling ? fnuz_number(format, byte) : static_cast<float>(formats::load(&byte, format, 0));
    }
    std::vector<float> numbers(codes.size());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(codes.size()); ++i) {
        const float scale = number_of(scales.at(rows.row + i / matrix.k, i % matrix.k), stored);
        refuse_scale(matrix, scale);
        numbers[static_cast<std::size_t>(i)] =
            of_code[static_cast<std::uint8_t>(codes[static_cast<std::size_t>(i)])] * scale;
    }
    return numbers;
}

float read_tensor_scale(const Checkpoint& checkpoint, const StoredMatrix& matrix, std::int64_t group) {
    float scale = 1;
    if (matrix.tensor_scale == nullptr) return scale;
    const std::uint64_t offset = matrix.tensor_scale->stored.bytes() > 4 ? static_cast<std::uint64_t>(group) * 4 : 0;
    checkpoint.read(*matrix.tensor_scale, offset, &scale, sizeof scale);
    return matrix.divides ? 1 / scale : scale;
}

}  // namespace

LoadedRows::LoadedRows(const Checkpoint& checkpoint, const StoredMatrix& given, std::int64_t group, std::int64_t row,
                       std::int64_t rows) {
    const bool stacked = !given.experts.empty();
    const StoredMatrix& matrix = stacked ? given.experts[static_cast<std::size_t>(group)] : given;
    if (matrix.packed || row % scale_rows != 0) throw std::logic_error("LoadedRows: packed, or rows inside a block");
    const Rows range{checkpoint, matrix, stacked ? 0 : group, row, rows};
    const OperandRecipe& recipe = matrix.recipe;
    values_ = range.values();
    if (matrix.scales == nullptr) {
        operand_ = {.values = row_major(values_.data(), recipe.values, {rows, matrix.k})};
        return;
    }
    const RowScales scales(range);
    const auto read_as_numbers = [&](const std::vector<std::byte>& codes) {
        numbers_ = numbers_of_rows(range, codes, scales);
        operand_ = {.values = row_major(numbers_.data(), Format::f32, {rows, matrix.k})};
    };
    if (recipe.granularity == Granularity::none) {
        read_as_numbers(values_);
        return;
    }
    scales_ = recipe_scales(range, scales);
    operand_ = {.values = row_major(values_.data(), recipe.values, {rows, matrix.k}),
                .granularity = recipe.granularity,
                .scales = row_major(scales_.data(), recipe.scales, scale_shape(recipe.granularity, {rows, matrix.k}))};
    if (const auto sibling = fnuz_sibling(matrix.values->stored.dtype)) {
        if (!recode_fnuz(*sibling, operand_)) read_as_numbers(values_);
    }
    if (recipe.granularity != Granularity::block_1x16) return;
    tensor_scale_ = read_tensor_scale(checkpoint, matrix, range.group);
    operand_.tensor_scale = row_major(&tensor_scale_, Format::f32, {1});
}

OwnedOperand load_matrix(const Checkpoint& checkpoint, const StoredMatrix& matrix) {
    if (matrix.packed && matrix.experts.empty()) {
        OwnedPackedWeights packed(static_cast<std::int64_t>(matrix.values->stored.bytes()));
        checkpoint.read(*matrix.values, 0, packed.packed.data, matrix.values->stored.bytes());
        return unpack_weights(packed_weights(packed.packed.data, packed.packed.bytes));
    }
    OwnedOperand all(matrix.shape(), matrix.recipe);
    const Operand& out = all.operand();
    for (std::int64_t group = 0; group < matrix.groups; ++group) {
        const auto copy = [&](const Tensor& from, const Tensor& to) {
            if (!from.given()) return;
            const std::int64_t bytes = row_major_bytes(from.format, from.shape);
            std::memcpy(static_cast<std::byte*>(to.data) + group * bytes, from.data, static_cast<std::size_t>(bytes));
        };
        const auto copy_all = [&](const Operand& from) {
            if (from.granularity != matrix.recipe.granularity) {
                throw std::runtime_error(
                    fmt::format("{}: {} has numbers that {} cannot represent; convert it with --to", matrix.name,
                                matrix.format(), name(matrix.recipe)));
            }
            copy(from.values, out.values);
            copy(from.scales, out.scales);
            copy(from.tensor_scale, out.tensor_scale);
        };
        if (matrix.packed) {
            copy_all(load_matrix(checkpoint, matrix.experts[static_cast<std::size_t>(group)]));
        } else {
            copy_all(LoadedRows(checkpoint, matrix, group, 0, matrix.n).operand());
        }
    }
    return all;
}

}  // namespace tilewright::safetensors
