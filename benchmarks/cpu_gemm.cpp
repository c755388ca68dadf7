// The CPU's arithmetic `fast` beside OpenBLAS's sgemm on the dequantised matrices, run by run in turn, and the memory
// it takes beyond operands and output. Exit code 1 when a mark is missed.
#include "cpu/blas.h"
#include "cpu/fast.h"

#include <tilewright/tilewright.h>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace tilewright;

constexpr const char* help_text =
    R"(cpu_gemm: the CPU arithmetic `fast` beside OpenBLAS's sgemm on the dequantised matrices

  --recipe NAME      one recipe, such as 1x128:128x128 (one of each family)
  --m N              one m (1, 32 and 512)
  --threads N        threads of both (OpenMP's choice)
  --seconds S        time for each row of the table (0.6)
  --isa NAME         baseline, avx2 or avx512 (the best of this CPU)
  --multiplier NAME  built_in or openblas, for tiles of more than 8 rows (the faster for the level)
  --memory-only      only the memory line
  --json             JSON lines in place of the table

Marks: geometric mean of the ratios at least 0.5, none under 0.3; peak extra memory under 64 MiB for a weight of
16384 x 16384. Exit code 1 when one is missed, 2 when the call is wrong or OpenBLAS is not found.
)";

constexpr double mark_mean = 0.5;
constexpr double mark_least = 0.3;
constexpr double mark_memory = 64;  // MiB

struct Arguments {
    std::vector<std::string> recipes{"tensor:tensor",
                                     "row:row",
                                     "1x128:128x128",
                                     "1x128:1x128",
                                     "1x128.ue8m0:128x128.ue8m0",
                                     "e5m2.1x128:e5m2.128x128",
                                     "mxfp8:mxfp8",
                                     "e5m2.1x32:e5m2.1x32",
                                     "mxfp8:mxfp4",
                                     "1x128:mxfp4",
                                     "mxfp4:mxfp4",
                                     "nvfp4:nvfp4",
                                     "bf16:mxfp4",
                                     "bf16:nvfp4",
                                     "bf16:bf16",
                                     "f16:f16",
                                     "f32:f32"};
    std::vector<std::int64_t> rows{1, 32, 512};
    double seconds = 0.6;
    cpu::FastOptions options{.threads = omp_get_max_threads()};
    bool memory_only = false;
    bool json = false;
};

[[noreturn]] void fail(const std::string& text) {
    fmt::print(stderr, "cpu_gemm: {}; see --help\n", text);
    std::exit(2);
}

int choice(const std::string& option, const std::string& value, const std::vector<std::string>& names) {
    const auto found = std::find(names.begin(), names.end(), value);
    if (found == names.end()) fail(fmt::format("{} {}: not one of {}", option, value, fmt::join(names, ", ")));
    return static_cast<int>(found - names.begin());
}

double number(const std::string& option, const std::string& value) {
    char* end = nullptr;
    const double parsed = std::strtod(value.c_str(), &end);
    if (end == value.c_str() || *end != '\0' || !(parsed > 0))
        fail(fmt::format("{} {}: a positive number", option, value));
    return parsed;
}

void take(Arguments& arguments, const std::string& option, const std::string& value) {
    if (option == "--recipe") {
        const std::optional<Recipe> recipe = parse_recipe(value);
        if (!recipe || !is_accepted(*recipe)) fail(fmt::format("--recipe {}: no recipe", value));
        arguments.recipes = {value};
    } else if (option == "--m") {
        arguments.rows = {static_cast<std::int64_t>(number(option, value))};
    } else if (option == "--threads") {
        arguments.options.threads = static_cast<int>(number(option, value));
    } else if (option == "--seconds") {
        arguments.seconds = number(option, value);
    } else if (option == "--isa") {
        const auto isa = static_cast<cpu::Isa>(choice(option, value, {"baseline", "avx2", "avx512"}));
        if (isa > cpu::best_isa()) fail(fmt::format("--isa {}: this CPU does not have it", value));
        arguments.options.isa = isa;
    } else if (option == "--multiplier") {
        arguments.options.multiplier = static_cast<cpu::Multiplier>(choice(option, value, {"built_in", "openblas"}));
    } else {
        fail("unknown option " + option);
    }
}

Arguments parse(int count, char** words) {
    Arguments arguments;
    for (int i = 1; i < count; ++i) {
        const std::string option = words[i];
        if (option == "--help" || option == "-h") {
            fmt::print("{}", help_text);
            std::exit(0);
        }
        if (option == "--json") {
            arguments.json = true;
        } else if (option == "--memory-only") {
            arguments.memory_only = true;
        } else if (i + 1 == count) {
            fail(option + ": a value expected");
        } else {
            take(arguments, option, words[++i]);
        }
    }
    return arguments;
}

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

/// An operand and the floats it stands for.
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
    const bool passed = mean >= mark_mean && least >= mark_least && right;
    if (arguments.json) {
        fmt::print("{{\"geometric_mean\": {:.4g}, \"least\": {:.4g}, \"passed\": {}}}\n", mean, least, passed);
    } else {
        fmt::print("\ngeometric mean {:.2f} (mark {}), least {:.2f} (mark {}){}: {}\n", mean, mark_mean, least,
                   mark_least, right ? "" : ", results differ", passed ? "passed" : "MISSED");
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
    double most = 0;
    for (const char* name : {"1x128:128x128", "mxfp4:mxfp4"}) {
        for (const std::int64_t m : {1, 512}) most = std::max(most, extra_memory(arguments, *parse_recipe(name), m));
    }
    const bool passed = most < mark_memory;
    if (arguments.json) {
        fmt::print("{{\"extra_memory_mib\": {:.4g}, \"passed\": {}}}\n", most, passed);
    } else {
        fmt::print("peak extra memory for a weight of 16384 x 16384: {:.1f} MiB (mark {:.0f} MiB): {}\n", most,
                   mark_memory, passed ? "passed" : "MISSED");
    }
    return passed;
}

}  // namespace

int main(int count, char** words) {
    const Arguments arguments = parse(count, words);
    const bool memory = measure_memory(arguments);
    if (arguments.memory_only) return memory ? 0 : 1;
    if (!cpu::blas_found())
        fail("OpenBLAS is not found, so there is nothing to compare with: " + cpu::blas_status().advice);
    const bool speed = measure_speed(arguments);
    return memory && speed ? 0 : 1;
}
