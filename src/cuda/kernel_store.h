// The sources of a kernel's machine code: the pack, the cache on disk, the compiler, in this order.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/compiler.h"
#include "cuda/disk_cache.h"
#include "cuda/kernel_pack.h"

namespace tilewright::cuda {

class KernelStore {
public:
    /// The compiler is searched when it is first needed. `pack` must outlive the store.
    KernelStore(const KernelPack& pack, DiskCache cache, std::vector<std::string> compilers)
        : pack_(pack), cache_(std::move(cache)), compilers_(std::move(compilers)) {}

    /// Throws Error if the kernel must be compiled and cannot be. Any thread may call.
    CompiledKernel get(const KernelSource& source);

private:
    const Compiler& compiler();

    const KernelPack& pack_;
    DiskCache cache_;
    std::vector<std::string> compilers_;
    std::mutex mutex_;
    std::unique_ptr<Compiler> compiler_;
};

}  // namespace tilewright::cuda
