// What ptxas says about a kernel, and what of it a kernel that ships must not have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tilewright::cuda {

/// Spills, local memory, a stack, and advisories C75xx (serialised wgmma, ignored setmaxnreg), each as ptxas words it;
/// also a log that says nothing of spills, because then the compiler did not look.
std::vector<std::string> ptxas_objections(std::string_view log);

/// Registers that ptxas gave a thread; 0 if the log does not say.
int ptxas_registers(std::string_view log);

}  // namespace tilewright::cuda
