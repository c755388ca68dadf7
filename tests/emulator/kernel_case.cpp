#include "emulator/kernel_case.h"

#include "cpu/exact/exact.h"
#include "emulator/kernel_table.h"
#include "formats/packed_layout.h"
#include "launch/kernels.h"
#include "launch/launch.h"
#include "plan/choose.h"
#include "plan/variant.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <vector>

namespace tilewright::tests {
hopper::KernelReport run_on_emulator(const EmulatedKernel& kernel, const Geometry& geometry, const Conditions& run,
                                     emulator::Counts* counts) {
    hopper::KernelReport report{};
    launch::Launch launch = launch::lower(geometry, planner::given_kernel(geometry, kernel.tile), run.sms);
    if (launch.blocks == 0) return report;
    hopper::AllArguments& arguments = launch.arguments;
    arguments.report = &report;
    arguments.weights_ready = run.earlier != nullptr;
    launch::encode_maps(launch, arguments, [](auto& map, const auto& description, const char* /*operand*/) {
        map = emulator::encode(description);
    });
    emulator::launch({.blocks = launch.blocks,
                      .cluster = launch.cluster,
                      .threads = launch.threads,
                      .shared_bytes = launch.shared_bytes,
                      .tma = run.tma,
                      .wgmma = run.wgmma,
                      .seed = run.seed,
                      .role = [&](int warp) { return hopper::word(role_of(kernel.tile, warp)); },
                      .counts = counts,
                      .lost_load = run.lost_load,
                      .earlier = run.earlier},
                     [&] { kernel.run(arguments); });
    return report;
}

namespace {

/// The call with packed weights, where the tile takes them.
struct PackedCase {
    PackedCase(const check::Case& test, const hopper::Design& tile) : problem(test.problem()) {
        if (!tile.b.is_packed()) return;
        weights = pack_weights(problem.b, tile.order.step == StepKind::bf16 ? PackedFor::bf16 : PackedFor::fp8);
        problem.b = {.packed = weights};
    }

    OwnedPackedWeights weights;
    Problem problem;
};

/// Rows of A, or of scales that are adjacent along k, which TMA was asked for and which do not exist.
std::string outside_rows(const hopper::Design& tile, const Geometry& g, const emulator::Counts& counts) {
    if (tile.groups == hopper::Groups::rows || tile.groups == hopper::Groups::k_anywhere ||
        tile.operand_a().side.form == hopper::Form::columns)
        return {};
    const auto outside = [&](const void* base) {
        const auto found = counts.outside_rows.find(base);
        return found == counts.outside_rows.end() ? 0 : found->second;
    };
    const int rest = static_cast<int>(g.m % tile.d_rows);
    const std::int64_t k_blocks = (g.k + 127) / 128;
    const std::int64_t tiles =
        hopper::tiles_along(static_cast<int>(g.n), tile.d_columns * tile.cluster.columns) * g.groups;
    const std::int64_t allowed = (rows_of_a(tile, rest) - rest) * k_blocks * tiles;
    // Blocks that share A load its scales for themselves.
    const bool shares = tile.cluster.columns > 1;
    const std::int64_t allowed_scales = shares ? allowed * tile.cluster.size() : allowed;
    if (outside(g.a.values) <= allowed && outside(g.a.scales) <= allowed_scales) return {};
    return fmt::format("TMA was asked for {} rows of A and {} of its scales that do not exist; {} may be",
                       outside(g.a.values), outside(g.a.scales), allowed);
}

/// The first element of D that differs, or nothing.
std::string wrong_element(const check::CaseSpec& spec, const Geometry& g, const std::vector<std::byte>& given,
                          const std::vector<std::byte>& expected, bool any_nan) {
    if (given == expected) return {};
    const auto bytes = static_cast<std::size_t>(bits(g.output) / 8);
    const bool separate = spec.grouping == Grouping::batched || spec.grouping == Grouping::m_grouped_masked ||
                          is_k_grouped(spec.grouping);
    for (std::int64_t group = 0; group < (separate ? spec.groups : 1); ++group) {
        for (std::int64_t row = 0; row < spec.m; ++row) {
            for (std::int64_t column = 0; column < spec.n; ++column) {
                const std::size_t at = static_cast<std::size_t>(output_index(g.d, group, row, column)) * bytes;
                std::uint32_t is = 0;
                std::uint32_t must = 0;
                std::memcpy(&is, given.data() + at, bytes);
                std::memcpy(&must, expected.data() + at, bytes);
                const auto is_nan = [](std::uint32_t f32) { return (f32 & 0x7FFFFFFFU) > 0x7F800000U; };
                if (is == must || (any_nan && bytes == 4 && is_nan(is) && is_nan(must))) continue;
                return fmt::format("wrong result: batch {} row {} column {} is {:#x}, must be {:#x}", group, row,
                                   column, is, must);
            }
        }
    }
    return {};
}

}  // namespace

std::string describe(const Conditions& run) {
    const auto early_or_late = [](emulator::Timing t) { return t == emulator::Timing::early ? "early" : "late"; };
    return fmt::format("{} SMs, tma {}, wgmma {}, seed {}", run.sms, early_or_late(run.tma), early_or_late(run.wgmma),
                       run.seed);
}

std::string describe(const EmulatedKernel& kernel, const check::CaseSpec& spec, const Conditions& run) {
    return launch::describe(kernel.tile) + "\n" + check::describe(spec) + "\n" + describe(run);
}

bool serves(const EmulatedKernel& kernel, const check::CaseSpec& spec) {
    if (kernel.tile.output == hopper::Output::any) return true;
    check::CaseSpec quick = spec;  // the values do not matter, and these take no time to draw
    quick.distribution = check::Distribution::ones;
    return planner::can_run(check::Case(quick).geometry(), kernel.tile);
}

std::string difference(const EmulatedKernel& kernel, const check::CaseSpec& spec, const Conditions& run) {
    check::Case test(spec);
    return difference(kernel, test, run);
}

std::string difference(const EmulatedKernel& kernel, check::Case& test, const Conditions& run,
                       const std::function<void()>& fill_c, bool any_nan) {
    const check::CaseSpec& spec = test.spec();
    const Geometry g = test.geometry();
    if (fill_c) fill_c();
    const std::vector<std::int64_t> k_splits = planner::k_splits(kernel.tile, spec.k);
    cpu::run_exact(g, cpu::ExactOptions{.threads = 1, .k_splits = k_splits});
    const std::vector<std::byte> expected = test.output();
    test.reset_output();
    if (fill_c) fill_c();
    const PackedCase packed(test, kernel.tile);
    const bool wide = formats::internal_of(packed.weights) != formats::PackedInternal{};
    if (wide != kernel.tile.wide_rows) return wide ? "the weights have wide rows" : "no row of weights is wide";
    emulator::Counts counts;
    try {
        const hopper::KernelReport report = run_on_emulator(kernel, geometry(packed.problem), run, &counts);
        if ((report.producer.word | report.consumer.word | report.mixed.word) != 0) return "a report to the host";
    } catch (const emulator::Error& error) {
        return error.what();
    }
    if (const std::string wrong = wrong_element(spec, g, test.output(), expected, any_nan); !wrong.empty())
        return wrong;
    if (run.counts != nullptr) *run.counts = counts;
    if (const std::string outside = outside_rows(kernel.tile, g, counts); !outside.empty()) return outside;
    return test.damage();
}

}  // namespace tilewright::tests
