// How the rows (or k) of a case are split into groups, and the matching contents of the sizes tensor.
#pragma once

#include "check/case.h"

#include <cstdint>
#include <vector>

namespace tilewright::check {

/// What Groups::alignment is: CaseSpec's, k-grouped in whole blocks of scales.
std::int64_t group_alignment(const CaseSpec& spec);

/// Contents of Groups::sizes; empty for dense and batched. Throws std::invalid_argument if explicit sizes do not fit.
std::vector<std::int64_t> size_entries(const CaseSpec& spec);

}  // namespace tilewright::check
