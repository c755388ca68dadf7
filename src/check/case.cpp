#include "check/case.h"

#include "base/math.h"
#include "check/data.h"
#include "check/sizes.h"
#include "formats/element.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace tilewright::check {
namespace {

bool has_groups(Grouping grouping, Side side) {
    if (side == Side::b) return grouping != Grouping::dense && !is_k_grouped(grouping);
    return grouping == Grouping::batched || grouping == Grouping::m_grouped_masked;
}

bool output_has_groups(Grouping grouping) { return is_k_grouped(grouping) || has_groups(grouping, Side::a); }

/// A view in row-major order with gaps; data is set later.
Tensor strided(Format format, const Dims& shape, const Gaps& gaps) {
    Tensor tensor{.format = format, .shape = shape, .strides = shape};
    const int rank = shape.rank();
    if (rank > 0) tensor.strides[rank - 1] = 1 + gaps.element;
    if (rank > 1) tensor.strides[rank - 2] = shape[rank - 1] * tensor.strides[rank - 1] + gaps.row;
    if (rank > 2) tensor.strides[rank - 3] = shape[rank - 2] * tensor.strides[rank - 2] + gaps.group;
    return tensor;
}

/// The same view with its last two dimensions exchanged.
Tensor transposed(Tensor tensor) {
    const int rank = tensor.shape.rank();
    std::swap(tensor.shape[rank - 1], tensor.shape[rank - 2]);
    std::swap(tensor.strides[rank - 1], tensor.strides[rank - 2]);
    return tensor;
}

Dims with_group(bool grouped, std::int64_t groups, std::int64_t rows, std::int64_t columns) {
    return grouped ? Dims{groups, rows, columns} : Dims{rows, columns};
}

/// Elements from the first to the last.
std::int64_t extent(const Tensor& tensor) {
    std::int64_t last = 0;
    for (int i = 0; i < tensor.shape.rank(); ++i) {
        if (tensor.shape[i] == 0) return 0;
        last += (tensor.shape[i] - 1) * tensor.strides[i];
    }
    return last + 1;
}

std::int64_t extent_bytes(const Tensor& tensor) { return (extent(tensor) * bits(tensor.format) + 7) / 8; }

/// Scale columns along k; in a k-grouped call by ends or flat, blocks restart in each group.
std::int64_t scale_columns(const CaseSpec& spec, const std::vector<std::int64_t>& entries, int block) {
    const bool flat = spec.grouping == Grouping::k_grouped_flat;
    if (!flat && spec.grouping != Grouping::k_grouped) return ceil_div<std::int64_t>(spec.k, block);
    std::int64_t columns = 0;
    std::int64_t begin = 0;
    for (std::int64_t entry : entries) {
        const std::int64_t end =
            flat ? begin + std::clamp<std::int64_t>(entry, 0, spec.k - begin) : std::clamp(entry, begin, spec.k);
        columns += ceil_div<std::int64_t>(end - begin, block);
        begin = end;
    }
    return columns;
}

Tensor scale_tensor(const CaseSpec& spec, const std::vector<std::int64_t>& entries, Side side) {
    const OperandRecipe& recipe = side == Side::a ? spec.recipe.a : spec.recipe.b;
    const Gaps& gaps = side == Side::a ? spec.a_scale_gaps : spec.b_scale_gaps;
    const bool as_columns = side == Side::a ? spec.a_scales_transposed : spec.b_scales_transposed;
    const std::int64_t rows = side == Side::a ? spec.m : spec.n;
    const bool grouped = has_groups(spec.grouping, side);
    const bool optional_groups = is_k_grouped(spec.grouping);
    switch (recipe.granularity) {
        case Granularity::none: return {};
        case Granularity::tensor: {
            const bool each = (grouped || optional_groups) && !spec.shared_scales;
            return strided(recipe.scales, {each ? spec.groups : 1}, gaps);
        }
        case Granularity::row: {
            const bool each = grouped || (optional_groups && !spec.shared_scales);
            return strided(recipe.scales, each ? Dims{spec.groups, rows} : Dims{rows}, gaps);
        }
        default: break;
    }
    const std::int64_t row_blocks = ceil_div<std::int64_t>(rows, row_block(recipe.granularity));
    const std::int64_t columns = scale_columns(spec, entries, k_block(recipe.granularity));
    if (!as_columns) return strided(recipe.scales, with_group(grouped, spec.groups, row_blocks, columns), gaps);
    return transposed(strided(recipe.scales, with_group(grouped, spec.groups, columns, row_blocks), gaps));
}

bool is_transposed(Layout layout, Side side) {
    return side == Side::a ? a_is_transposed(layout) : b_is_transposed(layout);
}

Tensor value_tensor(const CaseSpec& spec, Side side) {
    const std::int64_t rows = side == Side::a ? spec.m : spec.n;
    const bool flip = is_transposed(spec.layout, side);
    const Dims shape =
        with_group(has_groups(spec.grouping, side), spec.groups, flip ? spec.k : rows, flip ? rows : spec.k);
    const Format format = side == Side::a ? spec.recipe.a.values : spec.recipe.b.values;
    const bool flat = spec.grouping == Grouping::k_grouped_flat && !flip;  // without gaps
    return strided(format, shape, flat ? Gaps{} : side == Side::a ? spec.a_gaps : spec.b_gaps);
}

Tensor output_tensor(const CaseSpec& spec, const Gaps& gaps) {
    return strided(spec.output, with_group(output_has_groups(spec.grouping), spec.groups, spec.m, spec.n), gaps);
}

Tensor bias_tensor(const CaseSpec& spec) {
    const bool each = has_groups(spec.grouping, Side::b) && !spec.shared_bias;
    return strided(spec.bias_format, each ? Dims{spec.groups, spec.n} : Dims{spec.n}, spec.bias_gaps);
}

std::string impossible_packing(const CaseSpec& spec, Side side) {
    const Tensor values = value_tensor(spec, side);
    if (values.format != Format::e2m1) return {};
    const Gaps& gaps = side == Side::a ? spec.a_gaps : spec.b_gaps;
    const char* const operand = side == Side::a ? "a" : "b";
    if (gaps.element != 0) return fmt::format("{}: e2m1 has no gaps between elements", operand);
    if (gaps.row % 2 != 0 || gaps.group % 2 != 0) return fmt::format("{}: e2m1 takes even gaps", operand);
    const std::int64_t packed = values.shape[values.shape.rank() - 1];
    if (packed % 2 != 0) return fmt::format("{}: e2m1 packs pairs, {} elements are odd", operand, packed);
    return {};
}

}  // namespace

