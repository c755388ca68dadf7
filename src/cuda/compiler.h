// NVRTC, opened at run time: compiles a kernel's source to machine code for sm_90a.
#pragma once

#include <string>
#include <vector>

#include "cuda/library_search.h"

namespace tilewright::cuda {

struct CompiledKernel {
    std::string name;   // of the function in `cubin`
    std::string cubin;  // machine code
};

struct Compilation {
    CompiledKernel kernel;
    std::string log;  // warnings, and the messages of ptxas
};

/// The inputs of one kernel, in addition to the device headers.
struct KernelSource {
    std::string text;
    std::string expression;  // the instantiation, e.g. "gemm<Kernel{...}>"
};

/// The options of all kernels. With them ptxas reports registers and spills in the log.
const std::vector<std::string>& compile_options();

class Compiler {
public:
    /// Throws Error if none of the candidates is NVRTC.
    explicit Compiler(const std::vector<std::string>& candidates);

    const std::string& version() const { return version_; }

    /// Throws Error with the compiler's log.
    Compilation compile(const KernelSource& source) const;

    /// Covers everything that the result depends on: the device headers that the source includes, the source, options
    /// and version.
    std::string key(const KernelSource& source) const;

private:
    OpenLibrary library_;
    OpenLibrary builtins_;
    std::string version_;
};

}  // namespace tilewright::cuda
