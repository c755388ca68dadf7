// What a call on a GPU costs the host from C++: batches of 100 on an idle stream, with the same and with fresh
// pointers, the driver's launch of a small kernel alone, and the first calls of a kernel of the pack and of one that
// must be compiled.
#include <fmt/format.h>
#include <stdlib.h>
#include <tilewright/tilewright.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "bench/record.h"
#include "measure/device.h"
#include "measure/statistics.h"
#include "output/file.h"

namespace {

using namespace tilewright;
using Clock = std::chrono::steady_clock;

constexpr const char* help_text =
    R"(host_overhead: what a call on a GPU costs the host, from C++

  build/release/benchmarks/host_overhead               a table, and the same figures as a line of JSON
  build/release/benchmarks/host_overhead | tail -1     the line alone
  build/release/benchmarks/host_overhead --json FILE   appends the line to a file, with commit, date and command

[128, 512, 1024] of 1x128:128x128. A call: median of 50 batches of 100 on an idle stream; fresh pointers: 100 pairs of
operands with their outputs in turn; the driver's launch: cuLaunchKernelEx of a kernel of three arguments. First calls
wait for their result: that of a kernel of the pack is the first call of the process, with a context current; e5m2, which
the pack lacks, is compiled into a new cache folder. Exit code 1 when a target is missed, 2 when there is nothing to
measure on.
)";

constexpr int batch = 100;
constexpr int repeats = 50;
constexpr std::int64_t m = 128;
constexpr std::int64_t n = 512;
constexpr std::int64_t k = 1024;

double microseconds(Clock::time_point begin) {
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// One pair of operands with its output; the values do not matter here.
struct Operands {
    measure::Buffer a{m * k};
    measure::Buffer b{n * k};
    measure::Buffer a_scales{m * k / 128 * sizeof(float)};
    measure::Buffer b_scales{n / 128 * k / 128 * sizeof(float)};
    measure::Buffer d{m * n * 2};

    Operands() {
        for (measure::Buffer* buffer : {&a, &b, &a_scales, &b_scales}) buffer->fill(0x38);
    }
    Problem problem(Format values = Format::e4m3) const {
        Problem p;
        p.a = {row_major(a.data(), values, {m, k}),
               Granularity::block_1x128,
               row_major(a_scales.data(), Format::f32, {m, k / 128}),
               {}};
        p.b = {row_major(b.data(), values, {n, k}),
               Granularity::block_128x128,
               row_major(b_scales.data(), Format::f32, {n / 128, k / 128}),
               {}};
        p.d = row_major(d.data(), Format::bf16, {m, n});
        for (Tensor* tensor : {&p.a.values, &p.a.scales, &p.b.values, &p.b.scales, &p.d}) {
            tensor->device = {.kind = DeviceId::Kind::cuda, .index = 0};
        }
        return p;
    }
};

/// Median over batches of the host's time for one of `call(0)`, `call(1)` ...
template <typename Call>
double batched(const measure::Device& device, const Call& call) {
    std::vector<double> times;
    for (int i = 0; i < repeats; ++i) {
        device.synchronize();
        const auto begin = Clock::now();
        for (std::size_t turn = 0; turn < batch; ++turn) call(turn);
        times.push_back(microseconds(begin) / batch);
    }
    device.synchronize();
    return measure::median(times);
}

double batched(const measure::Device& device, const std::vector<Problem>& problems) {
    return batched(device, [&](std::size_t turn) {
        run(problems[turn % problems.size()], {.backend = Backend::hopper, .stream = device.stream()});
    });
}

/// One call and its result.
double waited(const measure::Device& device, const Problem& problem) {
    device.synchronize();
    const auto begin = Clock::now();
    run(problem, {.backend = Backend::hopper, .stream = device.stream()});
    device.synchronize();
    return microseconds(begin);
}

/// Kernels that this process compiles are forgotten with it.
class NewCache {
public:
    NewCache() {
        std::string name = (std::filesystem::temp_directory_path() / "tilewright.XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw Error("no folder can be made for temporary files");
        folder_ = name;
        setenv("TILEWRIGHT_CACHE_DIR", folder_.c_str(), 1);
    }
    ~NewCache() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    NewCache(const NewCache&) = delete;
    NewCache& operator=(const NewCache&) = delete;

private:
    std::filesystem::path folder_;
};

struct Figure {
    const char* what = "";
    const char* key = "";
    double microseconds = 0;
    double target = 0;  // 0: none
};

std::vector<Figure> measure_all(const measure::Device& device) {
    const std::vector<Operands> operands(batch);
    std::vector<Problem> problems;
    problems.reserve(operands.size());
    for (const Operands& each : operands) problems.push_back(each.problem());
    const double first = waited(device, problems.front());
    const measure::Buffer tiny(16);
    return {{"a call, same pointers", "same_pointers_us", batched(device, {problems.front()}), 3},
            {"a call, fresh pointers", "fresh_pointers_us", batched(device, problems), 0},
            {"the driver's launch of a small kernel", "driver_launch_us",
             batched(device, [&](std::size_t) { device.enqueue_fill(tiny, 0, device.stream()); }), 0},
            {"first call, kernel of the pack", "first_call_us", first, 50e3},
            {"first call, kernel to be compiled", "compiled_call_us",
             waited(device, operands.front().problem(Format::e5m2)), 1e6}};
}

/// Prints, appends to `file` unless it has no name, and returns whether all targets are reached.
bool report(const std::string& device, const std::vector<Figure>& figures, const std::string& file) {
    bool reached = true;
    nlohmann::ordered_json line{{"figure", "host overhead"}, {"from", "C++"}, {"device", device}, {"batch", batch}};
    fmt::print("{}: [{}, {}, {}], 1x128:128x128, from C++\n", device, m, n, k);
    fmt::print("{:<36}{:>12}{:>12}\n", "", "us", "target");
    for (const Figure& f : figures) {
        reached = reached && (f.target == 0 || f.microseconds <= f.target);
        fmt::print("{:<36}{:>12.2f}{:>12}\n", f.what, f.microseconds,
                   f.target == 0 ? "" : fmt::format("{:.0f}", f.target));
        line[f.key] = std::stod(fmt::format("{:.3f}", f.microseconds));
    }
    fmt::print("{}\n", line.dump());
    if (!file.empty()) output::append_text(file, bench::with_origin(line).dump() + "\n");
    return reached;
}

}  // namespace

int main(int count, char** arguments) {
    const std::vector<std::string_view> given(arguments + 1, arguments + count);
    const bool to_file = given.size() == 2 && given[0] == "--json";
    if (!given.empty() && !to_file) {
        const bool asked = given[0] == "--help" || given[0] == "-h";
        fmt::print(asked ? stdout : stderr, "{}", help_text);
        return asked ? EXIT_SUCCESS : 2;
    }
    try {
        const NewCache cache;
        const measure::Device device;
        return report(device.name(), measure_all(device), std::string(to_file ? given[1] : "")) ? EXIT_SUCCESS
                                                                                                : EXIT_FAILURE;
    } catch (const std::exception& error) {
        fmt::print(stderr, "host_overhead: {}\n", error.what());
        return 2;
    }
}
