#include "safetensors/inspect.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

#include "formats/row_exponents.h"

namespace tilewright::safetensors {
namespace {

using formats::RowExponents;

constexpr std::int64_t block_k = 32;
constexpr std::int64_t rows_at_a_time = 1024;

/// The names of a message as patterns.
std::string words_pattern(const std::string& message) {
    std::string pattern;
    std::istringstream words(message);
    for (std::string word; words >> word;) pattern += " " + name_pattern(word);
    return pattern;
}

bool has_nonzero(const std::uint8_t* codes, std::int64_t bytes) {
    return std::any_of(codes, codes + bytes, [](std::uint8_t pair) { return (pair & 0x77) != 0; });
}

/// One row of MXFP4: codes two to a byte, scales.
void add_row(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t k, ExponentStatistics& statistics) {
    RowExponents row;
    RowExponents block;
    for (std::int64_t begin = 0; begin < k; begin += block_k) {
        if (begin % 128 == 0) block = {};
        const std::int64_t bytes = std::min(block_k, k - begin) / 2;
        const bool nonzero = has_nonzero(codes + begin / 2, bytes);
        row.include(scales[begin / block_k], nonzero);
        block.include(scales[begin / block_k], nonzero);
        statistics.block_difference = std::max(statistics.block_difference, block.difference());
    }
    ++statistics.rows;
    statistics.row_difference = std::max(statistics.row_difference, row.difference());
    statistics.wide_for_fp8 += row.wide(formats::fp8_exponent_range) ? 1 : 0;
    statistics.wide_for_bf16 += row.wide(formats::bf16_exponent_range) ? 1 : 0;
    statistics.nan += row.nan ? 1 : 0;
}

void add_rows(const Operand& operand, ExponentStatistics& statistics) {
    const Dims& shape = operand.values.shape;
    const std::int64_t k = shape[shape.rank() - 1];
    const std::int64_t columns = operand.scales.shape[operand.scales.shape.rank() - 1];
    std::int64_t rows = 1;
    for (int i = 0; i + 1 < shape.rank(); ++i) rows *= shape[i];
    for (std::int64_t row = 0; row < rows; ++row) {
        add_row(static_cast<const std::uint8_t*>(operand.values.data) + row * k / 2,
                static_cast<const std::uint8_t*>(operand.scales.data) + row * columns, k, statistics);
    }
}

}  // namespace

void ExponentStatistics::add(const ExponentStatistics& other) {
    rows += other.rows;
    wide_for_fp8 += other.wide_for_fp8;
    wide_for_bf16 += other.wide_for_bf16;
    nan += other.nan;
    row_difference = std::max(row_difference, other.row_difference);
    block_difference = std::max(block_difference, other.block_difference);
}

InspectedMatrix inspect_matrix(const Checkpoint& checkpoint, const StoredMatrix& matrix) {
    InspectedMatrix inspected{.matrix = matrix};
    const bool is_mxfp4 = matrix.recipe.values == Format::e2m1 && matrix.recipe.granularity == Granularity::block_1x32;
    inspected.has_exponents = is_mxfp4 && matrix.k % 2 == 0;
    if (!inspected.has_exponents) return inspected;
    if (matrix.packed) {
        add_rows(load_matrix(checkpoint, matrix), inspected.exponents);
        return inspected;
    }
    for (std::int64_t group = 0; group < matrix.groups; ++group) {
        for (std::int64_t row = 0; row < matrix.n; row += rows_at_a_time) {
            const std::int64_t rows = std::min(rows_at_a_time, matrix.n - row);
            add_rows(LoadedRows(checkpoint, matrix, group, row, rows).operand(), inspected.exponents);
        }
    }
    return inspected;
}

std::string name_pattern(const std::string& name) {
    std::string pattern;
    for (std::size_t i = 0; i < name.size(); ++i) {
        const bool digit = std::isdigit(static_cast<unsigned char>(name[i])) != 0;
        const bool begins = i == 0 || name[i - 1] == '.';
        std::size_t end = i;
        while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
        const bool whole = digit && begins && (end == name.size() || name[end] == '.');
        pattern += whole ? '*' : name[i];
        if (whole) i = end - 1;
    }
    return pattern;
}

std::string tensor_words(const StoredMatrix& matrix) {
    if (matrix.scheme == "unquantised") return "";
    const std::size_t module = matrix.name.rfind('.') + 1;  // 0 where there is none
    std::string words;
    for (const Checkpoint::Tensor* tensor : matrix.tensors()) {
        words += (words.empty() ? "" : ", ") + tensor->stored.name.substr(module);
    }
    std::string others;
    for (const Checkpoint::Tensor* tensor : matrix.companions) {
        others += (others.empty() ? " (" : ", ") + tensor->stored.name.substr(module);
    }
    return others.empty() ? words : words + others + ")";
}

std::vector<InspectedClass> inspected_classes(const std::vector<InspectedMatrix>& matrices) {
    using Key = std::tuple<std::string, std::string, std::string, std::string>;
    std::map<Key, InspectedClass> classes;
    for (const InspectedMatrix& inspected : matrices) {
        const StoredMatrix& matrix = inspected.matrix;
        const Key key{name_pattern(matrix.name), matrix.scheme, matrix.format() + tensor_words(matrix),
                      to_string(matrix.shape())};
        InspectedClass& one = classes[key];
        if (one.count == 0) one.first = inspected;
        one.pattern = std::get<0>(key);
        ++one.count;
        one.bytes += matrix.bytes();
        one.exponents.add(inspected.exponents);
    }
    std::vector<InspectedClass> list;
    list.reserve(classes.size());
    for (auto& [key, one] : classes) list.push_back(std::move(one));
    return list;
}

std::vector<std::string> unreadable_lines(const StoredMatrices& found, bool each) {
    std::map<std::string, std::pair<std::string, int>> kinds;
    for (const UnreadableMatrix& matrix : found.unreadable) {
        std::string message = matrix.finding.message();
        auto& [first, count] = kinds[each ? message : name_pattern(matrix.name) + words_pattern(message)];
        if (count++ == 0) first = std::move(message);
    }
    std::vector<std::string> lines;
    for (const auto& [kind, line] : kinds) {
        const auto& [first, count] = line;
        lines.push_back(count == 1 ? first : first + " (and " + std::to_string(count - 1) + " more)");
    }
    return lines;
}

}  // namespace tilewright::safetensors
