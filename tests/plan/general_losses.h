// The time that calls lose, by the planner's model, because not every tile ships its general kernel.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "check/general_calls.h"

namespace tilewright::planner {

struct GeneralLosses {
    std::size_t calls = 0;     // that need a general kernel: some kernels for one output serve D of f32 and C
    check::Losses lost{};      // as parts of the times with the general kernels of the usual tiles
    std::string worst_call{};  // its kind and sizes
};

GeneralLosses general_losses(const std::vector<check::GeneralCall>& calls);

}  // namespace tilewright::planner
