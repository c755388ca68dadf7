// Measures a call's cost on the host, without the driver's own part: validation, lowering, tensor maps of a fake
// driver, launch. Prints nanoseconds per call, the best of several batches.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cuda/gpu_problem.h"
#include "problem/addresses.h"

namespace {

using namespace tilewright;

template <class Call>
double nanoseconds(const Call& call) {
    double best = 1e30;
    for (int batch = 0; batch < 200; ++batch) {
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < 100; ++i) call(i);
        const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
        best = std::min(best, time.count() / 100);
    }
    return best;
}

}  // namespace

int main() {
    test::FakeMachine machine;
    machine.fake().record_last = false;
    const Problem p = test::gpu_problem({.m = 4096, .n = 7168, .k = 2048});
    const auto first = std::chrono::steady_clock::now();
    machine.run(p, nullptr);
    const std::chrono::duration<double, std::milli> chosen = std::chrono::steady_clock::now() - first;
    std::vector<Problem> fresh;
    for (std::uintptr_t i = 0; i < 100; ++i)
        fresh.push_back(test::gpu_problem({4096, 7168, 2048}, 0x10000000 * (i + 2)));

    fmt::print("first call, tile chosen        {:9.1f} ms\n", chosen.count());
    fmt::print("the same call again            {:9.1f} ns\n",
               nanoseconds([&](int) { machine.runtime().repeat(p, {}); }));
    fmt::print("validate                       {:9.1f} ns\n", nanoseconds([&](int) { validate(p, Backend::hopper); }));
    fmt::print("validate, addresses alone      {:9.1f} ns\n",
               nanoseconds([&](int) { validate_addresses(p, Backend::hopper); }));
    fmt::print("geometry                       {:9.1f} ns\n", nanoseconds([&](int) { (void)geometry(p); }));
    fmt::print("fresh addresses, validated     {:9.1f} ns\n", nanoseconds([&](int i) {
                   const Problem& q = fresh[static_cast<std::size_t>(i)];
                   if (machine.runtime().repeat(q, {})) return;
                   const bool known = machine.runtime().knows_kind(q);
                   if ((known ? validate_addresses(q, Backend::hopper) : validate(q, Backend::hopper)).empty())
                       machine.run(q, {});
               }));
}
