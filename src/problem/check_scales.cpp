// Scales: there or not, and of the shape that their granularity, the operand and the grouping ask for.
#include "problem/checks.h"

#include <tilewright/quantize.h>

#include <algorithm>
#include <vector>

namespace tilewright::validation {
namespace {

/// A logical operand [rows, k], with the number of groups where it has one scale set for each.
struct Logical {
    std::int64_t groups = 1;
    std::int64_t rows = 0;
    std::int64_t k = 0;
    bool has_groups = false;  // a group dimension of its own
    bool k_grouped = false;
    bool aligned = false;  // k-grouped, groups beginning with a block: scales are where they are without groups

    std::string text() const {
        const std::string matrix = std::to_string(rows) + ", " + std::to_string(k) + "]";
        return has_groups ? "[" + std::to_string(groups) + ", " + matrix : "[" + matrix;
    }
};

struct Side {
    std::string name;
    const Operand& operand;
    Axes axes;
};

/// Nothing while the values' shape is wrong: it is reported, and scales cannot be judged by it.
std::optional<Logical> logical_shape(const Side& side, const Problem& p, const Sizes& sizes) {
    const Tensor& values = side.operand.values;
    if (!has_sound_shape(values) || values.shape.rank() != side.axes.rank()) return std::nullopt;
    Logical logical{.k_grouped = is_k_grouped(p.groups.grouping),
                    .aligned = p.groups.grouping == Grouping::k_grouped_aligned_offsets};
    logical.groups = sizes[Axis::groups].value.value_or(1);
    for (int i = 0; i < side.axes.rank(); ++i) {
        switch (side.axes[i]) {
            case Axis::groups:
                logical.groups = values.shape[i];
                logical.has_groups = true;
                break;
            case Axis::k: logical.k = values.shape[i]; break;
            default: logical.rows = values.shape[i];
        }
    }
    return logical;
}

/// The shapes that fit; of block scales in k-grouped calls more columns may be given.
std::vector<Dims> scale_shapes(const Logical& logical, Granularity granularity) {
    if (granularity == Granularity::tensor) {
        const bool in_front = logical.has_groups || logical.k_grouped;
        if (in_front && logical.groups != 1) return {{1}, {logical.groups}};
        return {{1}};
    }
    const bool has_groups = logical.has_groups;
    const Dims usual = scale_shape(
        granularity, has_groups ? Dims{logical.groups, logical.rows, logical.k} : Dims{logical.rows, logical.k});
    if (granularity == Granularity::row && logical.k_grouped) return {usual, {logical.groups, logical.rows}};
    return {usual};
}

bool fits(const Dims& given, const Logical& logical, Granularity granularity) {
    const std::vector<Dims> shapes = scale_shapes(logical, granularity);
    return std::any_of(shapes.begin(), shapes.end(), [&](const Dims& shape) {
        if (given == shape) return true;
        const bool columns_may_follow = logical.k_grouped && k_block(granularity) != 0;
        return columns_may_follow && given.rank() == 2 && given[0] == shape[0] && given[1] >= shape[1];
    });
}

Dims transposed(Dims shape) {
    if (shape.rank() >= 2) std::swap(shape[shape.rank() - 2], shape[shape.rank() - 1]);
    return shape;
}

Dims without_ones(const Dims& shape) {
    Dims result;
    for (std::int64_t size : shape) {
        if (size != 1) result.push_back(size);
    }
    return result;
}

/// What a caller whose scales have another shape probably meant.
std::string advice(const Dims& given, const Logical& logical, const Operand& operand) {
    if (fits(transposed(given), logical, operand.granularity)) return "pass the transposed view";
    for (const Dims& shape : scale_shapes(logical, operand.granularity)) {
        if (given.rank() != shape.rank() && without_ones(given) == without_ones(shape)) {
            return "pass a view of rank " + std::to_string(shape.rank());
        }
    }
    Logical transpose = logical;
    std::swap(transpose.rows, transpose.k);
    if (fits(given, transpose, operand.granularity)) {
        return "these are scales of the transpose " + transpose.text() + ". Quantize along k, whatever the layout";
    }
    for (Granularity other : {Granularity::tensor, Granularity::row, Granularity::block_1x128,
                              Granularity::block_128x128, Granularity::block_1x32, Granularity::block_1x16}) {
        const bool possible = is_accepted(OperandRecipe{operand.values.format, other, operand.scales.format});
        if (possible && other != operand.granularity && fits(given, logical, other)) {
            return to_string(given) + " is the shape of " + std::string(name(other)) + " scales";
        }
    }
    if (logical.k_grouped && !logical.aligned && k_block(operand.granularity) != 0) {
        return "blocks start again in each group: pass one column per block of each group. More columns are allowed";
    }
    return {};
}

std::string expected(const Side& side, const Logical& logical) {
    const Granularity granularity = side.operand.granularity;
    std::vector<std::string> words;
    for (const Dims& shape : scale_shapes(logical, granularity)) words.push_back(to_string(shape));
    if (logical.k_grouped && k_block(granularity) != 0) words.front() += " or more columns";
    return either(words) + " for " + std::string(name(granularity)) + " scales of " + side.name + " " + logical.text();
}

void add_missing(const std::string& operand, const std::string& expected, Findings& findings) {
    findings.add({.operand = operand, .given = "nothing", .expected = expected, .advice = {}});
}

void add_superfluous(const std::string& operand, const Tensor& tensor, const Operand& side, Findings& findings) {
    const bool scaleless = side.granularity == Granularity::none;
    const std::string purpose = scaleless ? std::string(name(side.values.format)) + " values without scales"
                                          : std::string(name(side.granularity)) + " scales";
    findings.add(
        {.operand = operand, .given = to_string(tensor.shape), .expected = "nothing for " + purpose, .advice = {}});
}

void check_block_scales(const Side& side, const std::optional<Logical>& logical, Findings& findings) {
    const Tensor& scales = side.operand.scales;
    const std::string operand = side.name + ".scales";
    const std::string granularity(name(side.operand.granularity));
    if (!scales.given()) {
        add_missing(operand, logical ? expected(side, *logical) : granularity + " scales", findings);
    } else if (logical && has_sound_shape(scales) && !fits(scales.shape, *logical, side.operand.granularity)) {
        findings.add({.operand = operand,
                      .given = to_string(scales.shape),
                      .expected = expected(side, *logical),
                      .advice = advice(scales.shape, *logical, side.operand)});
    }
}

void check_tensor_scale(const Side& side, const std::optional<Logical>& logical, Findings& findings) {
    const Tensor& scale = side.operand.tensor_scale;
    const std::string operand = side.name + ".tensor_scale";
    if (side.operand.granularity != Granularity::block_1x16) {
        if (scale.given()) add_superfluous(operand, scale, side.operand, findings);
        return;
    }
    std::vector<std::string> words{"[1]"};
    if (logical) {
        words.clear();
        for (const Dims& shape : scale_shapes(*logical, Granularity::tensor)) words.push_back(to_string(shape));
    }
    const std::string expected = either(words) + " for 1x16 scales";
    if (!scale.given()) {
        add_missing(operand, expected, findings);
    } else if (logical && has_sound_shape(scale) && !fits(scale.shape, *logical, Granularity::tensor)) {
        findings.add({.operand = operand, .given = to_string(scale.shape), .expected = expected, .advice = {}});
    }
}

void check_side(const Side& side, const Problem& p, const Sizes& sizes, Findings& findings) {
    const Operand& operand = side.operand;
    if (operand.granularity > Granularity::block_1x16) return;  // unknown, and reported with the formats
    const std::optional<Logical> logical = logical_shape(side, p, sizes);
    if (operand.granularity != Granularity::none) {
        check_block_scales(side, logical, findings);
    } else if (operand.scales.given() && is_accepted(OperandRecipe{operand.values.format, Granularity::none})) {
        add_superfluous(side.name + ".scales", operand.scales, operand, findings);
    }
    check_tensor_scale(side, logical, findings);
}

}  // namespace

void check_scales(const Problem& p, const Sizes& sizes, Findings& findings) {
    check_side({.name = "a", .operand = p.a, .axes = axes_of_a(p)}, p, sizes, findings);
    check_side({.name = "b", .operand = p.b, .axes = axes_of_b(p)}, p, sizes, findings);
}

}  // namespace tilewright::validation
