// The kernels of another build, which take turns with those of this build in one process.
#pragma once

#include <fmt/format.h>
#include <tilewright/error.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "bench/gpu_bench.h"
#include "cuda/kernel_pack.h"
#include "cuda/runtime.h"

namespace tilewright::benchmark {

/// A kernels.pack and a runtime that has no other kernels. Its kernels have today's names (hopper::Kernel) and take
/// today's arguments (hopper::ArgumentsOf). A pack of a commit with other arguments must not be compared: nothing here
/// notices it, and its kernels would read wrong addresses.
class OldPack {
public:
    /// Throws Error if the file holds no kernels.
    explicit OldPack(const std::string& path)
        : bytes_(bytes_of(path)), kernels_(bytes_), runtime_(cuda::driver(), checked(path), cuda::DiskCache(""), {}) {}

    const cuda::KernelPack& kernels() const { return kernels_; }
    cuda::Runtime& runtime() { return runtime_; }

private:
    static std::string bytes_of(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    const cuda::KernelPack& checked(const std::string& path) const {
        if (!kernels_.kernels().empty()) return kernels_;
        throw Error(fmt::format("PACK: got '{}', which {}; expected the kernels.pack of another build", path,
                                bytes_.empty() ? "cannot be read" : "holds no kernels"));
    }

    std::string bytes_;
    cuda::KernelPack kernels_;
    cuda::Runtime runtime_;
};

/// A call that runs this tile. The geometry must outlive it.
inline measure::Contestant contestant(const char* name, cuda::Runtime& runtime, const Geometry& geometry,
                                      const hopper::Kernel& tile) {
    return {.name = name, .call = [&runtime, &geometry, tile](cuda::StreamHandle stream) {
                runtime.run(geometry, tile, {.stream = stream});
            }};
}

/// Whether both leave the same bits in D.
inline bool agree(bench::GpuBench& bench, bench::GpuOperands& operands, const std::vector<measure::Contestant>& both) {
    const auto hash = [&](const measure::Contestant& of) {
        return bench::output_hash(bench.device(), operands, of.call);
    };
    return hash(both[0]) == hash(both[1]);
}

}  // namespace tilewright::benchmark
