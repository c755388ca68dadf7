// Problems that several planner tests ask about.
#pragma once

#include <array>

#include "problem/problem_sizes.h"

namespace tilewright::planner {

inline const Recipe block_scaled{{Format::e4m3, Granularity::block_1x128, Format::f32},
                                 {Format::e4m3, Granularity::block_128x128, Format::f32}};
inline const Recipe both_row_scaled{{Format::e4m3, Granularity::block_1x128, Format::f32},
                                    {Format::e4m3, Granularity::block_1x128, Format::f32}};
inline const Recipe per_tensor{{Format::e4m3, Granularity::tensor, Format::f32},
                               {Format::e4m3, Granularity::tensor, Format::f32}};
inline const Recipe unscaled_bf16{{Format::bf16, Granularity::none, Format::f32},
                                  {Format::bf16, Granularity::none, Format::f32}};

/// Those of all_groupings that a kernel serves.
inline constexpr std::array planned_groupings{Grouping::dense,
                                              Grouping::batched,
                                              Grouping::m_grouped_indices,
                                              Grouping::m_grouped_offsets,
                                              Grouping::m_grouped_aligned_offsets,
                                              Grouping::m_grouped_masked,
                                              Grouping::k_grouped,
                                              Grouping::k_grouped_aligned_offsets,
                                              Grouping::k_grouped_flat};

inline ProblemSizes dense(std::int64_t m, std::int64_t n, std::int64_t k) {
    return {.recipe = block_scaled, .m = m, .n = n, .k = k};
}

}  // namespace tilewright::planner
