// Builds the kernel pack while the library is built. It compiles the tiles of plan/shipped_kernels.h and the kernels of
// launch/kernels.h with NVRTC, on all cores. It fails if a kernel spills or is serialised. Kernels that did not change
// are read from the cache folder.
//
//   tilewright_build_pack <libnvrtc.so> <cache folder> <output file> [<step>]
//
// With a step, only every step-th kernel: a sample for tools/compare_kernels and tests/cuda/pypi_nvrtc.
#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <tilewright/error.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "cuda/compiler.h"
#include "cuda/disk_cache.h"
#include "cuda/kernel_pack.h"
#include "cuda/ptxas_log.h"
#include "launch/kernels.h"
#include "plan/shipped_kernels.h"

namespace tilewright::cuda {
namespace {

struct Inputs {
    std::string nvrtc;
    std::string cache;
    std::string output;
    std::size_t step = 1;
};

struct Shipped {
    KernelSource source;
    std::string description;
};

std::vector<Shipped> all_kernels() {
    std::vector<Shipped> list;
    for (const hopper::Kernel& tile : planner::shipped_kernels()) {
        list.push_back(
            {{.text = launch::kernel_source, .expression = launch::kernel_expression(tile)}, launch::describe(tile)});
    }
    for (const launch::OtherKernel& kernel : launch::shipped_other_kernels()) {
        const std::string expression = launch::kernel_expression(kernel);
        list.push_back({{.text = launch::source_of(kernel), .expression = expression}, expression});
    }
    return list;
}

std::vector<Shipped> kernels(const Inputs& inputs) {
    const std::vector<Shipped> all = all_kernels();
    std::vector<Shipped> list;
    for (std::size_t i = 0; i < all.size(); i += inputs.step) list.push_back(all[i]);
    return list;
}

int usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
}

/// Compiles a kernel and returns whether it may ship. Only kernels that may ship are kept in the cache.
bool compile(const Compiler& compiler, const DiskCache& cache, const Shipped& shipped) {
    const std::string key = compiler.key(shipped.source);
    if (cache.load(key)) return true;
    const Compilation compilation = compiler.compile(shipped.source);
    const std::vector<std::string> objections = ptxas_objections(compilation.log);
    for (const std::string& objection : objections) {
        fmt::print(stderr, "error: {}: {}\n", shipped.description, objection);
    }
    if (objections.empty()) cache.store(key, compilation.kernel);
    return objections.empty();
}

/// Compiles every `step`-th kernel from `first` on. NVRTC compiles one kernel of a process at a time, so each share is
/// a process.
int compile_share(const Inputs& inputs, std::size_t first, std::size_t step) try {
    const Compiler compiler({inputs.nvrtc});
    const DiskCache cache(inputs.cache);
    const std::vector<Shipped> list = kernels(inputs);
    bool good = true;
    for (std::size_t i = first; i < list.size(); i += step) good = compile(compiler, cache, list[i]) && good;
    return good ? 0 : 1;
} catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
}

bool compile_all(const Inputs& inputs) {
    const std::size_t cores = static_cast<std::size_t>(usable_cores());
    std::vector<pid_t> children;
    for (std::size_t share = 0; share < cores; ++share) {
        const pid_t child = fork();
        if (child == 0) {
            const int status = compile_share(inputs, share, cores);
            std::fflush(nullptr);
            _exit(status);
        }
        children.push_back(child);
    }
    bool good = true;
    for (const pid_t child : children) {
        int status = 1;
        good = child > 0 && waitpid(child, &status, 0) == child && status == 0 && good;
    }
    return good;
}

bool write_pack(const Inputs& inputs) {
    const Compiler compiler({inputs.nvrtc});
    const DiskCache cache(inputs.cache);
    const std::vector<Shipped> list = kernels(inputs);
    std::vector<CompiledKernel> compiled;
    for (const Shipped& shipped : list) {
        std::optional<CompiledKernel> kernel = cache.load(compiler.key(shipped.source));
        if (!kernel) throw Error(inputs.cache + " did not keep " + shipped.description + "; is the disk full?");
        compiled.push_back(*std::move(kernel));
    }
    std::vector<PackedKernel> views;
    for (std::size_t i = 0; i < list.size(); ++i) {
        views.push_back(
            {.expression = list[i].source.expression, .name = compiled[i].name, .cubin = compiled[i].cubin});
    }
    const std::string bytes = pack_bytes(views);
    std::ofstream file(inputs.output, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    fmt::print("kernel pack: {} of {} kernels, {:.1f} of {:.1f} MB, NVRTC {}\n", views.size(), planner::most_kernels,
               static_cast<double>(bytes.size()) / 1e6, static_cast<double>(planner::most_pack_bytes) / 1e6,
               compiler.version());
    return file.good() && views.size() <= planner::most_kernels && bytes.size() <= planner::most_pack_bytes;
}

}  // namespace
}  // namespace tilewright::cuda

int main(int argc, char** argv) try {
    if (argc != 4 && argc != 5) {
        fmt::print(stderr, "usage: {} <libnvrtc.so> <cache folder> <output file> [<step>]\n", argv[0]);
        return 2;
    }
    const std::size_t step = argc == 5 ? std::max(std::stoul(argv[4]), 1UL) : 1;
    const tilewright::cuda::Inputs inputs{.nvrtc = argv[1], .cache = argv[2], .output = argv[3], .step = step};
    return tilewright::cuda::compile_all(inputs) && tilewright::cuda::write_pack(inputs) ? 0 : 1;
} catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
}
