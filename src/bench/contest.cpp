#include "bench/contest.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include "bench/blas_groups.h"

namespace tilewright::bench {
namespace {

bool is_e4m3(const Recipe& recipe) { return recipe.a.values == Format::e4m3 && recipe.b.values == Format::e4m3; }

bool has_grouped_peers(const BenchShape& shape, const Settings& settings) {
    return settings.peers && !settings.sustained && is_e4m3(settings.recipe) && has_blas_groups(shape.grouping) &&
           settings.layout == Layout::nt;
}

/// Whether B's values are such a large part of the work that reading them is a baseline.
bool has_stream_peer(const BenchShape& shape, const Settings& settings) {
    constexpr std::int64_t most_rows = 64, least_bytes = 1 << 20;
    const bool is_fp8 = bits(settings.recipe.b.values) == 8;
    return settings.peers && !settings.sustained && is_fp8 && shape.grouping == Grouping::dense &&
           shape.m <= most_rows && shape.n * shape.k >= least_bytes;
}

}  // namespace

StreamOfB::StreamOfB(const measure::Device& device, const Problem& problem) : device_(device), b_(problem.b.values) {
    arrived_.fill(0);
}

void StreamOfB::enqueue(cuda::StreamHandle stream) {
    const auto bytes = static_cast<std::size_t>(b_.shape[0] * b_.shape[1]);  // of fp8
    expected_ += device_.enqueue_stream(b_.data, bytes, arrived_, stream);
}

void StreamOfB::check() const {
    std::uint64_t arrived = 0;
    device_.synchronize();
    arrived_.download(&arrived, sizeof arrived);
    if (arrived == expected_) return;
    throw Error(fmt::format("the stream of B's values loaded {} chunks of {}", arrived, expected_));
}

Contest::Contest(const BenchShape& shape, const Settings& settings, GpuOperands& operands,
                 const measure::Device& device, const measure::Call& ours, std::string& note)
    : device_(device) {
    add(Peer::tilewright, "Tilewright", ours);
    if (settings.peers && is_e4m3(settings.recipe) && shape.grouping == Grouping::dense) {
        const auto add_scaled = [&](Peer peer, measure::BlasScaling scaling) {
            add_blas(peer, note, [&] { return measure::plan_blas(operands.blas(scaling), scaling); });
        };
        add_scaled(Peer::blas_tensor, measure::BlasScaling::tensor);
        // The table of continuous load has no columns for it.
        if (!settings.sustained) add_scaled(Peer::blas_blocks, measure::BlasScaling::blocks);
    }
    if (has_grouped_peers(shape, settings)) {
        const auto add_groups = [&](Peer peer, Format values) {
            add_blas(peer, note, [&] {
                measure::require_grouped_blas();  // before there are operands of bf16
                return measure::plan_blas(operands.blas_groups(group_sizes(shape), values));
            });
        };
        add_groups(Peer::blas_groups, Format::e4m3);
        add_groups(Peer::blas_bf16_groups, Format::bf16);
    }
    if (!has_stream_peer(shape, settings)) return;
    stream_.emplace(device, operands.on_device());
    add(Peer::stream, "TMA stream", [this](cuda::StreamHandle stream) { stream_->enqueue(stream); });
}

void Contest::add(Peer peer, const char* name, measure::Call call) {
    peers_.push_back(peer);
    contestants_.push_back({.name = name, .call = std::move(call)});
}

/// Nothing, and a note, where cuBLASLt has no plan for these operands.
template <typename Plan>
void Contest::add_blas(Peer peer, std::string& note, const Plan& plan) {
    try {
        plans_.push_back(plan());
    } catch (const Error& error) {
        if (note.find(error.what()) == std::string::npos)
            note += (note.empty() ? "" : "; ") + std::string(error.what());
        return;
    }
    add(peer, "cuBLASLt", [made = plans_.back().get()](cuda::StreamHandle stream) { made->enqueue(stream); });
}

std::vector<Timing> Contest::race(measure::Stopwatch& stopwatch, int repeats) {
    const std::vector<measure::Measurement> measured = stopwatch.race(contestants_, repeats);
    if (stream_) stream_->check();
    std::vector<Timing> timings;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        const measure::Measurement& each = measured[i];
        timings.push_back({.peer = peers_[i], .seconds = each.seconds, .hertz = each.hertz, .calls = each.calls});
    }
    return timings;
}

std::vector<Timing> Contest::sustain(const measure::LoadSeconds& length, measure::PowerMeter* meter) {
    std::vector<Timing> timings;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        const measure::SustainedTime each = measure::sustain(device_, contestants_[i].call, length, meter);
        timings.push_back({.peer = peers_[i],
                           .seconds = each.seconds,
                           .hertz = each.hertz,
                           .calls = static_cast<int>(each.calls),
                           .watts = each.watts.value_or(0)});
    }
    return timings;
}

}  // namespace tilewright::bench