std::string impossible(const CaseSpec& spec) {
    if (spec.m < 0 || spec.n < 0 || spec.k < 0 || spec.groups < 0) return "sizes are not negative";
    if (spec.in_place && !spec.with_c) return "in_place needs with_c";
    if (spec.with_bias && (spec.with_c || is_k_grouped(spec.grouping)))
        return "a bias takes the place of C of groups of m";
    for (Side side : {Side::a, Side::b}) {
        if (std::string reason = impossible_packing(spec, side); !reason.empty()) return reason;
    }
    try {
        size_entries(spec);
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return {};
}

Case::Case(const CaseSpec& spec) : spec_(spec) {
    if (const std::string reason = impossible(spec); !reason.empty()) throw std::invalid_argument(reason);
    entries_ = size_entries(spec);
    problem_.layout = spec.layout;
    problem_.alpha = spec.alpha;
    problem_.accumulation = spec.accumulation;
    problem_.arithmetic = spec.arithmetic;
    problem_.reproducibility = spec.reproducibility;
    problem_.groups.grouping = spec.grouping;
    problem_.groups.alignment = group_alignment(spec);
    problem_.groups.index_alignment = spec.index_alignment;
    place_sizes();
    place_operand("a", problem_.a, true);
    place_operand("b", problem_.b, false);
    place_output();

    const Geometry g = geometry();
    gemms_ = tilewright::group_gemms(g);
    fill_operand(spec_, g, gemms_, Side::a);
    fill_operand(spec_, g, gemms_, Side::b);
    if (spec_.with_c) fill_c();
    if (spec_.with_bias) fill_bias();
    pristine_.assign(output_.with_guards().begin(), output_.with_guards().end());
    for (Input& input : inputs_) input.hash = hash(input.memory.with_guards());
}

Tensor Case::place(const std::string& name, Tensor tensor) {
    Memory memory(static_cast<std::size_t>(extent_bytes(tensor)), spec_.guard_pages);
    tensor.data = memory.data();
    inputs_.push_back({.name = name, .memory = std::move(memory)});
    return tensor;
}

void Case::place_operand(const std::string& name, Operand& operand, bool is_a) {
    const Side side = is_a ? Side::a : Side::b;
    operand.granularity = (is_a ? spec_.recipe.a : spec_.recipe.b).granularity;
    operand.values = place(name, value_tensor(spec_, side));
    if (operand.granularity == Granularity::none) return;
    operand.scales = place(name + ".scales", scale_tensor(spec_, entries_, side));
    if (operand.granularity != Granularity::block_1x16) return;
    const std::int64_t count = has_groups(spec_.grouping, side) ? spec_.groups : 1;
    operand.tensor_scale = place(name + ".tensor_scale", strided(Format::f32, {count}, {}));
}

void Case::place_sizes() {
    if (spec_.grouping == Grouping::dense || spec_.grouping == Grouping::batched) return;
    const auto count = static_cast<std::int64_t>(entries_.size());
    problem_.groups.sizes = place("groups.sizes", strided(spec_.size_format, {count}, {}));
    void* const data = problem_.groups.sizes.data;
    for (std::int64_t i = 0; i < count; ++i) {
        if (spec_.size_format == Format::i32) {
            static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(entries_[i]);
        } else {
            static_cast<std::int64_t*>(data)[i] = entries_[i];
        }
    }
}

void Case::place_output() {
    Tensor d = output_tensor(spec_, spec_.d_gaps);
    output_ = Memory(static_cast<std::size_t>(extent_bytes(d)), spec_.guard_pages);
    d.data = output_.data();
    problem_.d = d;
    if (spec_.in_place) problem_.c = d;
    if (spec_.with_c && !spec_.in_place) problem_.c = place("c", output_tensor(spec_, spec_.c_gaps));
    if (spec_.with_bias) problem_.bias = place("bias", bias_tensor(spec_));
}

void Case::fill_c() {
    const Geometry g = geometry();
    for (const GroupGemm& gemm : gemms_) {
        for (std::int64_t row = gemm.row_begin; row < gemm.row_begin + gemm.rows; ++row) {
            for (std::int64_t column = 0; column < g.n; ++column) {
                formats::store(g.c.data, g.output, output_index(g.c, gemm.group, row, column),
                               c_value(spec_, gemm.group, row, column));
            }
        }
    }
}

/// Nothing reads the bias of a group without rows, which keeps its poison.
void Case::fill_bias() {
    const Geometry g = geometry();
    for (const GroupGemm& gemm : gemms_) {
        for (std::int64_t column = 0; column < g.n; ++column) {
            formats::store(g.c.data, g.addend(), output_index(g.c, gemm.group, 0, column),
                           c_value(spec_, spec_.shared_bias ? 0 : gemm.group, 0, column));
        }
    }
}

Geometry Case::judged_geometry() const {
    Geometry g = geometry();
    if (spec_.in_place)
        g.c.data = const_cast<std::byte*>(pristine_.data()) + (output_.data() - output_.with_guards().data());
    return g;
}

void Case::reset_output() { std::memcpy(output_.with_guards().data(), pristine_.data(), pristine_.size()); }

std::vector<std::byte> Case::output() const { return {output_.bytes().begin(), output_.bytes().end()}; }

void Case::set_output(const std::vector<std::byte>& bytes) {
    if (bytes.size() != output_.size()) throw std::invalid_argument("set_output: as many bytes as output() expected");
    std::memcpy(output_.data(), bytes.data(), bytes.size());
}

double Case::output_at(std::int64_t group, std::int64_t row, std::int64_t column) const {
    const Geometry g = geometry();
    return formats::load(g.d.data, g.output, output_index(g.d, group, row, column));
}

std::uint32_t Case::output_bits(std::int64_t group, std::int64_t row, std::int64_t column) const {
    const Geometry g = geometry();
    const auto bytes = static_cast<std::size_t>(bits(g.output) / 8);
    std::uint32_t code = 0;
    std::memcpy(&code, output_.data() + static_cast<std::size_t>(output_index(g.d, group, row, column)) * bytes, bytes);
    return code;
}

}  // namespace tilewright::check
