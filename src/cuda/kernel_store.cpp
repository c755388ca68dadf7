#include "cuda/kernel_store.h"

#include <tilewright/error.h>

namespace tilewright::cuda {

const Compiler& KernelStore::compiler() {
    const std::lock_guard lock(mutex_);
    if (!compiler_) compiler_ = std::make_unique<Compiler>(compilers_);
    return *compiler_;
}

CompiledKernel KernelStore::get(const KernelSource& source) {
    if (const std::optional<PackedKernel> packed = pack_.find(source.expression)) {
        return {.name = std::string(packed->name), .cubin = std::string(packed->cubin)};
    }
    const std::string key = compiler().key(source);
    if (std::optional<CompiledKernel> kept = cache_.load(key)) return *std::move(kept);
    CompiledKernel kernel = compiler().compile(source).kernel;
    cache_.store(key, kernel);
    return kernel;
}

}  // namespace tilewright::cuda
