#include "bench/cpu_bench.h"

#include <tilewright/run.h>

#include <chrono>
#include <functional>
#include <utility>

#include "bench/blas_baseline.h"
#include "check/gates.h"
#include "cpu/blas.h"
#include "measure/statistics.h"
#include "plan/choose.h"

namespace tilewright::bench {
namespace {

constexpr double peer_memory_limit = 6.0 * (std::uint64_t{1} << 30);

constexpr check::Effort bench_effort{.elements = 1 << 14, .multiply_adds = 1 << 22, .tiles = 4, .seed = 1};

check::CaseSpec case_spec(const BenchShape& shape, const Settings& settings) {
    check::CaseSpec spec = grouped_case(shape);
    spec.recipe = settings.recipe;
    spec.layout = settings.layout;
    spec.output = settings.output;
    spec.arithmetic = settings.arithmetic;
    return spec;
}

/// Replaces the contents of the caches. The last pass reads, so that no line is left dirty.
void flush_caches() {
    static std::vector<std::uint64_t> buffer((std::size_t{128} << 20) / sizeof(std::uint64_t));
    [[maybe_unused]] static volatile std::uint64_t sink = 0;
    const auto size = static_cast<std::int64_t>(buffer.size());
    std::uint64_t sum = 0;
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < size; ++i) ++buffer[i];
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (std::int64_t i = 0; i < size; ++i) sum += buffer[i];
    sink = sum;
}

Timing median_time(Peer peer, const Settings& settings, const std::function<void()>& call) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    const auto since = [](Clock::time_point from) {
        return std::chrono::duration<double>(Clock::now() - from).count();
    };
    std::vector<double> times;
    call();  // includes one-time work: libraries, thread pools, pages
    while (static_cast<int>(times.size()) < settings.repeats) {
        if (times.size() >= 3 && since(begin) > settings.seconds) break;
        if (!settings.warm) flush_caches();
        const auto start = Clock::now();
        call();
        times.push_back(since(start));
    }
    return {.peer = peer, .seconds = measure::median(times), .calls = static_cast<int>(times.size())};
}

}  // namespace

Result run_on_cpu(const BenchShape& shape, const Settings& settings) {
    check::Case bench_case(case_spec(shape, settings));
    const RunOptions options{.backend = settings.backend, .stream = nullptr, .threads = settings.threads};
    run(bench_case.problem(), options);
    Result result{.shape = shape, .work = compulsory_work(bench_case.geometry())};
    const check::Judgement judgement =
        check::judge(bench_case, bench_effort, planner::planned_k_splits(bench_case.problem(), default_device()));
    if (!judgement.pass()) {
        result.failure = judgement.worst().text();
        return result;
    }
    result.timings.push_back(median_time(Peer::tilewright, settings, [&] { run(bench_case.problem(), options); }));
    const bool fits = BlasPeer::bytes(bench_case.geometry()) < peer_memory_limit;
    if (settings.peers && cpu::blas_found() && fits) {
        BlasPeer peer(bench_case.geometry(), settings.threads);
        result.timings.push_back(median_time(Peer::sgemm, settings, [&] { peer.run(); }));
    }
    return result;
}

}  // namespace tilewright::bench
