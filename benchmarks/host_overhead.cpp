// What a call on a GPU costs the host from C++: batches of 100 on an idle stream, with the same and with fresh
// pointers, and the first call of a process. The marks are 3 us a call, and 50 ms for the first one of a kernel of the
// pack.
#include <fmt/format.h>
#include <tilewright/tilewright.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <vector>

#include "measure/device.h"
#include "measure/statistics.h"

namespace {

using namespace tilewright;
using Clock = std::chrono::steady_clock;

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
    Problem problem() const {
        Problem p;
        p.a = {row_major(a.data(), Format::e4m3, {m, k}),
               Granularity::block_1x128,
               row_major(a_scales.data(), Format::f32, {m, k / 128}),
               {}};
        p.b = {row_major(b.data(), Format::e4m3, {n, k}),
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

/// Median over batches of the host's time for one call.
double batched(const measure::Device& device, const std::vector<Problem>& problems) {
    std::vector<double> times;
    for (int i = 0; i < repeats; ++i) {
        device.synchronize();
        const auto begin = Clock::now();
        for (int call = 0; call < batch; ++call) {
            run(problems[static_cast<std::size_t>(call) % problems.size()],
                {.backend = Backend::hopper, .stream = device.stream()});
        }
        times.push_back(microseconds(begin) / batch);
    }
    device.synchronize();
    return measure::median(times);
}

void measure_all() {
    const measure::Device device;
    std::vector<Operands> operands(batch);
    std::vector<Problem> problems;
    for (const Operands& each : operands) problems.push_back(each.problem());
    device.synchronize();
    const auto begin = Clock::now();
    run(problems.front(), {.backend = Backend::hopper, .stream = device.stream()});
    device.synchronize();
    const double first = microseconds(begin);
    fmt::print("{}: [{}, {}, {}], 1x128:128x128\n", device.name(), m, n, k);
    fmt::print("first call of the process   {:10.1f} us\n", first);
    fmt::print("same pointers               {:10.2f} us a call\n", batched(device, {problems.front()}));
    fmt::print("fresh pointers every call   {:10.2f} us a call\n", batched(device, problems));
}

}  // namespace

int main() {
    try {
        measure_all();
    } catch (const std::exception& error) {
        fmt::print(stderr, "host_overhead: {}\n", error.what());
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
