#include "bench/gpu_bench.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/peers_table.h"
#include "check/gates.h"
#include "check/sizes.h"
#include "cuda/runtime.h"
#include "plan/k_splits.h"
#include "plan/runnable.h"
#include "problem/geometry.h"

namespace tilewright::bench {
namespace {

constexpr check::Effort sampled{.elements = 1 << 14, .multiply_adds = 1 << 22, .tiles = 8, .seed = 1};

/// cuBLASLt's plan for these operands; nothing, and a note, where it has none.
std::unique_ptr<measure::BlasPlan> peer_plan(GpuOperands& operands, measure::BlasScaling scaling, std::string& note) {
    try {
        return measure::plan_blas(operands.blas(scaling), scaling);
    } catch (const Error& error) {
        note = error.what();
        return nullptr;
    }
}

/// What the gates say of the result of one call.
std::string failure_of(const measure::Call& call, GpuOperands& operands, const hopper::Tile& tile,
                       const measure::Device& device) {
    operands.poison_output();
    call(device.stream());
    device.synchronize();
    cuda::runtime().device(0).check_report();
    operands.fetch_output();
    return judged_output(operands, tile);
}

/// Copies B's values into shared memory, where nobody asks for them.
class StreamOfB {
public:
    StreamOfB(const measure::Device& device, const Problem& problem) : device_(device), b_(problem.b.values) {
        arrived_.fill(0);
    }
    void enqueue(cuda::StreamHandle stream) {
        const auto bytes = static_cast<std::size_t>(b_.shape[0] * b_.shape[1]);  // of fp8
        expected_ += device_.enqueue_stream(b_.data, bytes, arrived_, stream);
    }
    /// Throws Error unless all of every call came.
    void check() const {
        std::uint64_t arrived = 0;
        device_.synchronize();
        arrived_.download(&arrived, sizeof arrived);
        if (arrived == expected_) return;
        throw Error(fmt::format("the stream of B's values brought {} chunks of {}", arrived, expected_));
    }

private:
    const measure::Device& device_;
    Tensor b_;
    measure::Buffer arrived_{sizeof(std::uint64_t)};
    std::uint64_t expected_ = 0;
};

bool is_e4m3(const Recipe& recipe) { return recipe.a.values == Format::e4m3 && recipe.b.values == Format::e4m3; }

/// Whether B's values are so much of the work that reading them alone is a peer.
bool has_stream_peer(const BenchShape& shape, const GpuSettings& settings) {
    constexpr std::int64_t most_rows = 64, least_bytes = 1 << 20;
    const bool is_fp8 = bits(settings.recipe.b.values) == 8;
    return settings.peers && is_fp8 && shape.grouping == Grouping::dense && shape.m <= most_rows &&
           shape.n * shape.k >= least_bytes;
}

}  // namespace

ProblemSizes gpu_sizes(const BenchShape& shape, const GpuSettings& settings) {
    const check::CaseSpec spec = grouped_case(shape);
    return {.grouping = shape.grouping,
            .recipe = settings.recipe,
            .output = settings.output,
            .m = spec.m,
            .n = spec.n,
            .k = spec.k,
            .groups = spec.groups,
            .expected_m = shape.grouping == Grouping::m_grouped_masked ? shape.m : 0,
            .sm_limit = settings.sm_limit,
            .accumulation = settings.accumulation,
            .reproducibility = settings.reproducibility};
}

GpuOperands gpu_operands(const BenchShape& shape, const GpuSettings& settings) {
    return {gpu_sizes(shape, settings), settings.scales, check::size_entries(grouped_case(shape))};
}

std::string judged_output(const GpuOperands& operands, const hopper::Tile& tile) {
    constexpr std::array gates{check::Gate::emulation, check::Gate::running_bound};
    const Geometry host = geometry(operands.host());
    const std::vector<std::int64_t> k_splits = planner::k_splits(tile, host.k);
    for (const check::GateReport& report : check::run_gates(
             gates, host, {.arithmetic = Arithmetic::bit_exact, .effort = sampled, .k_splits = k_splits})) {
        if (!report.pass()) return report.text();
    }
    return "";
}

GpuBench::GpuBench(measure::Flush flush)
    : stopwatch_(device_, flush), description_(cuda::runtime().device(0).description()) {}

Peaks GpuBench::peaks() const {
    return {.flops_per_second = 2.0 * description_.fp8_products_per_clock * description_.sms * description_.boost_hertz,
            .bytes_per_second = description_.memory_bytes_per_second,
            .source = "tensor cores at the boost clock, measured HBM rate"};
}

GpuResult GpuBench::run(const BenchShape& shape, const GpuSettings& settings) {
    GpuOperands operands = gpu_operands(shape, settings);
    const Problem problem = operands.on_device();
    std::vector<Finding> findings = validate(problem, Backend::hopper);
    if (!findings.empty()) throw Error(std::move(findings));
    GpuResult result{.shape = shape, .work = compulsory_work(geometry(operands.host()))};
    result.tile = settings.tile ? *settings.tile : planner::runnable_plans(problem, description_).front().tile;
    const hopper::Tile tile = planner::runnable_tile(result.tile, problem, description_);
    const Geometry on_device = geometry(problem);
    const auto enqueue = [&](cuda::StreamHandle stream, bool overlap) {
        cuda::runtime().run(on_device, tile, {.stream = stream, .sm_limit = settings.sm_limit, .overlap = overlap});
    };
    const measure::Call call = [&](cuda::StreamHandle stream) { enqueue(stream, false); };
    const measure::Call overlapping = [&](cuda::StreamHandle stream) { enqueue(stream, true); };

    result.failure = failure_of(call, operands, tile, device_);
    if (settings.overlap && result.failure.empty()) result.failure = failure_of(overlapping, operands, tile, device_);
    if (!result.failure.empty()) return result;

    std::vector<measure::Contestant> contestants{{.name = "Tilewright", .call = call}};
    std::unique_ptr<measure::BlasPlan> tensor;
    std::unique_ptr<measure::BlasPlan> blocks;
    std::optional<GpuOperands> control;
    if (settings.peers && is_e4m3(settings.recipe)) {
        const bool dense = shape.grouping == Grouping::dense;
        if (!dense) control.emplace(gpu_operands(grouped_control, settings));
        tensor = peer_plan(dense ? operands : *control, measure::BlasScaling::tensor, result.note);
        if (dense) blocks = peer_plan(operands, measure::BlasScaling::blocks, result.note);
    }
    if (tensor) contestants.push_back({"cuBLASLt", [&](cuda::StreamHandle stream) { tensor->enqueue(stream); }});
    if (blocks) contestants.push_back({"cuBLASLt blocks", [&](cuda::StreamHandle stream) { blocks->enqueue(stream); }});
    std::optional<StreamOfB> stream_of_b;
    if (has_stream_peer(shape, settings)) {
        stream_of_b.emplace(device_, problem);
        contestants.push_back({"TMA stream", [&](cuda::StreamHandle stream) { stream_of_b->enqueue(stream); }});
    }
    const std::vector<measure::Measurement> measured = stopwatch_.race(contestants, settings.repeats);
    auto next = measured.begin();
    result.ours = *next++;
    if (tensor) result.blas_tensor = *next++;
    if (blocks) result.blas_blocks = *next++;
    if (stream_of_b) {
        result.stream = *next++;
        stream_of_b->check();
    }
    if (settings.overlap) result.chain = measure::time_chains(device_, call, overlapping, settings.repeats);
    return result;
}

}  // namespace tilewright::bench
