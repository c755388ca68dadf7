// Times the kernel to read (docs/learn) against the shipped kernel of its tile.
//
//   learn_kernel [KERNEL] [--json FILE]         docs/learn/block_scaled_gemm.h
//
// NVRTC compiles the file KERNEL when the program runs, so that a change of it needs no new build. (A change of its
// arguments does.) Both kernels run in turns on the same random data, with L2 flushed before each call. They must
// return the same bits.
//
// --json: a line for each size is appended to the file, with commit, date and command.
#include <fmt/format.h>
#include <tilewright/error.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/gpu_bench.h"
#include "bench/record.h"
#include "cuda/compiler.h"
#include "cuda/driver.h"
#include "cuda/runtime.h"
#include "cuda/tensor_map.h"
#include "hopper/arguments.h"
#include "learn/call.h"
#include "output/file.h"
#include "plan/choose.h"
#include "plan/variant.h"
#include "problem/geometry.h"

#include "emulator/primitives.h"

namespace tilewright::benchmark {
namespace {

constexpr int device = 0;
constexpr int rounds = 20;

struct Sizes {
    std::int64_t m, n, k;
};

/// Whole tiles, and at the end sizes that end within a tile, a warpgroup's rows and a k-block.
constexpr std::array all_sizes{Sizes{128, 7168, 2048},   Sizes{512, 4096, 7168},  Sizes{1024, 7168, 2048},
                               Sizes{2048, 4096, 7168},  Sizes{4096, 2112, 7168}, Sizes{4096, 7168, 2048},
                               Sizes{4096, 24576, 1536}, Sizes{8192, 8192, 8192}, Sizes{4096, 32768, 512},
                               Sizes{4100, 7176, 2064},  Sizes{1000, 2120, 7168}};

std::string text_of(const std::string& path) {
    std::ifstream file(path);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.empty()) throw Error(path + ": cannot be read; run this in the repository, or name the kernel's file");
    return text;
}

/// The learning kernel on the GPU.
class LearningKernel {
public:
    explicit LearningKernel(const std::string& path) {
        constexpr int most_shared_bytes = cuda::attribute_max_dynamic_shared_bytes;
        const cuda::Compiler compiler(cuda::nvrtc_candidates());
        const cuda::CompiledKernel compiled =
            compiler
                .compile({.text = text_of(path) + "\n#include \"hopper/ptx/ptx_sm90.h\"\n",
                          .expression = "tilewright::learn::block_scaled_gemm"})
                .kernel;
        int handle = 0;
        require(calls().device_get(&handle, device), "cuDeviceGet");
        require(calls().library_load(&library_, compiled.cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                "cuLibraryLoadData");
        require(calls().library_kernel(&kernel_, library_, compiled.name.c_str()), "cuLibraryGetKernel");
        require(calls().kernel_set_attribute(most_shared_bytes, sizeof(learn::Shared), kernel_, handle),
                "cuKernelSetAttribute");
    }

    /// The call with everything that a launch needs.
    learn::Call prepared(const Geometry& geometry, int sms) const {
        learn::Call call = learn::call(geometry, sms);
        cuda::encode(cuda::driver(), device, call.a, "a", call.arguments.a);
        cuda::encode(cuda::driver(), device, call.b, "b", call.arguments.b);
        cuda::encode(cuda::driver(), device, call.a_scales, "a_scales", call.arguments.a_scales);
        cuda::encode(cuda::driver(), device, call.d, "d", call.arguments.d);
        report_.fill(0);
        call.arguments.report = reinterpret_cast<hopper::u64*>(report_.data());
        return call;
    }

    void launch(learn::Call& call, cuda::StreamHandle stream) const {
        const cuda::LaunchConfig config{.grid = {static_cast<unsigned>(call.blocks), 1, 1},
                                        .block = {learn::threads, 1, 1},
                                        .shared_bytes = sizeof(learn::Shared),
                                        .stream = stream};
        void* parameters[] = {&call.arguments};
        require(calls().launch(&config, kernel_, parameters, nullptr), "cuLaunchKernelEx");
    }

    /// Throws Error if a wait timed out. The GPU must be idle.
    void check_report() const {
        hopper::Timeout report{};
        report_.download(&report.word, sizeof(report.word));
        if (report.word == 0) return;
        throw Error(fmt::format("the learning kernel: block {}, thread {} waited too long at `{}`", report.block(),
                                report.thread(), name_of(report.barrier())));
    }

private:
    static const cuda::DriverCalls& calls() { return cuda::driver().call; }
    static void require(int result, const char* what) { cuda::driver().require(result, what, device); }

    cuda::LibraryHandle library_ = nullptr;
    cuda::KernelHandle kernel_ = nullptr;
    measure::Buffer report_{sizeof(hopper::u64)};
};

struct Times {
    Sizes sizes;
    double shipped = 0;  // seconds
    double learning = 0;
    double speed() const { return shipped / learning; }
};

class Race {
public:
    explicit Race(const std::string& path) : harness_(measure::Flush::clean), kernel_(path) {}

