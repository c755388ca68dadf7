// Planted bugs of the recipes that training uses: squares, mixed and folded scales, MXFP4, and groups of k.
#include "check/planting.h"
#include "formats/element.h"
#include "problem/canonical_order.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace tilewright::check {
namespace {

std::int64_t blocks(const Case& test_case) { return test_case.problem().a.scales.shape[1]; }

void scales_of_the_first_block(Case& test_case) {
    for (std::int64_t block = 0; block < blocks(test_case); ++block) {
        *a_scale(test_case, 1, block) = *a_scale(test_case, 0, block);
    }
}

void next_scale_in_one_block(Case& test_case) { *a_scale(test_case, 1, 3) = *a_scale(test_case, 1, 4); }

/// [k blocks, row blocks] in memory, read as [row blocks, k blocks].
void transposed_scales(Case& test_case) {
    const std::int64_t count = blocks(test_case);
    const std::vector<float> scales(a_scale(test_case, 0, 0), a_scale(test_case, 0, 0) + 2 * count);
    for (std::int64_t i = 0; i < 2 * count; ++i)
        *a_scale(test_case, i % 2, i / 2) = scales[static_cast<std::size_t>(i)];
}

/// The order of another plan.
Bytes with_a_cut(const CaseSpec& spec, Source) {
    Case test_case(spec);
    const std::array<std::int64_t, 1> cut{512};
    store_oracle(test_case, {.k_splits = cut});
    return test_case.output();
}

Bytes with_scales_in_turn(const CaseSpec& spec, Source) {
    Case test_case(spec);
    store_oracle(test_case, {.scales_in_turn = true});
    return test_case.output();
}

void next_scale_of_one_column(Case& test_case) {
    auto* const scales = static_cast<float*>(test_case.problem().b.scales.data);
    scales[5] = scales[6];
}

void double_one_scale_of_mxfp4(Case& test_case) {
    const Tensor& scales = test_case.problem().b.scales;
    ++static_cast<std::uint8_t*>(scales.data)[5 * scales.strides[0] + 7];
}

/// As recipes whose scales all vary along k have it.
Bytes with_both_scales_in_each_chain(const CaseSpec& spec, Source) {
    Case test_case(spec);
    CanonicalOrder order = canonical_order(spec.recipe, spec.accumulation).value();
    order.a = order.b = ScaleUse::chains;
    store_oracle(test_case, {.order = order});
    return test_case.output();
}

/// As recipes whose scales do not vary along k have it.
Bytes with_both_scales_at_the_end(const CaseSpec& spec, Source) {
    Case test_case(spec);
    CanonicalOrder order = canonical_order(spec.recipe, spec.accumulation).value();
    order.a = order.b = ScaleUse::end;
    store_oracle(test_case, {.order = order});
    return test_case.output();
}

void no_scale_of_a(Case& test_case) { *static_cast<float*>(test_case.problem().a.scales.data) = 1; }
void no_scale_of_b(Case& test_case) { *static_cast<float*>(test_case.problem().b.scales.data) = 1; }

void next_scale_of_one_row(Case& test_case) {
    auto* const scales = static_cast<float*>(test_case.problem().a.scales.data);
    scales[17] = scales[18];
}

// ---- groups of k: D of group 1 is wrong ----

constexpr std::int64_t groups = 3;
constexpr std::int64_t some_k = 8;

/// Where the groups of k end, int32 as cases have them.
std::int32_t* ends(Case& test_case) { return static_cast<std::int32_t*>(test_case.problem().groups.sizes.data); }

Mutation of_one_group(std::string name, Edit edit) { return of_part(std::move(name), groups, 1, 2, std::move(edit)); }

/// As if k were one: a chain ends at each multiple of 128 of it, with what the group before has there left out.
void chains_of_all_k(Case& test_case) {
    const std::int64_t begin = ends(test_case)[0], chain = begin / 128 * 128;
    for (std::int64_t row = 0; row < test_case.spec().m; ++row) zero_a(test_case, row, chain, begin - chain);
    ends(test_case)[0] = static_cast<std::int32_t>(chain);
}

void sum_with_the_group_before(Case& test_case) {
    const Geometry g = test_case.geometry();
    for (std::int64_t row = 0; row < g.m; ++row) {
        for (std::int64_t column = 0; column < g.n; ++column) {
            const std::int64_t here = output_index(g.d, 1, row, column), before = output_index(g.d, 0, row, column);
            formats::store(g.d.data, g.output, here,
                           formats::load(g.d.data, g.output, here) + formats::load(g.d.data, g.output, before));
        }
    }
}

/// The next group's, or what a gap holds.
void read_beyond_the_end(Case& test_case) { ends(test_case)[1] += some_k; }

/// A gap of NaN would show anywhere.
void read_a_gap_of_numbers(Case& test_case) {
    constexpr int code_of_128 = 0x70;
    for (const Operand* operand : {&test_case.problem().a, &test_case.problem().b}) {
        const Tensor& values = operand->values;
        for (std::int64_t row = 0; row < values.shape[0]; ++row) {
            std::memset(static_cast<std::byte*>(values.data) + row * values.strides[0] + ends(test_case)[1],
                        code_of_128, some_k);
        }
    }
    read_beyond_the_end(test_case);
}

}  // namespace

