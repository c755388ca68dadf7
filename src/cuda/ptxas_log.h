// Reads the log of ptxas about a kernel, and finds entries that a shipped kernel must not have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tilewright::cuda {

/// Spills, local memory, a stack, and advisories C75xx (serialised wgmma, ignored setmaxnreg), each in the words of
/// ptxas. A log without any line on spills is an objection too, because the compiler then did not look.
std::vector<std::string> ptxas_objections(std::string_view log);

/// Registers per thread that ptxas allocated; 0 if the log does not state it.
int ptxas_registers(std::string_view log);

}  // namespace tilewright::cuda