    Times time(const Sizes& sizes) {
        bench::GpuOperands operands =
            bench::gpu_operands({.m = sizes.m, .n = sizes.n, .k = sizes.k},
                                {.recipe = parse_recipe("1x128:128x128").value(), .backend = Backend::hopper});
        const Problem problem = operands.on_device();
        const Geometry geometry = tilewright::geometry(problem);
        const hopper::Kernel tile = planner::variant(
            geometry,
            planner::runnable_tile({.shape = {.m = 128, .n = 128}, .stages = 5}, problem, harness_.description()));
        learn::Call call = kernel_.prepared(geometry, harness_.device().sms());
        const auto shipped = [&](cuda::StreamHandle stream) {
            cuda::runtime().run(geometry, tile, {.stream = stream});
        };
        const auto learning = [&](cuda::StreamHandle stream) { kernel_.launch(call, stream); };
        const measure::Device& gpu = harness_.device();
        if (bench::output_hash(gpu, operands, learning) != bench::output_hash(gpu, operands, shipped)) {
            kernel_.check_report();
            throw Error(fmt::format("{} x {} x {}: the learning kernel has other bits than the shipped one", sizes.m,
                                    sizes.n, sizes.k));
        }
        const std::array<measure::Contestant, 2> both{
            {{.name = "shipped", .call = shipped}, {.name = "learning", .call = learning}}};
        const std::vector<measure::Measurement> times = harness_.stopwatch().race(both, rounds);
        kernel_.check_report();
        return {.sizes = sizes, .shipped = times[0].seconds, .learning = times[1].seconds};
    }

    const std::string& device_name() { return harness_.device().name(); }

private:
    bench::GpuBench harness_;
    LearningKernel kernel_;
};

double rounded(double value) { return std::stod(fmt::format("{:.4g}", value)); }

std::string record(const Times& times, const std::string& gpu) {
    return bench::with_origin({{"figure", "learning kernel"},
                               {"shape", {times.sizes.m, times.sizes.n, times.sizes.k}},
                               {"shipped_us", rounded(times.shipped * 1e6)},
                               {"learning_us", rounded(times.learning * 1e6)},
                               {"speed", rounded(times.speed())},
                               {"flush", "clean"},
                               {"device", gpu}})
               .dump() +
           "\n";
}

void time_all(const std::string& kernel, const std::string& file) {
    Race race(kernel);
    fmt::print("{}, 128x128 with 1x128:128x128 scales, median of {} calls\n", race.device_name(), rounds);
    fmt::print("| m x n x k | shipped, us | to read, us | speed |\n|---|---|---|---|\n");
    std::string lines;
    double logarithms = 0;
    for (const Sizes& sizes : all_sizes) {
        const Times times = race.time(sizes);
        fmt::print("| {} x {} x {} | {:.1f} | {:.1f} | {:.3f} |\n", sizes.m, sizes.n, sizes.k, times.shipped * 1e6,
                   times.learning * 1e6, times.speed());
        std::fflush(stdout);
        lines += record(times, race.device_name());
        logarithms += std::log(times.speed());
    }
    fmt::print("| geometric mean | | | {:.3f} |\n", std::exp(logarithms / static_cast<double>(all_sizes.size())));
    if (!file.empty()) output::append_text(file, lines);
}

}  // namespace
}  // namespace tilewright::benchmark

int main(int count, char** arguments) {
    std::string kernel;
    std::string file;
    for (int i = 1; i < count; ++i) {
        const std::string word = arguments[i];
        if (word == "--json" && i + 1 < count) {
            file = arguments[++i];
        } else if (kernel.empty() && !word.empty() && word[0] != '-') {
            kernel = word;
        } else {
            fmt::print(stderr, "usage: learn_kernel [KERNEL] [--json FILE]\n");
            return 2;
        }
    }
    try {
        tilewright::benchmark::time_all(kernel.empty() ? "docs/learn/block_scaled_gemm.h" : kernel, file);
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "learn_kernel: {}\n", error.what());
        return 1;
    }
}
