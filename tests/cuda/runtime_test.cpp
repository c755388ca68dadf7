// Launches on a fake driver: what is launched where, what is done once, and what later calls do not do.
#include "cuda/runtime.h"

#include <gtest/gtest.h>
#include <tilewright/error.h>
#include <tilewright/run.h>

#include <thread>

#include "cuda/count_allocations.h"
#include "cuda/gpu_problem.h"
#include "cuda/probe.h"
#include "plan/choose.h"
#include "problem/addresses.h"
#include "problem/mixed_rows.h"
#include "problem/packed_problem.h"
#include "problem/times_made.h"

namespace tilewright::cuda {
namespace {

using test::FakeMachine;
using test::gpu_problem;
using test::stream;

/// MN-major scales (those of one k-block are adjacent), which TMA fetches.
void transpose_scales(Tensor& scales) { scales.strides = {1, scales.shape[0]}; }

TEST(Runtime, LaunchesOnTheCallersStream) {
    FakeMachine machine;
    Problem p = gpu_problem({.m = 4096, .n = 4096, .k = 1024});
    p.alpha = 3;
    machine.run(p, stream(0x77));
    ASSERT_EQ(machine.fake().launches, 1);
    const test::FakeLaunch& last = machine.fake().last;
    EXPECT_EQ(last.config.stream, stream(0x77));
    EXPECT_EQ(last.config.grid[0], 132U);
    EXPECT_EQ(last.config.grid[1] * last.config.grid[2], 1U);
    EXPECT_EQ(last.config.shared_bytes, static_cast<unsigned>(machine.fake().shared_bytes));
    EXPECT_GE(last.config.block[0], 256U);
    EXPECT_EQ(last.arguments.m, 4096);
    EXPECT_EQ(last.arguments.alpha, 3);
    EXPECT_EQ(last.arguments.a.words[0], 0x10000000U);
    EXPECT_EQ(last.arguments.b.words[0], 0x12000000U);
    EXPECT_EQ(last.arguments.report, &machine.fake().reports[0]);
    EXPECT_EQ(last.device, 0);
}

/// Also where operands are copied first, packed at each call, or expanded, and where the tile is known.
TEST(Runtime, EachCallIsDescribedOnce) {
    FakeMachine machine;
    Problem packed = with_packed_shape(
        problem_of({.recipe = parse_recipe("1x128:mxfp4").value(), .m = 4096, .n = 4096, .k = 8192}), 0);
    packed.b.packed.data = reinterpret_cast<void*>(0x12000000);
    for (Tensor* tensor : {&packed.a.values, &packed.a.scales, &packed.d}) {
        tensor->device = packed.b.packed.device = {.kind = DeviceId::Kind::cuda, .index = 0};
        tensor->data = reinterpret_cast<void*>(0x10000000);
    }
    const Workspace workspace{reinterpret_cast<void*>(0x90000000), std::int64_t{1} << 30};
    for (const Problem& p : {gpu_problem({}), gpu_problem({}, 0x20000000), gpu_problem({.layout = Layout::tn}),
                             gpu_problem({.weights = Format::e2m1}), packed}) {
        times_made = {};
        machine.run(p, nullptr, workspace);
        EXPECT_EQ(times_made.geometries, 1);
        EXPECT_EQ(times_made.workspace_plans, 1);
        times_made = {};
        EXPECT_TRUE(machine.runtime().repeat(p, nullptr, workspace));
        EXPECT_EQ(times_made.geometries, 0);
    }
}

TEST(Runtime, ATileOfTwoBlocksIsLaunchedAsClusters) {
    FakeMachine machine;
    const Geometry g = geometry(gpu_problem({.m = 4096, .n = 4096}));
    hopper::Kernel tile = tests::of_recipe("1x128:128x128");
    machine.runtime().run(g, tile, {.device = 1, .stream = stream(5), .sm_limit = 100});
    EXPECT_EQ(machine.fake().last.config.attribute_count, 0U);
    EXPECT_EQ(machine.fake().last.config.grid[0], 100U);
    EXPECT_EQ(machine.fake().last.device, 1);
    tile.cluster = {.rows = 2};
    machine.runtime().run(g, tile, {});
    EXPECT_EQ(machine.fake().last.config.attribute_count, 1U);
    EXPECT_EQ(machine.fake().last.attribute.id, LaunchAttribute::cluster_dimension);
    EXPECT_EQ(machine.fake().last.attribute.x, 2U);
    EXPECT_EQ(machine.fake().last.attribute.y * machine.fake().last.attribute.z, 1U);
}

TEST(Runtime, ACallMayOverlapTheOneBefore) {
    FakeMachine machine;
    const Problem p = gpu_problem({});
    machine.run(p, {nullptr, true});
    EXPECT_EQ(machine.fake().last.config.attribute_count, 1U);
    EXPECT_EQ(machine.fake().last.attribute.id, LaunchAttribute::programmatic_stream_serialization);
    EXPECT_EQ(machine.fake().last.attribute.x, 1U);
    EXPECT_TRUE(machine.runtime().repeat(p, nullptr));
    EXPECT_EQ(machine.fake().last.config.attribute_count, 0U);
}

/// The call's promise is for this launch only: a repetition has its own.
TEST(Runtime, WeightsAreReadyWhereTheCallOverlapsAndSaysSo) {
    FakeMachine machine;
    const Problem p = gpu_problem({});
    const auto ready = [&] { return machine.fake().last.arguments.weights_ready; };
    machine.run(p, {nullptr, true, true});
    EXPECT_TRUE(ready());
    EXPECT_TRUE(machine.runtime().repeat(p, {nullptr, true}));
    EXPECT_FALSE(ready());
    EXPECT_TRUE(machine.runtime().repeat(p, {nullptr, false, true}));
    EXPECT_FALSE(ready());
}

TEST(Runtime, TheSameCallAgainOnlyLaunches) {
    FakeMachine machine;
    Problem p = gpu_problem({});
    p.alpha = 2;
    EXPECT_FALSE(machine.runtime().repeat(p, nullptr));
    machine.run(p, nullptr);
    const int maps = machine.fake().maps;
    p.alpha = 0.5F;
    const long before = test::allocations();
    EXPECT_TRUE(machine.runtime().repeat(p, stream(9)));
    EXPECT_EQ(test::allocations(), before);
    EXPECT_EQ(machine.fake().launches, 2);
    EXPECT_EQ(machine.fake().maps, maps);
    EXPECT_EQ(machine.fake().libraries, 1);
    EXPECT_EQ(machine.fake().last.arguments.alpha, 0.5F);
    EXPECT_EQ(machine.fake().last.config.stream, stream(9));
}

TEST(Runtime, AlphaDecidesWhichKernelRuns) {
    FakeMachine machine;
    Problem p = gpu_problem({});
    transpose_scales(p.a.scales);
    machine.run(p, nullptr);
    const void* fast = machine.fake().last.kernel;
    p.alpha = 2;
    EXPECT_FALSE(machine.runtime().repeat(p, nullptr)) << "the fast kernel knows no alpha";
    machine.run(p, nullptr);
    EXPECT_NE(machine.fake().last.kernel, fast);
    EXPECT_EQ(machine.fake().libraries, 2);
    p.alpha = 1;
    EXPECT_TRUE(machine.runtime().repeat(p, nullptr));
    EXPECT_EQ(machine.fake().last.kernel, fast);
    EXPECT_EQ(machine.fake().last.arguments.alpha, 1);
}

TEST(Runtime, AnyOtherCallIsNoRepetition) {
    FakeMachine machine;
    const Problem p = gpu_problem({});
    machine.run(p, nullptr);
    const std::vector<void (*)(Problem&)> changes{
        [](Problem& q) { q.a.values.data = reinterpret_cast<void*>(0x40000000); },
        [](Problem& q) { q.a.scales.data = reinterpret_cast<void*>(0x40000000); },
        [](Problem& q) { q.b.scales.data = reinterpret_cast<void*>(0x40000000); },
        [](Problem& q) { q.d.data = reinterpret_cast<void*>(0x40000000); },
        [](Problem& q) { q.d.format = Format::f16; },
        [](Problem& q) {
            q.d.strides = {1024, 1};
        },
        [](Problem& q) { q.d.device.index = 1; },
        [](Problem& q) {
            q.a.values.shape = {128, 1024};
        },
        [](Problem& q) { q.a.granularity = Granularity::row; },
        [](Problem& q) { q.c = q.d; },
        [](Problem& q) { q.sm_limit = 7; },
        [](Problem& q) { q.layout = Layout::nn; },
        [](Problem& q) { q.accumulation = Accumulation::unpromoted; },
        [](Problem& q) { q.reproducibility = Reproducibility::invariant; },
        [](Problem& q) { q.groups.grouping = Grouping::batched; },
    };
    for (std::size_t i = 0; i < changes.size(); ++i) {
        Problem other = p;
        changes[i](other);
        EXPECT_FALSE(machine.runtime().repeat(other, nullptr)) << "change " << i;
    }
    EXPECT_TRUE(machine.runtime().repeat(p, nullptr));
}

TEST(Runtime, FreshAddressesEncodeMapsAndNothingElse) {
    FakeMachine machine;
    machine.run(gpu_problem({}, 0x10000000), nullptr);
    const int maps = machine.fake().maps;
    const Problem p = gpu_problem({}, 0x50000000);
    const long before = test::allocations();
    EXPECT_TRUE(machine.runtime().knows_kind(p));
    EXPECT_TRUE(validate_addresses(p, Backend::hopper).empty());
    machine.run(p, nullptr);
    EXPECT_EQ(test::allocations(), before);
    EXPECT_GT(machine.fake().maps, maps);
    EXPECT_EQ(machine.fake().libraries, 1);
    EXPECT_EQ(machine.fake().last.arguments.a.words[0], 0x50000000U);
    EXPECT_TRUE(machine.runtime().repeat(p, nullptr));
}

TEST(Runtime, ManyKindsAreRememberedBeyondTheThreadsOwnMemory) {
    FakeMachine machine;
    for (int round = 0; round < 2; ++round) {
        for (std::int64_t m = 16; m <= 16 * 40; m += 16) machine.run(gpu_problem({.m = m}), nullptr);
    }
    EXPECT_EQ(machine.fake().launches, 80);
    EXPECT_EQ(machine.fake().last.arguments.m, 640);
    EXPECT_FALSE(machine.runtime().knows_kind(gpu_problem({.m = 16})));
    EXPECT_TRUE(machine.runtime().knows_kind(gpu_problem({.m = 640}, 0x70000000)));
}

TEST(Runtime, PlansForTheGpuThatIsThere) {
    FakeMachine machine;
    EXPECT_EQ(machine.runtime().device(0).description(), h200());
    FakeMachine pcie;
    pcie.fake().name = "NVIDIA H100 PCIe";
    pcie.fake().multiprocessors = 114;
    EXPECT_EQ(pcie.runtime().device(0).description(), device_named("h100-pcie"));
    FakeMachine other;
    other.fake().name = "NVIDIA H900";
    other.fake().multiprocessors = 100;
    EXPECT_EQ(other.runtime().device(0).description().name, "NVIDIA H900");
    EXPECT_EQ(other.runtime().device(0).sms(), 100);
}

/// A caller may change a description, or have another one at its address: nothing is remembered of it.
TEST(Runtime, ACallIsPlannedForTheContentOfItsDevice) {
    FakeMachine machine;
    const Problem p = gpu_problem({.m = 8, .n = 1536, .k = 2048});
    DeviceDescription device = h200();
    ASSERT_NE(planner::planned_k_splits(p, device), planner::planned_k_splits(p, device_named("h100-pcie")));
    const auto cluster = [&] {
        machine.runtime().run_as(p, gpu_call(p), device, nullptr, {});
        const test::FakeLaunch& last = machine.fake().last;
        return last.config.attribute_count == 0 ? 1 : last.attribute.x;
    };
    const unsigned first = cluster();
    device = device_named("h100-pcie");
    EXPECT_NE(cluster(), first);
    device = h200();
    EXPECT_EQ(cluster(), first);
    EXPECT_FALSE(machine.runtime().repeat(p, nullptr, {})) << "of a call without a device";
}

TEST(Runtime, AnSmLimitLimitsTheGrid) {
    FakeMachine machine;
    Problem p = gpu_problem({.m = 8192, .n = 8192});
    p.sm_limit = 60;
    machine.run(p, nullptr);
    EXPECT_LE(machine.fake().last.config.grid[0], 60U);
    EXPECT_GE(machine.fake().last.config.grid[0], 59U);
}

TEST(Runtime, NothingIsLaunchedWithoutRowsOrColumns) {
    FakeMachine machine;
    machine.run(gpu_problem({.m = 0}), nullptr);
    machine.run(gpu_problem({.n = 0}), nullptr);
    EXPECT_EQ(machine.fake().launches, 0);
    machine.run(gpu_problem({.k = 0}), nullptr);
    EXPECT_EQ(machine.fake().launches, 1);
    EXPECT_EQ(machine.fake().last.arguments.k, 0);
}

TEST(Runtime, MapsWithoutMemoryHaveAnAddressThatTheDriverTakes) {
    FakeMachine machine;
    Problem p = gpu_problem({.k = 0});
    p.d.data = static_cast<std::byte*>(p.d.data) + 2;
    machine.run(p, nullptr);
    EXPECT_EQ(machine.fake().launches, 1);
    EXPECT_EQ(machine.fake().last.arguments.a.words[0], std::bit_cast<std::uintptr_t>(p.d.data) - 2);
}

TEST(Runtime, TheCallersContextStaysCurrent) {
    FakeMachine machine;
    machine.run(gpu_problem({.device = 1}), nullptr);
    EXPECT_EQ(machine.fake().last.device, 1);
    EXPECT_EQ(machine.fake().pushes, machine.fake().pops);
    EXPECT_EQ(machine.fake().misplaced_questions, 0) << "compute-sanitizer would print an error";
    machine.make_current(1);
    const int pushes = machine.fake().pushes;
    EXPECT_TRUE(machine.runtime().repeat(gpu_problem({.device = 1}), nullptr));
    EXPECT_EQ(machine.fake().pushes, pushes) << "a context of the device was current";
    machine.make_current(0);
    EXPECT_TRUE(machine.runtime().repeat(gpu_problem({.device = 1}), nullptr));
    EXPECT_EQ(machine.fake().last.device, 1);
    EXPECT_EQ(machine.fake().pushes, pushes + 1);
    EXPECT_EQ(machine.fake().pops, pushes + 1);
}

TEST(Runtime, LoadingDoesNotDisturbACapture) {
    FakeMachine machine;
    machine.run(gpu_problem({}), nullptr);
    EXPECT_EQ(machine.fake().libraries, 1);
    EXPECT_EQ(machine.fake().strict_loads, 0);
}

TEST(Runtime, AKernelThatTimedOutIsReportedOnceWithItsBarrier) {
    FakeMachine machine;
    const Problem p = gpu_problem({});
    machine.run(p, nullptr);
    hopper::KernelReport& report = machine.fake().reports[0];
    report.producer.word = hopper::Timeout::pack(17, 32, hopper::timed_out_at(hopper::BarrierName::work_empty) - 5);
    report.consumer.word = hopper::Timeout::pack(17, 260, -3);
    try {
        machine.runtime().repeat(p, nullptr);
        ADD_FAILURE() << "no report";
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(),
                     "cuda:0: an earlier kernel timed out (deadlock); its output is invalid: thread 32 of block 17 "
                     "waited for barrier `work_empty`, thread 260 of block 17 waited for a barrier at "
                     "which consumers wait too; please report this with the call");
    }
    EXPECT_EQ(machine.fake().launches, 1);
    EXPECT_TRUE(machine.runtime().repeat(p, nullptr));
}

TEST(Runtime, RowsOfTwoGroupsInABlockAreAnErrorOfALaterCall) {
    FakeMachine machine;
    const Problem p = gpu_problem({});
    machine.run(p, nullptr);
    machine.fake().reports[0].mixed.word = hopper::MixedRow::pack(200, 3, 1);
    try {
        machine.runtime().repeat(p, nullptr);
        ADD_FAILURE() << "no report";
    } catch (const Error& error) {
        EXPECT_TRUE(error.findings().empty()) << "this call is right";
        EXPECT_STREQ(error.what(), ("cuda:0: an earlier call: " + mixed_rows(200, 3, 1).message() +
                                    " (`grouped_layout` in tilewright.deep_gemm)")
                                       .c_str());
    }
    EXPECT_TRUE(machine.runtime().repeat(p, nullptr));
}

TEST(Runtime, WithoutADriverACallSaysWhatIsMissing) {
    if (probe().driver.usable) GTEST_SKIP() << "this machine has a driver, and these addresses are made up";
    try {
        run(gpu_problem({}));
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("NVIDIA driver"), std::string::npos) << error.what();
        EXPECT_TRUE(error.findings().empty());
    }
    EXPECT_THROW(run(gpu_problem({}), {.backend = Backend::cpu}), Error);
}

TEST(Runtime, ManyThreadsOnTwoDevicesLoadEachKernelOnce) {
    FakeMachine machine;
    machine.fake().record_last = false;
    constexpr int threads = 8;
    constexpr int calls = 500;
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t) {
        running.emplace_back([&, t] {
            machine.make_current(-1);
            for (int i = 0; i < calls; ++i) {
                const Problem p = gpu_problem({.device = (t + i) % 2}, 0x10000000U + 0x10000000U * (i % 3));
                if (!machine.runtime().repeat(p, nullptr)) machine.run(p, nullptr);
            }
        });
    }
    for (std::thread& thread : running) thread.join();
    EXPECT_EQ(machine.fake().launches, threads * calls);
    EXPECT_EQ(machine.fake().libraries, 2);
    EXPECT_EQ(machine.fake().host_allocations, 2);
}

}  // namespace
}  // namespace tilewright::cuda
