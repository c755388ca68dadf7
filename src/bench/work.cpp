#include "bench/work.h"

#include <tilewright/run.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <set>
#include <vector>

#include "base/math.h"
#include "cpu/blas.h"

namespace tilewright::bench {
namespace {

double elements_to_bytes(std::int64_t elements, Format format) {
    return static_cast<double>(elements) * bits(format) / 8;
}

/// Values and scales of `rows` x `k` of an operand.
double operand_bytes(const OperandGeometry& operand, std::int64_t rows, std::int64_t k) {
    double bytes = elements_to_bytes(rows * k, operand.recipe.values);
    if (operand.scales == nullptr) return bytes;
    const std::int64_t row_blocks = operand.row_block() == 0 ? 1 : ceil_div<std::int64_t>(rows, operand.row_block());
    const std::int64_t k_blocks = operand.k_block() == 0 ? 1 : ceil_div<std::int64_t>(k, operand.k_block());
    bytes += elements_to_bytes(row_blocks * k_blocks, operand.recipe.scales);
    return bytes;
}

double best_seconds(int repeats, const std::function<void()>& call) {
    double best = 1e30;
    for (int i = 0; i < repeats; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        call();
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
}

double measured_flops_per_second() {
    constexpr int size = 1536;
    std::vector<float> a(std::size_t{size} * size, 0.5F);
    std::vector<float> b(a.size(), 0.25F);
    std::vector<float> d(a.size());
    const auto multiply = [&] {
        if (cpu::blas_found()) {
            cpu::sgemm({.m = size,
                        .n = size,
                        .k = size,
                        .a = a.data(),
                        .a_stride = size,
                        .b = b.data(),
                        .b_stride = size,
                        .beta = 0,
                        .c = d.data(),
                        .c_stride = size});
            return;
        }
        Problem problem;
        problem.a.values = row_major(a.data(), Format::f32, {size, size});
        problem.b.values = row_major(b.data(), Format::f32, {size, size});
        problem.d = row_major(d.data(), Format::f32, {size, size});
        run(problem);
    };
    return 2.0 * size * size * size / best_seconds(6, multiply);
}

double measured_bytes_per_second() {
    constexpr std::int64_t bytes = std::int64_t{256} << 20;
    constexpr std::int64_t part = std::int64_t{1} << 20;
    std::vector<char> from(bytes, 1);
    std::vector<char> to(bytes, 2);
    return 2.0 * bytes / best_seconds(4, [&] {
#pragma omp parallel for schedule(static)
               for (std::int64_t at = 0; at < bytes; at += part) std::memcpy(to.data() + at, from.data() + at, part);
           });
}

}  // namespace

Work compulsory_work(const Geometry& g) {
    Work work;
    std::set<std::int64_t> b_read;
    const bool along_k = is_k_grouped(g.grouping.grouping);
    for (const GroupGemm& gemm : group_gemms(g)) {
        work.flops +=
            2.0 * static_cast<double>(gemm.rows) * static_cast<double>(g.n) * static_cast<double>(gemm.k_count);
        work.bytes += operand_bytes(g.a, gemm.rows, gemm.k_count);
        const bool first = b_read.insert(gemm.group).second;
        if (first || along_k) work.bytes += operand_bytes(g.b, g.n, gemm.k_count);
        work.bytes += elements_to_bytes(gemm.rows * g.n, g.output) * (g.c.data == nullptr ? 1 : 2);
    }
    return work;
}

double Peaks::floor_seconds(const Work& work) const {
    return std::max(work.flops / flops_per_second, work.bytes / bytes_per_second);
}

const Peaks& cpu_peaks() {
    static const Peaks peaks{
        .flops_per_second = measured_flops_per_second(),
        .bytes_per_second = measured_bytes_per_second(),
        .source = cpu::blas_found() ? "measured: OpenBLAS sgemm, memcpy" : "measured: own f32 product, memcpy"};
    return peaks;
}

}  // namespace tilewright::bench
