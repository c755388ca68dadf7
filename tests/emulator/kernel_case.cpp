#include "emulator/kernel_case.h"

#include "cpu/exact/exact.h"
#include "hopper/tile/budget.h"
#include "launch/launch.h"
#include "plan/k_splits.h"
#include "plan/variant.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

namespace tilewright::tests {
namespace {

const char* word(hopper::Role role) {
    switch (role) {
        case hopper::Role::load: return "load";
        case hopper::Role::scheduler: return "scheduler";
        case hopper::Role::block_and_epilogue_scales: return "block and epilogue scales";
        case hopper::Role::row_scales: return "row scales";
        case hopper::Role::store: return "store";
        case hopper::Role::spare: return "spare";
        case hopper::Role::multiply: return "multiply";
    }
    return "?";
}

}  // namespace

hopper::KernelReport run_on_emulator(const Kernel& kernel, const Geometry& geometry, const Conditions& run) {
    hopper::KernelReport report{};
    launch::Launch launch = launch::lower(geometry, kernel.tile, run.sms);
    if (launch.blocks == 0) return report;
    hopper::Arguments& arguments = launch.arguments;
    arguments.report = &report;
    arguments.a = emulator::encode(launch.a);
    arguments.b = emulator::encode(launch.b);
    if (launch.d) arguments.d = emulator::encode(*launch.d);
    if (launch.a_scales) arguments.a_scales = emulator::encode(*launch.a_scales);
    if (launch.b_scales) arguments.b_scales = emulator::encode(*launch.b_scales);
    emulator::launch({.blocks = launch.blocks,
                      .cluster = launch.cluster,
                      .threads = launch.threads,
                      .shared_bytes = launch.shared_bytes,
                      .tma = run.tma,
                      .wgmma = run.wgmma,
                      .seed = run.seed,
                      .registers = launch_registers(kernel.tile),
                      .role = [&](int warp) { return word(role_of(kernel.tile, warp)); }},
                     [&] { kernel.run(arguments); });
    return report;
}

namespace {

/// The first element of D that differs, or nothing.
std::string wrong_element(const check::CaseSpec& spec, const Geometry& g, const std::vector<std::byte>& given,
                          const std::vector<std::byte>& expected) {
    if (given == expected) return {};
    const auto bytes = static_cast<std::size_t>(bits(g.output) / 8);
    const bool separate = spec.grouping == Grouping::batched || spec.grouping == Grouping::m_grouped_masked;
    for (std::int64_t group = 0; group < (separate ? spec.groups : 1); ++group) {
        for (std::int64_t row = 0; row < spec.m; ++row) {
            for (std::int64_t column = 0; column < spec.n; ++column) {
                const std::size_t at = static_cast<std::size_t>(output_index(g.d, group, row, column)) * bytes;
                std::uint32_t is = 0;
                std::uint32_t must = 0;
                std::memcpy(&is, given.data() + at, bytes);
                std::memcpy(&must, expected.data() + at, bytes);
                if (is == must) continue;
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

bool serves(const Kernel& kernel, const check::CaseSpec& spec) {
    if (!is_fast(kernel.tile)) return true;
    const check::Case test(spec);
    return planner::serves(test.geometry(), kernel.tile);
}

std::string difference(const Kernel& kernel, const check::CaseSpec& spec, const Conditions& run) {
    check::Case test(spec);
    const Geometry g = test.geometry();
    const std::vector<std::int64_t> k_splits = planner::k_splits(kernel.tile, spec.k);
    cpu::run_exact(g, cpu::ExactOptions{.threads = 1, .k_splits = k_splits});
    const std::vector<std::byte> expected = test.output();
    test.reset_output();
    try {
        const hopper::KernelReport report = run_on_emulator(kernel, g, run);
        if ((report.producer.word | report.consumer.word | report.mixed.word) != 0) return "a report to the host";
    } catch (const emulator::Error& error) {
        return error.what();
    }
    if (const std::string wrong = wrong_element(spec, g, test.output(), expected); !wrong.empty()) return wrong;
    return test.damage();
}

}  // namespace tilewright::tests
