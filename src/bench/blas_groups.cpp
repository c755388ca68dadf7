#include "bench/blas_groups.h"

#include "base/math.h"
#include "check/case.h"

namespace tilewright::bench {
namespace {

constexpr std::int64_t output_bytes = 2;  // of an element of bf16

}  // namespace

bool has_blas_groups(Grouping grouping) { return grouping == Grouping::m_grouped_offsets || is_k_grouped(grouping); }

std::size_t blas_output_bytes(const ProblemSizes& sizes) {
    const std::int64_t matrices = is_k_grouped(sizes.grouping) ? sizes.groups : 1;
    return static_cast<std::size_t>(matrices * sizes.m * sizes.n * output_bytes);
}

std::vector<measure::BlasGroup> blas_groups(const ProblemSizes& sizes, const std::vector<std::int64_t>& group_sizes,
                                            const BlasMatrices& at, Format values) {
    const std::int64_t bytes = bits(values) / 8;
    const bool along_k = is_k_grouped(sizes.grouping);
    const bool flat = sizes.grouping == Grouping::k_grouped_flat;
    const bool aligned = sizes.grouping == Grouping::k_grouped_aligned_offsets;
    const std::int64_t alignment = aligned ? check::CaseSpec{}.alignment : 1;  // as the operands have it (shapes.cpp)
    std::vector<measure::BlasGroup> groups;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < group_sizes.size(); ++i) {
        const std::int64_t size = group_sizes[i];
        const auto group = static_cast<std::int64_t>(i);
        const std::int64_t pitch = flat ? size : sizes.k;
        measure::BlasGroup each{.m = along_k ? sizes.m : size,
                                .n = sizes.n,
                                .k = along_k ? size : sizes.k,
                                .pitch_of_a = pitch,
                                .pitch_of_b = pitch};
        const std::int64_t a_begin = along_k ? (flat ? begin * sizes.m : begin) : begin * sizes.k;
        const std::int64_t b_begin = along_k ? (flat ? begin * sizes.n : begin) : group * sizes.n * sizes.k;
        const std::int64_t d_row = along_k ? group * sizes.m : begin;
        each.a = at.a + a_begin * bytes;
        each.b = at.b + b_begin * bytes;
        each.d = at.d + d_row * sizes.n * output_bytes;
        groups.push_back(each);
        begin += round_up(size, alignment);
    }
    return groups;
}

}  // namespace tilewright::bench