const std::vector<TrainingMutation>& training_mutations() {
    constexpr const char* squares = "128x128:128x128";
    constexpr const char* mixed = "1x128:row";
    constexpr const char* folded = "128x128:e4m3";
    constexpr const char* fp4 = "1x128:mxfp4";
    constexpr const char* one_scale = "1x128:tensor";
    constexpr const char* folded_rows = "row:e4m3";
    constexpr const char* folded_tensor = "tensor:e4m3";
    constexpr const char* by_rows = "row:row";
    constexpr const char* by_blocks = "1x128:1x128";
    constexpr Grouping by_ends = Grouping::k_grouped, aligned = Grouping::k_grouped_aligned_offsets;
    static const std::vector<TrainingMutation> list{
        {squares, Seen::by_all,
         of_part("a row takes the scales of the block above", 256, 128, 129, scales_of_the_first_block)},
        {squares, Seen::by_all, of_input("one block of a takes the next block's scale", next_scale_in_one_block)},
        {squares, Seen::by_all, of_input("scales of a transposed", transposed_scales)},
        {squares, Seen::by_all, of_input("b scale doubled in one k block", double_b_scale_in_one_block)},
        {squares, Seen::by_bits, {"k cut in two", with_a_cut}},
        {squares, Seen::by_bits, {"scales applied in turn", with_scales_in_turn}},
        {mixed, Seen::by_all, of_input("one row uses the next block's scale once", next_scale_in_one_row)},
        {mixed, Seen::by_all, of_input("one column takes the next column's scale", next_scale_of_one_column)},
        {mixed, Seen::by_all, {"both scales at the end", with_both_scales_at_the_end}},
        {mixed, Seen::by_bits, {"both scales in each chain", with_both_scales_in_each_chain}},
        {mixed, Seen::by_bits, {"k cut in two", with_a_cut}},
        {folded, Seen::by_all,
         of_part("a row takes the scales of the block above", 256, 128, 129, scales_of_the_first_block)},
        {folded, Seen::by_all, of_input("one block of a takes the next block's scale", next_scale_in_one_block)},
        {folded, Seen::by_all, of_input("scales of a transposed", transposed_scales)},
        {folded, Seen::by_all, {"scales of a at the end", with_both_scales_at_the_end}},
        {folded, Seen::by_bits, {"k cut in two", with_a_cut}},
        {fp4, Seen::by_all, of_input("one block of b has its scale doubled", double_one_scale_of_mxfp4)},
        {fp4, Seen::by_bits, {"k cut in two", with_a_cut}},
        {one_scale, Seen::by_all, of_input("one row uses the next block's scale once", next_scale_in_one_row)},
        {one_scale, Seen::by_all, of_input("the scale of b left out", no_scale_of_b)},
        {one_scale, Seen::by_all, {"both scales at the end", with_both_scales_at_the_end}},
        {one_scale, Seen::by_bits, {"both scales in each chain", with_both_scales_in_each_chain}},
        {folded_rows, Seen::by_all, of_input("one row takes the next row's scale", next_scale_of_one_row)},
        {folded_rows, Seen::by_bits, {"the scale of a in each chain", with_both_scales_in_each_chain}},
        {folded_tensor, Seen::by_all, of_input("the scale of a left out", no_scale_of_a)},
        {folded_tensor, Seen::by_bits, {"the scale of a in each chain", with_both_scales_in_each_chain}},
        {by_rows, Seen::by_bits_at_least, of_one_group("chains begin with k, not with their group", chains_of_all_k),
         by_ends},
        {by_blocks, Seen::by_all, of_one_group("chains begin with k, not with their group", chains_of_all_k), by_ends},
        {by_rows, Seen::by_all, of_output("a group's sum goes on with the one before", sum_with_the_group_before),
         by_ends},
        {by_rows, Seen::by_all, of_one_group("k of the next group is read", read_beyond_the_end), by_ends},
        {by_blocks, Seen::by_all, of_one_group("k of the next group is read", read_beyond_the_end), by_ends},
        {by_blocks, Seen::by_all, of_one_group("a gap is read", read_a_gap_of_numbers), aligned}};
    return list;
}

}  // namespace tilewright::check
