// How bugs are planted: in what a call reads, in what it writes, in the order of its sums, or in a part of D alone.
#pragma once

#include "check/mutations.h"
#include "check/oracle.h"

namespace tilewright::check {

using Bytes = std::vector<std::byte>;
using Edit = std::function<void(Case&)>;

/// D from the oracle, with whatever options make it wrong.
void store_oracle(Case& test_case, const OracleOptions& options);

/// D by the arithmetic of `source`.
void run(Case& test_case, Source source);

/// The bug is a wrong operand.
Mutation of_input(std::string name, Edit edit);

/// The bug is in what is written.
Mutation of_output(std::string name, Edit edit);

/// Slices of D, of `parts` alike, of a call with a wrong operand, the others right: as at the border of two blocks.
Mutation of_part(std::string name, std::int64_t parts, std::int64_t begin, std::int64_t end, Edit edit);

float* a_scale(Case& test_case, std::int64_t row, std::int64_t block);

void zero_a(Case& test_case, std::int64_t row, std::int64_t k, std::int64_t count);

void next_scale_in_one_row(Case& test_case);
void double_b_scale_in_one_block(Case& test_case);

}  // namespace tilewright::check
