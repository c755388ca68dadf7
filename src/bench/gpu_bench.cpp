#include "bench/gpu_bench.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "bench/contest.h"
#include "check/gates.h"
#include "check/sizes.h"
#include "cuda/runtime.h"
#include "plan/choose.h"
#include "problem/geometry.h"

namespace tilewright::bench {
namespace {

constexpr check::Effort sampled{.elements = 1 << 14, .multiply_adds = 1 << 22, .tiles = 8, .seed = 1};

void call_once(const measure::Device& device, GpuOperands& operands, const measure::Call& call) {
    operands.poison_output();
    device.synchronize();
    call(device.stream());
    device.synchronize();
    cuda::runtime().device(0).check_report();
}

/// The gates' verdict on the result of one call.
std::string failure_of(const measure::Call& call, GpuOperands& operands, const hopper::Kernel& tile,
                       const measure::Device& device) {
    call_once(device, operands, call);
    operands.fetch_output();
    return judged_output(operands, tile);
}

/// The tile that --tile names, or the planner's choice.
planner::PlannedTile tile_of(const Problem& problem, const Settings& settings, const DeviceDescription& device) {
    if (settings.tile) return *settings.tile;
    if (settings.tuned_rows) return planner::planned_tile(planner::runnable_plans(problem, device).front());
    Explanation explanation = planner::explain(problem, device, {});
    if (!explanation.chosen) throw Error(std::move(explanation.unavailable));
    return planner::planned_tile(*explanation.chosen);
}

}  // namespace

ProblemSizes gpu_sizes(const BenchShape& shape, const Settings& settings) {
    const check::CaseSpec spec = grouped_case(shape);
    return {.grouping = shape.grouping,
            .recipe = settings.recipe,
            .layout = settings.layout,
            .output = settings.output,
            .m = spec.m,
            .n = spec.n,
            .k = spec.k,
            .groups = spec.groups,
            .expected_m = shape.expected_m(),
            .sm_limit = settings.sm_limit,
            .with_c = settings.accumulate,
            .accumulation = settings.accumulation,
            .reproducibility = settings.reproducibility,
            .wide_rows = settings.wide_rows};
}

GpuOperands gpu_operands(const BenchShape& shape, const Settings& settings) {
    return {gpu_sizes(shape, settings), settings.scales, check::size_entries(grouped_case(shape)), settings.unpacked};
}

std::uint64_t output_hash(const measure::Device& device, GpuOperands& operands, const measure::Call& call) {
    const measure::Buffer sum(sizeof(std::uint64_t));
    sum.fill(0);
    call_once(device, operands, call);
    device.enqueue_hash(operands.output(), sum, device.stream());
    device.synchronize();
    std::uint64_t hash = 0;
    sum.download(&hash, sizeof(hash));
    return hash;
}

std::string judged_output(const GpuOperands& operands, const hopper::Kernel& tile) {
    constexpr std::array gates{check::Gate::emulation, check::Gate::running_bound};
    const Geometry host = geometry(operands.host());
    const std::vector<std::int64_t> k_splits = planner::k_splits(tile, host.k);
    for (const check::GateReport& report : check::run_gates(
             gates, host, {.arithmetic = Arithmetic::bit_exact, .effort = sampled, .k_splits = k_splits})) {
        if (!report.pass()) return report.text();
    }
    return "";
}

GpuBench::GpuBench(measure::Flush flush) : flush_(flush), description_(cuda::runtime().device(0).description()) {}

measure::Stopwatch& GpuBench::stopwatch() {
    if (!stopwatch_) stopwatch_.emplace(device_, flush_);
    return *stopwatch_;
}

measure::PowerMeter* GpuBench::power_meter() {
    if (power_meter_ != nullptr || !no_power_.empty()) return power_meter_.get();
    try {
        power_meter_ = std::make_unique<measure::PowerMeter>(device_.bus_id());
    } catch (const Error& error) {
        no_power_ = error.what();
    }
    return power_meter_.get();
}

std::string GpuBench::power_source() {
    const measure::PowerMeter* meter = power_meter();
    return meter == nullptr ? "not measured: " + no_power_ : fmt::format("NVML's {}", meter->source());
}

Peaks GpuBench::peaks(const Recipe& recipe) const {
    const double products = description_.fp8_products_per_clock / (recipe.a.values == Format::bf16 ? 2.0 : 1.0);
    return {.flops_per_second = 2.0 * products * description_.sms * description_.boost_hertz,
            .bytes_per_second = description_.memory_bytes_per_second,
            .source = "tensor cores at the boost clock, measured HBM rate"};
}

Result GpuBench::run(const BenchShape& shape, const Settings& settings) {
    GpuOperands operands = gpu_operands(shape, settings);
    const Problem problem = operands.on_device();
    std::vector<Finding> findings = validate(problem, Backend::hopper);
    if (!findings.empty()) throw Error(std::move(findings));
    Result result{.shape = shape, .work = compulsory_work(geometry(operands.host()))};
    result.tile = tile_of(problem, settings, description_);
    const hopper::Kernel tile = planner::runnable_tile(*result.tile, problem, description_);
    const Geometry on_device = geometry(problem);
    const auto enqueue = [&](cuda::StreamHandle stream, bool overlap) {
        cuda::runtime().run(
            on_device, tile,
            {.stream = stream, .sm_limit = settings.sm_limit, .overlap = overlap, .workspace = operands.workspace()});
    };
    const measure::Call call = [&](cuda::StreamHandle stream) { enqueue(stream, false); };
    const measure::Call overlapping = [&](cuda::StreamHandle stream) { enqueue(stream, true); };

    result.failure = failure_of(call, operands, tile, device_);
    if (settings.overlap && result.failure.empty()) result.failure = failure_of(overlapping, operands, tile, device_);
    if (!result.failure.empty()) return result;

    Contest contest(shape, settings, operands, device_, call, result.note);
    if (settings.sustained) {
        result.timings = contest.sustain({.warm_up = settings.seconds, .measured = settings.seconds}, power_meter());
        return result;
    }
    result.timings = contest.race(stopwatch(), settings.repeats);
    if (settings.overlap) result.sequence = measure::time_sequences(device_, call, overlapping, settings.repeats);
    return result;
}

}  // namespace tilewright::bench
