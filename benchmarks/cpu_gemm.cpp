// The CPU's arithmetic `fast` and OpenBLAS's sgemm on the dequantised matrices, run by run in turn, and the memory
// it takes beyond operands and output. Exit code 1 when a target is missed.
#include "cpu/blas.h"
#include "cpu/fast/fast.h"
#include "cpu_gemm_arguments.h"

#include <tilewright/tilewright.h>

#include <fmt/core.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace tilewright;
using benchmark::Arguments;

constexpr double target_mean = 0.5;
constexpr double target_least = 0.3;
constexpr double target_memory = 64;  // MiB

// ---- speed ----

std::vector<float> normal_numbers(std::int64_t count, unsigned seed) {
    std::vector<float> numbers(static_cast<std::size_t>(count));
#pragma omp parallel
    {
        std::minstd_rand random(seed + 7919U * static_cast<unsigned>(omp_get_thread_num()));
        std::normal_distribution<float> normal;
#pragma omp for schedule(static)
        for (std::int64_t i = 0; i < count; ++i) numbers[static_cast<std::size_t>(i)] = normal(random);
    }
    return numbers;
}

/// An operand and the floats that it means.
struct Side {
    Side(const OperandRecipe& recipe, std::int64_t rows, std::int64_t k, unsigned seed) {
        floats = normal_numbers(rows * k, seed);
        const Tensor view = row_major(floats.data(), Format::f32, {rows, k});
        operand = quantize(view, {.recipe = recipe});
        dequantize(operand, view);
    }
    std::vector<float> floats;
    OwnedOperand operand;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Row {
    std::string recipe;
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    double ours = 1e30;      // seconds
    double openblas = 1e30;  // seconds
    double difference = 0;   // relative L2, of all outputs
    double ratio() const { return openblas / ours; }
};

double relative_difference(const std::vector<float>& ours, const std::vector<float>& theirs) {
    double difference = 0;
    double norm = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
        difference += std::pow(double{ours[i]} - double{theirs[i]}, 2);
        norm += std::pow(double{theirs[i]}, 2);
    }
    return std::sqrt(difference / norm);
}

Row measure(const Arguments& arguments, const std::string& recipe, const Side& a, const Side& b) {
    const Dims& a_shape = a.operand.operand().values.shape;
    const Dims& b_shape = b.operand.operand().values.shape;
    Row row{.recipe = recipe, .m = a_shape[0], .n = b_shape[0], .k = a_shape[1]};
    std::vector<float> ours(static_cast<std::size_t>(row.m * row.n));
    std::vector<float> theirs(ours.size());
    Problem problem{.a = a.operand, .b = b.operand, .d = row_major(ours.data(), Format::f32, {row.m, row.n})};
    const Geometry g = geometry(problem);
    const cpu::SgemmArguments sgemm{.m = static_cast<int>(row.m),
                                    .n = static_cast<int>(row.n),
                                    .k = static_cast<int>(row.k),
                                    .a = a.floats.data(),
                                    .a_stride = static_cast<int>(row.k),
                                    .b = b.floats.data(),
                                    .b_stride = static_cast<int>(row.k),
                                    .c = theirs.data(),
                                    .c_stride = static_cast<int>(row.n)};
    const auto begin = std::chrono::steady_clock::now();
    for (int turn = 0; turn < 3 || seconds_since(begin) < arguments.seconds; ++turn) {
        auto start = std::chrono::steady_clock::now();
        cpu::run_fast(g, arguments.options);
        row.ours = std::min(row.ours, seconds_since(start));
        start = std::chrono::steady_clock::now();
        cpu::sgemm(sgemm);
        row.openblas = std::min(row.openblas, seconds_since(start));
    }
    row.difference = relative_difference(ours, theirs);
    return row;
}

void print(const Arguments& arguments, const Row& row) {
    if (arguments.json) {
        fmt::print(
            "{{\"recipe\": \"{}\", \"m\": {}, \"n\": {}, \"k\": {}, \"seconds\": {:.6g}, \"openblas_seconds\": {:.6g}, "
            "\"ratio\": {:.4g}, \"difference\": {:.3g}}}\n",
            row.recipe, row.m, row.n, row.k, row.ours, row.openblas, row.ratio(), row.difference);
    } else {
        const double flops =
            2e-9 * static_cast<double>(row.m) * static_cast<double>(row.n) * static_cast<double>(row.k);
        fmt::print("{:<28} {:>4} x {:>4} x {:>4}  {:9.3f} ms {:7.1f}  {:9.3f} ms {:7.1f}  {:5.2f}   {:.1e}\n",
                   row.recipe, row.m, row.n, row.k, row.ours * 1e3, flops / row.ours, row.openblas * 1e3,
                   flops / row.openblas, row.ratio(), row.difference);
    }
    std::fflush(stdout);
}

