// Kernels under ThreadSanitizer: this program's kernels are instrumented, the emulator tells it what primitives do.
// Right kernels are silent, each planted race is reported.
#include "check/case.h"
#include "emulator/emulator.h"
#include "emulator/kernel_case.h"
#include "emulator/ring_kernel.h"
#include "hopper/gemm.h"
#include "hopper/moe/route.h"
#include "kernel_of_recipe.h"

#include "emulator/primitives.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace {
int reports = 0;
}

// Hooks of ThreadSanitizer. Reports are counted instead of failing the program; copies that the standard library makes
// for the emulator are none of a kernel's.
extern "C" const char* __tsan_default_options() {
    return "exitcode=0:ignore_interceptors_accesses=1:symbolize=0:suppress_equal_addresses=0";
}
extern "C" __attribute__((no_sanitize("thread"))) void __tsan_on_report(void* /*report*/) { ++reports; }

namespace tilewright::tests {
namespace {

constexpr int threads = 128;

/// Each thread writes a number and reads its neighbour's.
template <class Write, class Read, class Synchronise>
int races_of_neighbours(Write write, Read read, Synchronise synchronise) {
    struct Shared {
        float values[threads];
    };
    const int before = reports;
    std::array<float, threads> out{};
    emulator::launch({.threads = threads, .shared_bytes = sizeof(Shared)}, [&] {
        auto& shared = hopper::shared_memory<Shared>();
        const int thread = hopper::thread_index();
        write(shared.values[thread], static_cast<float>(thread));
        synchronise();
        out[thread] = read(shared.values[thread ^ 1]);
    });
    return reports - before;
}

void write_plainly(float& to, float value) { to = value; }
float read_plainly(const float& from) { return from; }
void write_by_primitive(float& to, float value) { hopper::store_shared(to, value); }
float read_by_primitive(const float& from) { return hopper::load_shared(from); }

TEST(Races, MemoryByOrdinaryAccesses) {
    EXPECT_EQ(races_of_neighbours(write_plainly, read_plainly, hopper::sync_block), 0);
    EXPECT_EQ(races_of_neighbours(write_plainly, read_plainly, hopper::sync_warp), 0);
    EXPECT_GT(races_of_neighbours(write_plainly, read_plainly, [] {}), 0);
}
TEST(Races, MemoryByPrimitives) {
    EXPECT_EQ(races_of_neighbours(write_by_primitive, read_by_primitive, hopper::sync_block), 0);
    EXPECT_GT(races_of_neighbours(write_by_primitive, read_by_primitive, [] {}), 0);
}

template <Bug bug>
int races_of_ring() {
    const int before = reports;
    for (const std::uint64_t seed : {0, 1}) outcome(&ring_gemm<bug>, {.seed = seed});
    return reports - before;
}

TEST(Races, TheRingKernelHasNone) { EXPECT_EQ(races_of_ring<Bug::none>(), 0); }
/// Blocks of a cluster read each other's totals, and warps each other's counts and order.
TEST(Races, TheSortOfChoicesHasNone) {
    constexpr int choices = 1500, experts = 600, blocks = 2;
    std::vector<int> ids(choices), rows(choices), sources(choices), ends(experts);
    std::vector<float> weights(choices);
    for (int i = 0; i < choices; ++i) ids[static_cast<std::size_t>(i)] = i * i % experts;
    hopper::RouteArguments arguments{.ids = ids.data(),
                                     .token_stride = 1,
                                     .choice_stride = 1,
                                     .tokens = choices,
                                     .given = 1,
                                     .choices = 1,
                                     .experts = experts,
                                     .rows = rows.data(),
                                     .sources = sources.data(),
                                     .ends = ends.data(),
                                     .row_weights = weights.data()};
    const int before = reports;
    for (const auto keeps : {hopper::RouteKeeps::nothing, hopper::RouteKeeps::places, hopper::RouteKeeps::order}) {
        arguments.keeps = keeps;
        emulator::launch({.blocks = blocks,
                          .cluster = blocks,
                          .threads = hopper::route_threads,
                          .shared_bytes = static_cast<int>(hopper::route_shared_bytes(experts, choices, keeps, blocks)),
                          .seed = 1},
                         [&] { hopper::route<hopper::route_threads>(arguments); });
        EXPECT_EQ(ends.back(), choices);
    }
    EXPECT_EQ(reports - before, 0);
}

/// All lanes write a row, one has it stored. `synchronise` is called in between.
int races_of_store(void (*synchronise)()) {
    struct Shared {
        alignas(128) float row[32];
    };
    const int before = reports;
    alignas(16) std::array<float, 32> out{};
    const hopper::TensorMap map = emulator::encode({.base = out.data(),
                                                    .element_bytes = 4,
                                                    .sizes = {32, 1, 1},
                                                    .strides = {128, 128},
                                                    .box = {32, 1, 1},
                                                    .swizzled = false});
    emulator::launch({.threads = 32, .shared_bytes = sizeof(Shared)}, [&] {
        auto& shared = hopper::shared_memory<Shared>();
        hopper::store_shared(shared.row[hopper::lane_index()], 1);
        hopper::fence_async_proxy();
        synchronise();
        if (hopper::lane_index() != 0) return;
        hopper::tma_store(map, shared.row, 0, 0, 0);
        hopper::tma_store_commit();
        hopper::tma_store_wait();
    });
    return reports - before;
}

TEST(Races, StagedRows) {
    EXPECT_EQ(races_of_store(hopper::sync_warp), 0);
    // All lanes pass, but nothing guarantees that their writes are visible.
    EXPECT_GT(races_of_store([] { hopper::same_in_warp(0); }), 0);
}

constexpr hopper::Kernel k_major(hopper::Kernel tile) {
    tile.output = hopper::Output::bf16_by_tma;
    tile.scales_along_k = true;
    return tile;
}

template <hopper::Kernel tile>
int races_of_kernel(const char* recipe, bool transposed_scales) {
    const int before = reports;
    const check::CaseSpec spec{
        .grouping = tile.groups == hopper::Groups::rows ? Grouping::m_grouped_offsets : Grouping::dense,
        .recipe = parse_recipe(recipe).value(),
        .output = tile.output == hopper::Output::f32_by_tma ? Format::f32 : Format::bf16,
        .m = tile.shape.m * tile.cluster.size() + 5,
        .n = tile.shape.n * 2,
        .k = 400,
        .groups = tile.groups == hopper::Groups::rows ? 6 : 1,
        .with_c = tile.output == hopper::Output::f32_by_tma,
        .in_place = tile.output == hopper::Output::f32_by_tma,
        .a_scales_transposed = transposed_scales,
        .b_scales_transposed = transposed_scales};
    const EmulatedKernel kernel{.tile = hopper::Design(tile),
                                .run = [](const hopper::AllArguments& arguments) { hopper::gemm<tile>(arguments); }};
    for (const std::uint64_t seed : {0, 1}) EXPECT_EQ(difference(kernel, spec, {.sms = 2, .seed = seed}), "");
    return reports - before;
}

constexpr hopper::Kernel small{.shape = {.m = 128, .n = 32}, .stages = 3};

TEST(Races, ProductsHaveNone) {
    constexpr hopper::Kernel blocks = of_recipe(blocks_of_both, small), rows = of_recipe(rows_of_both, small);
    constexpr hopper::Kernel accumulates =
        of_recipe(rows_of_both, {.shape = {.m = 128, .n = 64}, .stages = 3, .output = hopper::Output::f32_by_tma});
    constexpr hopper::Kernel grouped =
        of_recipe(blocks_of_both, {.shape = {.m = 128, .n = 32}, .stages = 3, .groups = hopper::Groups::rows});
    constexpr hopper::Kernel pair{.shape = {.m = 64, .n = 64, .warpgroups = 1}, .stages = 3, .cluster = {.rows = 2}};
    for (const bool transposed : {false, true}) {
        EXPECT_EQ(races_of_kernel<blocks>("1x128:128x128", transposed), 0);
        EXPECT_EQ(races_of_kernel<rows>("1x128:1x128", transposed), 0);
        EXPECT_EQ(races_of_kernel<k_major(blocks)>("1x128:128x128", transposed), 0);
        EXPECT_EQ(races_of_kernel<k_major(rows)>("1x128:1x128", transposed), 0);
        EXPECT_EQ(races_of_kernel<accumulates>("1x128:1x128", transposed), 0);
        EXPECT_EQ(races_of_kernel<grouped>("1x128:128x128", transposed), 0);
        EXPECT_EQ(races_of_kernel<k_major(grouped)>("1x128:128x128", transposed), 0);
    }
    EXPECT_EQ(races_of_kernel<pair>("row:row", false), 0);
    constexpr hopper::Kernel slices = of_recipe(
        blocks_of_both,
        {.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3, .swap_ab = true, .cluster = {.k_slices = 2}});
    EXPECT_EQ(races_of_kernel<slices>("1x128:128x128", true), 0);
    constexpr hopper::Kernel tall{
        .shape = {.m = 128, .n = 96, .warpgroups = 1}, .stages = 3, .output = hopper::Output::f32_by_tma};
    EXPECT_EQ(races_of_kernel<tall>("row:row", false), 0);
}

}  // namespace
}  // namespace tilewright::tests
