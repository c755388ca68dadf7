#include "verify/row.h"

#include <fmt/format.h>
#include <tilewright/run.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <vector>

#include "check/gates.h"
#include "cuda/runtime.h"
#include "plan/choose.h"
#include "verify/gpu_case.h"
#include "verify/shipped.h"

namespace tilewright::verify {
namespace {

constexpr std::size_t failures_kept = 3;

// Real sizes: the edges and a few tiles of each group are judged, so that the whole table takes minutes at most.
constexpr check::Effort real_size_effort{.elements = 1 << 14, .multiply_adds = 1 << 22, .tiles = 4, .seed = 1};

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct Outcome {
    double seconds = 0;
    check::GateReport worst{};
    std::string failure{};
};

std::string one_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

/// Memory that the run wrote but must not, in addition to what the case itself finds. Adds the time of the call to
/// `seconds`.
std::string run_on_gpu(check::Case& test_case, measure::Device& device, const DeviceDescription* planned_for,
                       double& seconds) {
    const std::uint64_t seed = test_case.spec().seed;
    const GpuCase gpu_case(test_case, static_cast<std::int64_t>(seed % 8), 0, seed % 2 == 0);
    const auto begin = Clock::now();
    run(gpu_case.problem(), {.backend = Backend::hopper,
                             .stream = device.stream(),
                             .workspace = gpu_case.workspace(),
                             .device = planned_for});
    device.synchronize();
    seconds = since(begin);
    cuda::runtime().device(0).check_report();
    test_case.set_output(gpu_case.output());
    return gpu_case.damage();
}

/// Whose plan the bits follow.
const DeviceDescription& device_of(const VerifySettings& settings) {
    return settings.device != nullptr ? *settings.device : default_device();
}

Outcome run_arithmetic(check::Case& test_case, Arithmetic arithmetic, const VerifySettings& settings,
                       const check::Effort& effort) {
    Outcome outcome;
    try {
        test_case.problem().arithmetic = arithmetic;
        test_case.reset_output();
        if (settings.gpu != nullptr) {
            outcome.failure = run_on_gpu(test_case, *settings.gpu, settings.device, outcome.seconds);
        } else {
            const auto begin = Clock::now();
            run(test_case.problem(), {.backend = settings.backend, .threads = 1, .device = settings.device});
            outcome.seconds = since(begin);
        }
        const std::vector<std::int64_t> k_splits = planner::planned_k_splits(test_case.problem(), device_of(settings));
        const check::Judgement judgement = check::judge(test_case, effort, k_splits);
        outcome.worst = judgement.worst();
        if (!judgement.pass()) outcome.failure = outcome.worst.text();
        if (settings.gpu == nullptr || !outcome.failure.empty()) return outcome;
        const check::GateReport bits = check::full_emulation_gate(test_case.judged_geometry(), k_splits);
        if (!bits.pass()) outcome.failure = "all of D: " + bits.text();
    } catch (const std::exception& error) {
        outcome.failure = error.what();
    }
    return outcome;
}

void run_case(const VerifyCase& verify_case, const VerifySettings& settings, RowResult& row,
              const std::function<void()>& progress) {
    check::Case test_case(verify_case.spec);
    const bool cpu_only = !taken_by_gpu(test_case.problem());
    const bool waits =
        settings.gpu != nullptr && settings.quick && !cpu_only && !ships(test_case.problem(), device_of(settings));
    for (Arithmetic arithmetic : verify_case.arithmetics) {
        if (settings.gpu != nullptr && cpu_only) {
            row.refused += verify_case.is_more() ? 0 : 1;
            progress();
            continue;
        }
        if (waits) {
            ++row.unshipped;
            progress();
            continue;
        }
        const Outcome outcome =
            run_arithmetic(test_case, arithmetic, settings, verify_case.real_size ? real_size_effort : check::Effort{});
        ++row.cases;
        row.combinations += verify_case.is_more() ? 0 : 1;
        row.seconds += outcome.seconds;
        row.cpu_only += cpu_only ? 1 : 0;
        if (outcome.worst.ratio > row.ratio) {
            row.error = outcome.worst.error;
            row.bound = outcome.worst.bound;
            row.ratio = outcome.worst.ratio;
        }
        if (!outcome.failure.empty()) {
            row.add_failure(fmt::format("{}: arithmetic {}: {}", check::describe(verify_case.spec), name(arithmetic),
                                        outcome.failure));
        }
        progress();
    }
}

}  // namespace

void RowResult::add_failure(const std::string& failure) {
    ++failed;
    if (failures.size() < failures_kept) failures.push_back(one_line(failure));
}

std::int64_t count_cases(const Family& family, const VerifySettings& settings) {
    std::int64_t count = 0;
    for (const VerifyCase& verify_case : cases_of(family, settings.arithmetics, settings.quick)) {
        count += static_cast<std::int64_t>(verify_case.arithmetics.size());
    }
    return count;
}

RowResult run_row(const Family& family, const VerifySettings& settings, const std::function<void()>& progress) {
    RowResult row;
    for (const VerifyCase& verify_case : cases_of(family, settings.arithmetics, settings.quick)) {
        try {
            run_case(verify_case, settings, row, progress);
        } catch (const std::exception& error) {
            row.add_failure(fmt::format("{}: {}", check::describe(verify_case.spec), error.what()));
        }
    }
    return row;
}

}  // namespace tilewright::verify