bool measure_speed(const Arguments& arguments) {
    if (!arguments.json) {
        fmt::print("{} threads; {}\n\n{:<28} {:>18}  {:>20}  {:>20}  ratio   difference\n", arguments.options.threads,
                   cpu::blas_status().config, "recipe", "m x n x k", "ours, GFLOP/s", "OpenBLAS, GFLOP/s");
    }
    cpu::set_blas_threads(arguments.options.threads);
    double logarithms = 0;
    double least = 1e30;
    int count = 0;
    bool right = true;
    for (const std::string& name : arguments.recipes) {
        const Recipe recipe = *parse_recipe(name);
        for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{4096, 4096}, {7168, 2048}}) {
            const Side b(recipe.b, n, k, 1);
            for (const std::int64_t m : arguments.rows) {
                const Row row = measure(arguments, name, Side(recipe.a, m, k, 2), b);
                print(arguments, row);
                logarithms += std::log(row.ratio());
                least = std::min(least, row.ratio());
                right = right && row.difference < 1e-5;
                ++count;
            }
        }
    }
    const double mean = std::exp(logarithms / count);
    const bool passed = mean >= target_mean && least >= target_least && right;
    if (arguments.json) {
        fmt::print("{{\"geometric_mean\": {:.4g}, \"least\": {:.4g}, \"passed\": {}}}\n", mean, least, passed);
    } else {
        fmt::print("\ngeometric mean {:.2f} (target {}), least {:.2f} (target {}){}: {}\n", mean, target_mean, least,
                   target_least, right ? "" : ", results differ", passed ? "passed" : "MISSED");
    }
    return passed;
}

// ---- memory ----

/// A line of /proc/self/status in MiB.
double status_mebibytes(const std::string& key) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind(key + ":", 0) == 0) return std::strtod(line.c_str() + key.size() + 1, nullptr) / 1024;
    }
    return 0;
}

/// What a call adds to the process at its peak. To be measured before malloc has memory to spare.
double extra_memory(const Arguments& arguments, const Recipe& recipe, std::int64_t m) {
    constexpr std::int64_t size = 16384;
    const OwnedOperand a({m, size}, recipe.a);
    const OwnedOperand b({size, size}, recipe.b);
    for (const OwnedOperand* side : {&a, &b}) {
        const Operand& operand = side->operand();
        for (const Tensor* tensor : {&operand.values, &operand.scales, &operand.tensor_scale}) {
            if (!tensor->given()) continue;
            // 0x3A is a number in every format.
            std::memset(tensor->data, 0x3A, static_cast<std::size_t>(row_major_bytes(tensor->format, tensor->shape)));
        }
    }
    std::vector<float> d(static_cast<std::size_t>(m * size), 1.0F);
    Problem problem{.a = a, .b = b, .d = row_major(d.data(), Format::f32, {m, size})};
    const Geometry g = geometry(problem);
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew; source: proc(5)
    const double before = status_mebibytes("VmRSS");
    cpu::run_fast(g, arguments.options);
    return status_mebibytes("VmHWM") - before;
}

bool measure_memory(const Arguments& arguments) {
    const Recipe recipe = *parse_recipe("1x128:128x128");
    const double most = std::max(extra_memory(arguments, recipe, 1), extra_memory(arguments, recipe, 256));
    const bool passed = most < target_memory;
    if (arguments.json) {
        fmt::print("{{\"extra_memory_mib\": {:.4g}, \"passed\": {}}}\n", most, passed);
    } else {
        fmt::print("peak extra memory for a weight of 16384 x 16384: {:.1f} MiB (target {:.0f} MiB): {}\n", most,
                   target_memory, passed ? "passed" : "MISSED");
    }
    return passed;
}

}  // namespace

int main(int count, char** words) {
    const Arguments arguments = benchmark::parse(count, words);
    const bool memory = measure_memory(arguments);
    if (arguments.memory_only) return memory ? 0 : 1;
    if (!cpu::blas_found())
        benchmark::fail("OpenBLAS is not found, so there is nothing to compare with: " + cpu::blas_status().advice);
    const bool speed = measure_speed(arguments);
    return memory && speed ? 0 : 1;
}
