// What a call costs on the host, without the driver's own part: validation, lowering, tensor maps of a fake driver,
// launch. Prints nanoseconds a call, the best of several batches; `--json FILE` appends those of whole calls to a file.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>

#include "bench/record.h"
#include "cuda/gpu_problem.h"
#include "output/file.h"
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

int main(int count, char** arguments) {
    const bool to_file = count == 3 && std::string_view(arguments[1]) == "--json";
    if (count > 1 && !to_file) {
        fmt::print(stderr, "usage: cuda_host_time [--json FILE]\n");
        return 2;
    }
    test::FakeMachine machine;
    machine.fake().record_last = false;
    const Problem p = test::gpu_problem({.m = 4096, .n = 7168, .k = 2048});
    const auto first = std::chrono::steady_clock::now();
    machine.runtime().run(p, nullptr);
    const std::chrono::duration<double, std::milli> chosen = std::chrono::steady_clock::now() - first;
    std::vector<Problem> fresh;
    for (std::uintptr_t i = 0; i < 100; ++i)
        fresh.push_back(test::gpu_problem({4096, 7168, 2048}, 0x10000000 * (i + 2)));

    fmt::print("first call, tile chosen        {:9.1f} ms\n", chosen.count());
    const double same = nanoseconds([&](int) { machine.runtime().repeat(p, {}); });
    fmt::print("the same call again            {:9.1f} ns\n", same);
    fmt::print("validate                       {:9.1f} ns\n", nanoseconds([&](int) { validate(p, Backend::hopper); }));
    fmt::print("validate, addresses alone      {:9.1f} ns\n",
               nanoseconds([&](int) { validate_addresses(p, Backend::hopper); }));
    fmt::print("geometry                       {:9.1f} ns\n", nanoseconds([&](int) { (void)geometry(p); }));
    const double changed = nanoseconds([&](int i) {
        const Problem& q = fresh[static_cast<std::size_t>(i)];
        if (machine.runtime().repeat(q, {})) return;
        const bool known = machine.runtime().knows_kind(q);
        if ((known ? validate_addresses(q, Backend::hopper) : validate(q, Backend::hopper)).empty())
            machine.runtime().run(q, {});
    });
    fmt::print("fresh addresses, validated     {:9.1f} ns\n", changed);
    if (!to_file) return 0;
    const nlohmann::ordered_json line{{"figure", "host overhead"},
                                      {"from", "C++, fake driver"},
                                      {"same_pointers_us", std::round(same) * 1e-3},
                                      {"fresh_pointers_us", std::round(changed) * 1e-3}};
    output::append_text(arguments[2], bench::with_origin(line).dump() + "\n");
}
