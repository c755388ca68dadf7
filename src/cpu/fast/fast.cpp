// The driver of the arithmetic `fast`: one parallel region per call, however many groups it has.
#include "cpu/fast/fast.h"

#include "base/region.h"
#include "cpu/blas.h"
#include "cpu/fast/blocking.h"
#include "cpu/fast/macro_kernel.h"

#include <omp.h>

#include <algorithm>
#include <memory>

namespace tilewright::cpu {
namespace {

const FastKernels& kernels_of(Isa isa) {
#if defined(__x86_64__)
    if (isa == Isa::avx512) return avx512::fast_kernels();
    if (isa == Isa::avx2) return avx2::fast_kernels();
#endif
    static_cast<void>(isa);
    return baseline::fast_kernels();
}

/// Measured: the panel kernels are faster than sgemm on tiles of levels with vector kernels (benchmarks/cpu_gemm.cpp).
Multiplier usual_multiplier(Isa isa) { return isa == Isa::baseline ? Multiplier::openblas : Multiplier::built_in; }

/// With fewer multiply-adds, a parallel region costs more than it saves.
int useful_threads(const Blocking& blocking, const Geometry& g, int wanted) {
    const double products = static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
    return products < 32'768 ? 1 : region_threads(wanted, blocking.tile_count());
}

void run_passes(const Call& call, int threads, std::vector<ThreadMemory>& memories) {
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        ThreadMemory& memory = memories[static_cast<std::size_t>(omp_get_thread_num())];
        for (const Pass& pass : call.blocking.passes) {
            const auto pack_tasks = static_cast<std::int64_t>(pass.pack_tasks.size());
            const auto tiles = static_cast<std::int64_t>(pass.tiles.size());
#pragma omp for schedule(dynamic)
            for (std::int64_t i = 0; i < pack_tasks; ++i) {
                if (call.cancellation.requested()) continue;
                pack_rows(call, pass.pack_tasks[static_cast<std::size_t>(i)], memory);
            }
#pragma omp for schedule(dynamic)
            for (std::int64_t i = 0; i < tiles; ++i) {
                if (call.cancellation.requested()) continue;
                multiply_tile(call, pass.tiles[static_cast<std::size_t>(i)], memory);
            }
        }
    }
}

}  // namespace

void run_fast(const Geometry& geometry, const FastOptions& options) {
    const Isa isa = options.isa.value_or(best_isa());
    const FastKernels& kernels = kernels_of(isa);
    const Multiplier multiplier = options.multiplier.value_or(usual_multiplier(isa));
    const bool with_sgemm = multiplier == Multiplier::openblas && blas_found();

    Blocking blocking = plan_blocking(geometry, kernels, with_sgemm ? Method::sgemm : Method::panels);
    if (blocking.passes.empty()) return;
    const int threads = useful_threads(blocking, geometry, options.threads);
    const std::unique_ptr<float[]> buffer(new float[static_cast<std::size_t>(blocking.buffer_floats())]);
    std::vector<ThreadMemory> memories;
    memories.reserve(static_cast<std::size_t>(threads));
    for (int i = 0; i < threads; ++i) memories.emplace_back(kernels);

    Cancellation cancellation(options.cancelled);
    const Call call{geometry, kernels, blocking, buffer.get(), cancellation};
    const std::optional<SingleBlasThread> single =
        with_sgemm ? std::optional<SingleBlasThread>(std::in_place) : std::nullopt;
    open_region(threads, cancellation, [&] { run_passes(call, threads, memories); });
    cancellation.check();
}

}  // namespace tilewright::cpu
