#include "check/mutations.h"

#include "check/planting.h"
#include "cpu/exact/exact.h"
#include "formats/codec.h"
#include "formats/element.h"

#include <algorithm>
#include <cstring>

namespace tilewright::check {

void store_oracle(Case& test_case, const OracleOptions& options) {
    const Geometry g = test_case.judged_geometry();
    for (const Region& region : regions(g, {.multiply_adds = std::int64_t{1} << 40})) {
        const Expected values = expected(g, region, options);
        for (std::int64_t i = 0; i < region.rows; ++i) {
            for (std::int64_t j = 0; j < region.columns; ++j) {
                const auto at = static_cast<std::size_t>(i * region.columns + j);
                formats::store(
                    g.d.data, g.output,
                    output_index(g.d, region.gemm.group, region.gemm.row_begin + region.row + i, region.column + j),
                    options.emulate ? values.value[at] : values.exact[at]);
            }
        }
    }
}

void run(Case& test_case, Source source) {
    if (source == Source::bit_exact) {
        cpu::run_exact(test_case.geometry());
    } else {
        store_oracle(test_case, {.emulate = false});
    }
}

Mutation of_input(std::string name, Edit edit) {
    return {std::move(name), [edit = std::move(edit)](const CaseSpec& spec, Source source) {
                Case test_case(spec);
                edit(test_case);
                run(test_case, source);
                return test_case.output();
            }};
}

Mutation of_output(std::string name, Edit edit) {
    return {std::move(name), [edit = std::move(edit)](const CaseSpec& spec, Source source) {
                Case test_case(spec);
                run(test_case, source);
                edit(test_case);
                return test_case.output();
            }};
}

float* a_scale(Case& test_case, std::int64_t row, std::int64_t block) {
    const Tensor& scales = test_case.problem().a.scales;
    return static_cast<float*>(scales.data) + row * scales.strides[0] + block * scales.strides[1];
}

Mutation of_part(std::string name, std::int64_t parts, std::int64_t begin, std::int64_t end, Edit edit) {
    return {std::move(name), [=, edit = std::move(edit)](const CaseSpec& spec, Source source) {
                Case right(spec);
                Case wrong(spec);
                edit(wrong);
                run(right, source);
                run(wrong, source);
                Bytes result = right.output();
                const Bytes other = wrong.output();
                const auto part = static_cast<std::ptrdiff_t>(result.size()) / parts;
                std::copy(other.begin() + begin * part, other.begin() + end * part, result.begin() + begin * part);
                return result;
            }};
}

void zero_a(Case& test_case, std::int64_t row, std::int64_t k, std::int64_t count) {
    const Tensor& values = test_case.problem().a.values;
    std::memset(static_cast<std::byte*>(values.data) + row * values.strides[0] + k, 0, static_cast<std::size_t>(count));
}

void next_scale_in_one_row(Case& test_case) { *a_scale(test_case, 17, 3) = *a_scale(test_case, 17, 4); }

void double_b_scale_in_one_block(Case& test_case) {
    const Tensor& scales = test_case.problem().b.scales;
    for (std::int64_t block = 0; block < scales.shape[0]; ++block) {
        static_cast<float*>(scales.data)[block * scales.strides[0] + 5 * scales.strides[1]] *= 2;
    }
}

namespace {

std::int64_t blocks(const Case& test_case) { return test_case.problem().a.scales.shape[1]; }

void wrong_scale_in_last_block(Case& test_case) {
    const std::int64_t last = blocks(test_case) - 1;
    for (std::int64_t row = 0; row < test_case.spec().m; ++row) {
        *a_scale(test_case, row, last) = *a_scale(test_case, row, last - 1);
    }
}

void drop_one_step_in_four(Case& test_case) {
    for (std::int64_t row = 0; row < test_case.spec().m; ++row) {
        for (std::int64_t k = 96; k < test_case.spec().k; k += 128) zero_a(test_case, row, k, 32);
    }
}

void drop_last_block_of_one_row(Case& test_case) { zero_a(test_case, 41, test_case.spec().k - 128, 128); }

void scale_output(Case& test_case, std::int64_t row, std::int64_t column, double factor) {
    const Geometry g = test_case.geometry();
    const std::int64_t index = output_index(g.d, 0, row, column);
    formats::store(g.d.data, g.output, index, factor * formats::load(g.d.data, g.output, index));
}

void zero_one_row(Case& test_case) {
    for (std::int64_t column = 0; column < test_case.spec().n; ++column) scale_output(test_case, 9, column, 0);
}

void zero_one_patch(Case& test_case) {
    for (std::int64_t row = 16; row < 24; ++row) {
        for (std::int64_t column = 40; column < 48; ++column) scale_output(test_case, row, column, 0);
    }
}

/// An element of usual size: next to zero, a tenth of it is nothing.
void one_element_off(Case& test_case) {
    const Geometry g = test_case.geometry();
    double largest = 0;
    std::int64_t column = 0;
    for (std::int64_t j = 0; j < 8; ++j) {
        const double size = std::abs(formats::load(g.d.data, g.output, output_index(g.d, 0, 30, j)));
        if (size <= largest) continue;
        largest = size;
        column = j;
    }
    scale_output(test_case, 30, column, 1.1);
}

void swap_two_rows(Case& test_case) {
    const Geometry g = test_case.geometry();
    for (std::int64_t column = 0; column < g.n; ++column) {
        const std::int64_t first = output_index(g.d, 0, 12, column);
        const std::int64_t second = output_index(g.d, 0, 13, column);
        const double kept = formats::load(g.d.data, g.output, first);
        formats::store(g.d.data, g.output, first, formats::load(g.d.data, g.output, second));
        formats::store(g.d.data, g.output, second, kept);
    }
}

Bytes without_promotion(const CaseSpec& spec, Source) {
    CaseSpec unpromoted = spec;
    unpromoted.accumulation = Accumulation::unpromoted;
    Case test_case(unpromoted);
    cpu::run_exact(test_case.geometry());
    return test_case.output();
}

Bytes sums_in_bf16(const CaseSpec& spec, Source) {
    Case test_case(spec);
    store_oracle(test_case, {.round_sums = true});
    return test_case.output();
}

}  // namespace

Bytes right_result(const CaseSpec& spec, Source source) {
    Case test_case(spec);
    run(test_case, source);
    return test_case.output();
}

const std::vector<Mutation>& mutations() {
    static const std::vector<Mutation> list{{"no promotion", without_promotion},
                                            of_input("one row uses the next block's scale once", next_scale_in_one_row),
                                            of_input("wrong scale in the last k block", wrong_scale_in_last_block),
                                            of_input("one step of four dropped everywhere", drop_one_step_in_four),
                                            of_input("last k block dropped in one row", drop_last_block_of_one_row),
                                            of_output("one row zero", zero_one_row),
                                            of_output("one 8 x 8 patch zero", zero_one_patch),
                                            of_output("one element off by a tenth", one_element_off),
                                            of_input("b scale doubled in one k block", double_b_scale_in_one_block),
                                            {"running sums rounded to bf16", sums_in_bf16},
                                            of_output("two rows swapped", swap_two_rows)};
    return list;
}

}  // namespace tilewright::check
