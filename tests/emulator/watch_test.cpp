// A load that never arrives: the load warp times out, ends the waits of the consumers, which have no limit, and the
// kernel ends with a report of the barrier that was waited for.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/instantiate.h"
#include "emulator/kernel_case.h"
#include "launch/tile_code.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using emulator::Timing;
using hopper::Scaling;
using hopper::Tile;
using hopper::Variant;

constexpr Tile block_scaled(Tile tile, Variant variant = Variant::fast) {
    tile.a.scaling = Scaling::block_1x128;
    tile.b.scaling = Scaling::block_128x128;
    tile.variant = variant;
    return tile;
}

/// Each mainloop, way of loading scales, scheduler and kind of cluster.
std::vector<Kernel> kernels() {
    std::vector<Kernel> list;
    constexpr Tile one{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3};
    constexpr Tile two{.shape = {.m = 128, .n = 48}, .stages = 3};
    constexpr Tile tall{.shape = {.m = 256, .n = 32}, .stages = 2};
    constexpr Tile swapped{.shape = {.m = 128, .n = 24}, .stages = 3, .swap_ab = true};
    constexpr Tile split{.shape = {.m = 128, .n = 16}, .stages = 3, .cluster = hopper::split_k(2)};
    constexpr Tile pair{.shape = {.m = 128, .n = 32}, .stages = 3, .cluster = hopper::share_b(2)};
    constexpr Tile grouped{.shape = {.m = 128, .n = 32}, .stages = 3, .family = hopper::Family::m_grouped};
    constexpr Tile unpromoted{.shape = {.m = 128, .n = 32}, .stages = 3, .mma = {.promoted = false}};
    add<block_scaled(one)>(list);
    add<block_scaled(two)>(list);
    add<block_scaled(tall)>(list);
    add<block_scaled(two, Variant::fast_k_major_scales)>(list);
    add<block_scaled(two, Variant::general)>(list);
    add<block_scaled(swapped)>(list);
    add<block_scaled(split)>(list);
    add<block_scaled(pair)>(list);
    add<block_scaled(grouped)>(list);
    add<unpromoted>(list);
    return list;
}

constexpr int kernel_count = 10;

/// Two tiles; a k that fits into the ring, or does not.
CaseSpec call(const Tile& tile, std::int64_t k) {
    const bool grouped = is_grouped(tile);
    return {.grouping = grouped ? Grouping::m_grouped_masked : Grouping::dense,
            .recipe = parse_recipe(tile.a.scaling == Scaling::epilogue ? "tensor:tensor" : "1x128:128x128").value(),
            .m = cluster_rows(tile),
            .n = 2 * cluster_columns(tile),
            .k = k,
            .groups = grouped ? 2 : 1,
            .accumulation = tile.mma.promoted ? Accumulation::promoted : Accumulation::unpromoted,
            .a_scales_transposed = !has_k_major_scales(tile)};
}

/// What the kernel reports, or, if the emulator finds what no kernel may do, that.
std::string outcome(const Kernel& kernel, const CaseSpec& spec, const Conditions& run) {
    const check::Case test(spec);
    try {
        const hopper::KernelReport report = run_on_emulator(kernel, test.geometry(), run);
        return report.producer.word == 0 ? "nothing" : name_of(report.producer.barrier());
    } catch (const emulator::Error& error) {
        return error.what();
    }
}

class Watch : public testing::TestWithParam<int> {};

TEST_P(Watch, EndsABlockThatWaitsForALostLoad) {
    const Kernel kernel = kernels()[static_cast<std::size_t>(GetParam())];
    for (const std::int64_t k : {256, 640}) {
        const CaseSpec spec = call(kernel.tile, k);
        const int loads = static_cast<int>(k / 128) * 2;  // of the first tile, at least
        for (const int lost : {0, loads - 1}) {
            const Timing timing = lost == 0 ? Timing::early : Timing::late;
            const Conditions run{.sms = kernel.tile.cluster.size,
                                 .tma = timing,
                                 .wgmma = timing,
                                 .seed = static_cast<std::uint64_t>(lost),
                                 .lost_load = lost};
            EXPECT_EQ(outcome(kernel, spec, run), "empty")
                << launch::describe(kernel.tile) << "\n"
                << check::describe(spec) << "\nwithout load " << lost << ", " << describe(run);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, Watch, testing::Range(0, kernel_count));

TEST(WatchedKernels, AreAllRun) { EXPECT_EQ(kernels().size(), static_cast<std::size_t>(kernel_count)); }

}  // namespace
}  // namespace tilewright::tests
