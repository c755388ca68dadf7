// The instruction levels that this machine can run.
#pragma once

#include "cpu/isa.h"

#include <vector>

namespace tilewright::tests {

inline std::vector<cpu::Isa> instruction_levels() {
    std::vector<cpu::Isa> levels;
    for (const cpu::Isa isa : {cpu::Isa::baseline, cpu::Isa::avx2, cpu::Isa::avx512}) {
        if (isa <= cpu::best_isa()) levels.push_back(isa);
    }
    return levels;
}

}  // namespace tilewright::tests
