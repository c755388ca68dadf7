// The error for row indices that break the promise of Groups::index_alignment. The CPU throws it for the call itself, a
// GPU for an earlier call.
#pragma once

#include <tilewright/error.h>

#include <cstdint>

namespace tilewright {

inline constexpr std::int64_t no_group = -1;

/// A row of `group` in a block whose first row has `first_group`, or no group.
Finding mixed_rows(std::int64_t row, std::int64_t group, std::int64_t first_group);

}  // namespace tilewright
