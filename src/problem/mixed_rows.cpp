#include "problem/mixed_rows.h"

#include <string>

namespace tilewright {

Finding mixed_rows(std::int64_t row, std::int64_t group, std::int64_t first_group) {
    const std::string first = first_group == no_group ? "no group" : "group " + std::to_string(first_group);
    return {.operand = "groups.sizes",
            .given = "group " + std::to_string(group) + " at row " + std::to_string(row) +
                     " of a block whose first row has " + first,
            .expected = "one group in each aligned block of rows",
            .advice =
                "begin each group at a multiple of the alignment; rows in any order are for "
                "tilewright.grouped_gemm(indices=), in C++ for a groups.index_alignment of 1"};
}

}  // namespace tilewright
