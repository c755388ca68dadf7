// The mistakes in the description of a group of ranks, and where ranks differ.
#pragma once

#include <tilewright/expert_group.h>

#include "api/rank_layout.h"

namespace tilewright {

/// Findings about the options of a group.
std::vector<Finding> check(const ExpertGroupOptions& options, int ranks);

/// How a group exchanges whose ranks have addresses, or not. Throws Error if the options ask for addresses that are not
/// there.
Exchange exchange_of(const ExpertGroupOptions& options, bool has_addresses);

/// Findings about a layer that is right by itself and does not fit the group.
std::vector<Finding> check_against(const Moe& layer, const ExpertGroupOptions& options, const GroupSizes& sizes,
                                   const DeviceId& device);

// By all ranks together.
/// Throws Error if the options are wrong on any rank, or differ.
void require_agreement(Ranks& ranks, const ExpertGroupOptions& options);
/// Whether all ranks have something.
bool all_have(Ranks& ranks, bool has);

}  // namespace tilewright
