#include "problem/mixed_rows.h"

#include <string>

namespace tilewright {

Finding mixed_rows(std::int64_t row, std::int64_t group, std::int64_t first_group) {
    const std::string first = first_group == no_group ? "no group" : "group " + std::to_string(first_group);
    return {.operand = "groups.sizes",
            .given = "group " + std::to_string(group) + " at row " + std::to_string(row) +
                     " of a block whose first row has " + first,
            .expected = "one group per aligned block of rows",
            .advice =
                "begin each group at a multiple of the alignment. For rows in any order, use "
                "tilewright.grouped_gemm(indices=), or in C++ a groups.index_alignment of 1"};
}

}  // namespace tilewright
