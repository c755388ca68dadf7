// Streams, threads and graphs: whatever else runs, a call's result is its own.
#include <gtest/gtest.h>
#include <tilewright/run.h>

#include <thread>

#include "gpu/gpu_case.h"
#include "gpu/recipes.h"

namespace tilewright::test {
namespace {

check::CaseSpec spec_of(const char* recipe, std::int64_t m, std::uint64_t seed) {
    return {.recipe = recipe_of(recipe), .m = m, .n = 1032, .k = 1040, .seed = seed};
}

TEST(GpuStreams, TwoStreamsRunOnePlanAtOnce) {
    const CurrentDevice device;
    const Stream streams[2];
    const GpuCase cases[2]{GpuCase(spec_of("1x128:128x128", 500, 1)), GpuCase(spec_of("1x128:128x128", 500, 2))};
    for (int round = 0; round < 50; ++round) {
        for (const GpuCase& gpu : cases) gpu.reset();
        for (int launch = 0; launch < 6; ++launch) {
            const int i = launch % 2;
            run(cases[i].problem(), {.stream = streams[i].handle()});
        }
        for (int i = 0; i < 2; ++i) {
            streams[i].wait();
            ASSERT_EQ(cases[i].difference(), "") << "round " << round;
        }
    }
}

TEST(GpuStreams, ManyThreadsWithStreamsOfTheirOwn) {
    constexpr int threads = 8;
    std::vector<std::string> differences(threads);
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t) {
        running.emplace_back([&differences, t] {
            const CurrentDevice device;
            const Stream stream;
            const char* recipe = t % 2 == 0 ? "row:row" : "1x128:1x128";
            const GpuCase gpu(spec_of(recipe, 100 + 60 * t, static_cast<std::uint64_t>(t)));
            for (int i = 0; i < 30 && differences[t].empty(); ++i) {
                gpu.reset();
                run(gpu.problem(), {.stream = stream.handle()});
                stream.wait();
                differences[t] = gpu.difference();
            }
        });
    }
    for (std::thread& thread : running) thread.join();
    for (const std::string& difference : differences) EXPECT_EQ(difference, "");
}

TEST(GpuStreams, AThreadWithoutAContextCanCall) {
    const CurrentDevice device;
    const GpuCase gpu(spec_of("row:row", 77, 3));
    std::thread([&] { run(gpu.problem()); }).join();
    cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", 0);
    EXPECT_EQ(gpu.difference(), "");
}

/// `first_call`: the kernel is compiled and loaded while the capture is under way.
void capture_and_replay(const GpuCase& gpu) {
    const cuda::DriverCalls& call = cuda::driver().call;
    const Stream stream;
    cuda::GraphHandle graph = nullptr;
    cuda::GraphExecutionHandle execution = nullptr;
    constexpr int global_mode = 0;
    gpu.reset();
    const std::vector<std::byte> before = gpu.output();
    cuda::driver().require(call.stream_begin_capture(stream.handle(), global_mode), "cuStreamBeginCapture", 0);
    run(gpu.problem(), {.stream = stream.handle()});
    cuda::driver().require(call.stream_end_capture(stream.handle(), &graph), "cuStreamEndCapture", 0);
    EXPECT_EQ(gpu.output(), before) << "a captured call runs nothing";
    cuda::driver().require(call.graph_instantiate(&execution, graph, 0), "cuGraphInstantiate", 0);
    for (int replay = 0; replay < 20; ++replay) {
        gpu.reset();
        cuda::driver().require(call.graph_launch(execution, stream.handle()), "cuGraphLaunch", 0);
        stream.wait();
        ASSERT_EQ(gpu.difference(), "") << "replay " << replay;
    }
    call.graph_execution_destroy(execution);
    call.graph_destroy(graph);
}

TEST(GpuStreams, AGraphReplaysACall) {
    const CurrentDevice device;
    const GpuCase known(spec_of("1x128:128x128", 300, 4));
    run(known.problem());
    cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", 0);
    capture_and_replay(known);
}

TEST(GpuStreams, AGraphMayHoldTheFirstCallOfItsKind) {
    const CurrentDevice device;
    capture_and_replay(GpuCase(spec_of("e5m2.1x128:128x128", 301, 5)));
}

}  // namespace
}  // namespace tilewright::test
