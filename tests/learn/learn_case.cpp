#include "learn/learn_case.h"

#include <fmt/format.h>

#include <cstring>

#include "cpu/exact/exact.h"
#include "hopper/arguments.h"
#include "learn/call.h"

#include "emulator/primitives.h"

namespace tilewright::tests {
namespace {

using emulator::Timing;

const char* role(int warp) {
    if (warp >= 4) return "multiply";
    return warp == 0 ? "load" : warp == 1 ? "store" : "spare";
}

/// The first element of D that differs, or nothing.
std::string wrong_element(const Geometry& g, const std::vector<std::byte>& given,
                          const std::vector<std::byte>& expected) {
    for (std::int64_t row = 0; row < g.m; ++row) {
        for (std::int64_t column = 0; column < g.n; ++column) {
            const auto at = static_cast<std::size_t>(output_index(g.d, 0, row, column)) * sizeof(std::uint16_t);
            std::uint16_t is = 0, must = 0;
            std::memcpy(&is, given.data() + at, sizeof(is));
            std::memcpy(&must, expected.data() + at, sizeof(must));
            if (is == must) continue;
            return fmt::format("wrong result: row {} column {} is {:#x}, must be {:#x}", row, column, is, must);
        }
    }
    return given == expected ? "" : "wrong result: D differs between its rows";
}

}  // namespace

const std::vector<Timings>& all_timings() {
    static const std::vector<Timings> list = [] {
        std::vector<Timings> made;
        for (const Timing tma : {Timing::early, Timing::late}) {
            for (const Timing wgmma : {Timing::early, Timing::late}) {
                for (const std::uint64_t seed : {0, 1, 2}) made.push_back({.tma = tma, .wgmma = wgmma, .seed = seed});
            }
        }
        return made;
    }();
    return list;
}

std::string describe(const Timings& t) {
    const auto word = [](Timing timing) { return timing == Timing::early ? "early" : "late"; };
    return fmt::format("{} SMs, tma {}, wgmma {}, seed {}", t.sms, word(t.tma), word(t.wgmma), t.seed);
}

check::CaseSpec learning_call(std::int64_t m, std::int64_t n, std::int64_t k) {
    return {.recipe = parse_recipe("1x128:128x128").value(),
            .m = m,
            .n = n,
            .k = k,
            .seed = static_cast<std::uint64_t>(m + n + k),
            .a_scale_gaps = {.row = (4 - m % 4) % 4},
            .d_gaps = {.row = (8 - n % 8) % 8},
            .a_scales_transposed = true,
            .b_scales_transposed = m % 2 == 0};
}

LearningKernel learning_kernel() { return kernel_of(&learn::block_scaled_gemm); }

std::string outcome(const LearningKernel& kernel, const check::CaseSpec& spec, const Timings& timings) {
    check::Case test(spec);
    const Geometry g = test.geometry();
    cpu::run_exact(g, cpu::ExactOptions{.threads = 1});
    const std::vector<std::byte> expected = test.output();
    test.reset_output();
    learn::Call call = learn::call(g, timings.sms);
    hopper::u64 report = 0;
    call.arguments.a = emulator::encode(call.a);
    call.arguments.b = emulator::encode(call.b);
    call.arguments.a_scales = emulator::encode(call.a_scales);
    call.arguments.d = emulator::encode(call.d);
    call.arguments.report = &report;
    try {
        emulator::launch({.blocks = call.blocks,
                          .threads = learn::threads,
                          .shared_bytes = sizeof(learn::Shared),
                          .tma = timings.tma,
                          .wgmma = timings.wgmma,
                          .seed = timings.seed,
                          .registers = 168,
                          .role = role,
                          .lost_load = timings.lost_load},
                         [&] { kernel(&call.arguments); });
    } catch (const emulator::Error& error) {
        return error.what();
    }
    if (report != 0) return std::string("report: ") + name_of(hopper::Timeout{report}.barrier());
    const std::string wrong = wrong_element(g, test.output(), expected);
    return wrong.empty() ? test.damage() : wrong;
}

}  // namespace tilewright::tests
