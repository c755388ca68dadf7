// Compiles a kernel with NVRTC and reports what ptxas objects to: spills and serialised wgmma. A kernel without
// objections is kept in the cache of the pack, which keeps no others, and is not compiled again
// (src/cuda/build_pack.cpp).
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/compiler.h"
#include "cuda/disk_cache.h"
#include "cuda/ptxas_log.h"
#include "launch/other_kernels.h"

namespace tilewright::tests {

inline void expect_ptxas_accepts(const cuda::Compiler& compiler, const cuda::KernelSource& source,
                                 const std::string& description) {
    const cuda::DiskCache cache(TILEWRIGHT_KERNEL_CACHE);
    const std::string key = compiler.key(source);
    if (cache.load(key)) return;
    const cuda::Compilation compilation = compiler.compile(source);
    const std::vector<std::string> objections = cuda::ptxas_objections(compilation.log);
    for (const std::string& objection : objections) ADD_FAILURE() << description << ": " << objection;
    if (objections.empty()) cache.store(key, compilation.kernel);
}

/// Skips under sanitizers and without NVRTC.
inline void expect_no_spills(const std::vector<launch::OtherKernel>& kernels) {
    if (TILEWRIGHT_SAMPLES != 0) GTEST_SKIP() << "NVRTC is the same under sanitizers";
    const cuda::OpenLibrary found(cuda::nvrtc_candidates());
    if (!found.is_open()) GTEST_SKIP() << "NVRTC was not found";
    const cuda::Compiler compiler(cuda::nvrtc_candidates());
    for (const launch::OtherKernel& kernel : kernels) {
        const std::string expression = kernel_expression(kernel);
        expect_ptxas_accepts(compiler, {.text = source_of(kernel), .expression = expression}, expression);
    }
}

}  // namespace tilewright::tests
