#include "check/moe_rows.h"

#include <algorithm>

#include "base/math.h"
#include "formats/element.h"

namespace tilewright::check {
namespace {

bool has_routing(const Moe& layer) { return layer.routing.experts.given(); }

float weight_at(const Tensor& weights, std::int64_t i, std::int64_t j) {
    const std::int64_t at = i * weights.strides[0] + (weights.shape.rank() > 1 ? j * weights.strides[1] : 0);
    return static_cast<float>(formats::load(weights.data, weights.format, at));
}

std::int64_t integer_at(const Tensor& numbers, std::int64_t index) {
    return formats::load_integer(numbers.data, numbers.format, index);
}

/// The local expert that a number names; -1: none.
std::int64_t expert_of(const Routing& routing, std::int64_t experts, std::int64_t number) {
    if (routing.map.given()) {
        if (number < 0 || number >= routing.map.shape[0]) return -1;
        number = integer_at(routing.map, number * routing.map.strides[0]);
    }
    return number >= 0 && number < experts ? number : -1;
}

std::vector<MoeRow> rows_of_tokens(const Moe& layer, const MoeShape& shape) {
    const Routing& routing = layer.routing;
    const std::int64_t chosen = routing.experts.shape[1];
    std::vector<std::vector<MoeRow>> of_expert(static_cast<std::size_t>(shape.experts));
    for (std::int64_t token = 0; token < shape.sources; ++token) {
        for (std::int64_t choice = 0; choice < shape.choices; ++choice) {
            MoeRow row{.source = token, .choice = choice};
            if (choice < chosen) {
                const std::int64_t at = token * routing.experts.strides[0] + choice * routing.experts.strides[1];
                row.expert = expert_of(routing, shape.experts, integer_at(routing.experts, at));
                if (routing.weights.given()) row.weight = weight_at(routing.weights, token, choice);
            } else {
                row.expert = shape.experts - routing.shared + choice - chosen;
            }
            if (row.expert >= 0) of_expert[static_cast<std::size_t>(row.expert)].push_back(row);
        }
    }
    std::vector<MoeRow> rows;
    for (const std::vector<MoeRow>& some : of_expert) rows.insert(rows.end(), some.begin(), some.end());
    rows.resize(static_cast<std::size_t>(shape.sources * shape.choices));
    return rows;
}

/// [begin, end) of each group among `rows` rows.
std::vector<std::pair<std::int64_t, std::int64_t>> ranges_of(const Groups& groups, std::int64_t rows,
                                                             std::int64_t room) {
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    const bool masked = groups.grouping == Grouping::m_grouped_masked;
    const std::int64_t step = groups.grouping == Grouping::m_grouped_aligned_offsets ? groups.alignment : 1;
    std::int64_t end = 0;
    for (std::int64_t group = 0; group < groups.sizes.shape[0]; ++group) {
        const std::int64_t size = integer_at(groups.sizes, group * groups.sizes.strides[0]);
        const std::int64_t begin = masked ? group * room : std::min(round_up(end, step), rows);
        end = masked ? begin + std::clamp<std::int64_t>(size, 0, room) : std::min(std::max(size, begin), rows);
        ranges.emplace_back(begin, end);
    }
    return ranges;
}

std::vector<MoeRow> given_rows(const Moe& layer, const MoeShape& shape) {
    std::vector<MoeRow> rows(static_cast<std::size_t>(shape.sources));
    const bool masked = shape.rows.rank() == 2;
    const std::int64_t room = masked ? std::max<std::int64_t>(shape.rows[1], 1) : 1;
    std::int64_t expert = 0;
    for (const auto& [begin, end] : ranges_of(layer.groups, shape.sources, masked ? shape.rows[1] : 0)) {
        for (std::int64_t i = begin; i < end; ++i) {
            MoeRow& row = rows[static_cast<std::size_t>(i)];
            row = {.expert = expert, .source = i};
            if (!layer.row_weights.given()) continue;
            row.weight = masked ? weight_at(layer.row_weights, i / room, i % room) : weight_at(layer.row_weights, i, 0);
        }
        ++expert;
    }
    return rows;
}

}  // namespace

MoeShape moe_shape(const Moe& layer) {
    const Tensor& x = layer.quantized.values.given() ? layer.quantized.values : layer.x;
    const Dims up = layer.up.packed.given() ? layer.up.packed.shape() : layer.up.values.shape;
    MoeShape shape{.experts = up[0],
                   .hidden = up[2],
                   .inner = layer.unit.kind == GatedUnit::Kind::relu_squared ? up[1] : up[1] / 2,
                   .up_rows = up[1]};
    if (x.shape.rank() == 3) {
        shape.sources = x.shape[0] * x.shape[1];
        shape.rows = {x.shape[0], x.shape[1]};
        return shape;
    }
    shape.sources = x.shape[0];
    if (has_routing(layer)) shape.choices = layer.routing.experts.shape[1] + layer.routing.shared;
    shape.rows = {shape.sources * shape.choices};
    return shape;
}

std::vector<MoeRow> moe_rows(const Moe& layer) {
    const MoeShape shape = moe_shape(layer);
    return has_routing(layer) ? rows_of_tokens(layer, shape) : given_rows(layer, shape);
}

std::vector<float> numbers_of(const Tensor& matrix) {
    const int rank = matrix.shape.rank();
    std::vector<float> numbers;
    for (std::int64_t group = 0; group < (rank == 3 ? matrix.shape[0] : 1); ++group) {
        for (std::int64_t row = 0; row < matrix.shape[rank - 2]; ++row) {
            const std::int64_t at = (rank == 3 ? group * matrix.strides[0] : 0) + row * matrix.strides[rank - 2];
            for (std::int64_t i = 0; i < matrix.shape[rank - 1]; ++i) {
                const double number = formats::load(matrix.data, matrix.format, at + i * matrix.strides[rank - 1]);
                numbers.push_back(static_cast<float>(number));
            }
        }
    }
    return numbers;
}

}  // namespace tilewright::check
