#include "bench/gpu_bench.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
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
        throw Error(fmt::format("the stream of B's values loaded {} chunks of {}", arrived, expected_));
    }

private:
    const measure::Device& device_;
    Tensor b_;
    measure::Buffer arrived_{sizeof(std::uint64_t)};
    std::uint64_t expected_ = 0;
};

bool is_e4m3(const Recipe& recipe) { return recipe.a.values == Format::e4m3 && recipe.b.values == Format::e4m3; }

/// Whether B's values are so much of the work that reading them alone is a peer.
bool has_stream_peer(const BenchShape& shape, const Settings& settings) {
    constexpr std::int64_t most_rows = 64, least_bytes = 1 << 20;
    const bool is_fp8 = bits(settings.recipe.b.values) == 8;
    return settings.peers && is_fp8 && shape.grouping == Grouping::dense && shape.m <= most_rows &&
           shape.n * shape.k >= least_bytes;
}

/// Tilewright's call and those of its peers, timed in turns.
class Contest {
public:
    Contest(const BenchShape& shape, const Settings& settings, GpuOperands& operands, const measure::Device& device,
            std::string& note)
        : repeats_(settings.repeats) {
        if (settings.peers && is_e4m3(settings.recipe)) {
            const bool dense = shape.grouping == Grouping::dense;
            if (!dense) reference_.emplace(gpu_operands(grouped_reference, settings));
            add(Peer::blas_tensor, peer_plan(dense ? operands : *reference_, measure::BlasScaling::tensor, note));
            if (dense) add(Peer::blas_blocks, peer_plan(operands, measure::BlasScaling::blocks, note));
        }
        if (has_stream_peer(shape, settings)) stream_.emplace(device, operands.on_device());
    }

    std::vector<Timing> times(measure::Stopwatch& stopwatch, const measure::Call& ours) {
        std::vector<measure::Contestant> contestants{{.name = "Tilewright", .call = ours}};
        std::vector<Peer> peers{Peer::tilewright};
        for (const auto& planned : plans_) {
            peers.push_back(planned.first);
            contestants.push_back({.name = "cuBLASLt",
                                   .call = [&planned](cuda::StreamHandle stream) { planned.second->enqueue(stream); }});
        }
        if (stream_) {
            peers.push_back(Peer::stream);
            contestants.push_back(
                {.name = "TMA stream", .call = [this](cuda::StreamHandle stream) { stream_->enqueue(stream); }});
        }
        const std::vector<measure::Measurement> measured = stopwatch.race(contestants, repeats_);
        if (stream_) stream_->check();
        std::vector<Timing> timings;
        for (std::size_t i = 0; i < peers.size(); ++i) {
            const measure::Measurement& each = measured[i];
            timings.push_back({.peer = peers[i], .seconds = each.seconds, .hertz = each.hertz, .calls = each.calls});
        }
        return timings;
    }

private:
    void add(Peer peer, std::unique_ptr<measure::BlasPlan> plan) {
        if (plan != nullptr) plans_.emplace_back(peer, std::move(plan));
    }

    int repeats_;
    std::optional<GpuOperands> reference_;  // of grouped calls, which cuBLASLt has none of
    std::vector<std::pair<Peer, std::unique_ptr<measure::BlasPlan>>> plans_;
    std::optional<StreamOfB> stream_;
};

}  // namespace

ProblemSizes gpu_sizes(const BenchShape& shape, const Settings& settings) {
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

GpuOperands gpu_operands(const BenchShape& shape, const Settings& settings) {
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

Result GpuBench::run(const BenchShape& shape, const Settings& settings) {
    GpuOperands operands = gpu_operands(shape, settings);
    const Problem problem = operands.on_device();
    std::vector<Finding> findings = validate(problem, Backend::hopper);
    if (!findings.empty()) throw Error(std::move(findings));
    Result result{.shape = shape, .work = compulsory_work(geometry(operands.host()))};
    result.tile = settings.tile ? *settings.tile : planner::runnable_plans(problem, description_).front().tile;
    const hopper::Tile tile = planner::runnable_tile(*result.tile, problem, description_);
    const Geometry on_device = geometry(problem);
    const auto enqueue = [&](cuda::StreamHandle stream, bool overlap) {
        cuda::runtime().run(on_device, tile, {.stream = stream, .sm_limit = settings.sm_limit, .overlap = overlap});
    };
    const measure::Call call = [&](cuda::StreamHandle stream) { enqueue(stream, false); };
    const measure::Call overlapping = [&](cuda::StreamHandle stream) { enqueue(stream, true); };

    result.failure = failure_of(call, operands, tile, device_);
    if (settings.overlap && result.failure.empty()) result.failure = failure_of(overlapping, operands, tile, device_);
    if (!result.failure.empty()) return result;

    Contest contest(shape, settings, operands, device_, result.note);
    result.timings = contest.times(stopwatch_, call);
    if (settings.overlap) result.sequence = measure::time_sequences(device_, call, overlapping, settings.repeats);
    return result;
}

}  // namespace tilewright::bench
