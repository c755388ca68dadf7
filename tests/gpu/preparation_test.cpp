// Calls with a workspace: layout tn, groups with A along m, MXFP4 weights that are not packed, graphs, and calls that
// overlap and share one workspace.
#include <gtest/gtest.h>
#include <tilewright/run.h>

#include "gpu/gpu_case.h"
#include "gpu/recipes.h"

namespace tilewright::test {
namespace {

void wait() { cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", 0); }

/// Rows of memory are multiples of 16 bytes.
check::CaseSpec in_rows_of_16(check::CaseSpec spec) {
    const auto gap = [](std::int64_t size) { return (16 - size % 16) % 16; };
    spec.a_gaps.row = gap(a_is_transposed(spec.layout) ? spec.m : spec.k);
    spec.b_gaps.row = gap(b_is_transposed(spec.layout) ? spec.n : spec.k);
    return spec;
}

constexpr const char* recipes[] = {"tensor:tensor",           "row:row",           "1x128:128x128", "1x128:1x128",
                                   "e5m2.1x128:e4m3.128x128", "e4m3.row:e5m2.row", "128x128:e4m3",  "1x128:row"};

TEST(GpuPreparation, LayoutTn) {
    const CurrentDevice device;
    std::vector<check::CaseSpec> specs;
    for (const char* recipe : recipes) {
        for (const Grouping grouping : {Grouping::dense, Grouping::batched}) {
            for (const std::int64_t m : {1, 17, 129, 300}) {
                for (const std::int64_t k : {1, 128, 257, 2064}) {
                    specs.push_back(in_rows_of_16({.grouping = grouping,
                                                   .recipe = recipe_of(recipe),
                                                   .layout = Layout::tn,
                                                   .m = m,
                                                   .n = 200,
                                                   .k = k,
                                                   .groups = grouping == Grouping::dense ? 1 : 3}));
                }
            }
        }
    }
    EXPECT_EQ(run_and_compare(specs), "");
}

TEST(GpuPreparation, LargeOperands) {
    const CurrentDevice device;
    for (const bool a_is_larger : {false, true}) {
        EXPECT_EQ(run_and_compare({.recipe = recipe_of("1x128:128x128"),
                                   .layout = Layout::tn,
                                   .m = a_is_larger ? 4096 : 1040,
                                   .n = a_is_larger ? 1040 : 4096,
                                   .k = 4112,
                                   .distribution = check::Distribution::exact_grid}),
                  "");
    }
}

TEST(GpuPreparation, GroupsOfM) {
    const CurrentDevice device;
    for (const Grouping grouping : {Grouping::m_grouped_offsets, Grouping::m_grouped_aligned_offsets,
                                    Grouping::m_grouped_masked, Grouping::m_grouped_indices}) {
        for (const Layout layout : {Layout::tt, Layout::tn}) {
            for (const char* recipe : {"row:row", "1x128:128x128"}) {
                EXPECT_EQ(run_and_compare(in_rows_of_16({.grouping = grouping,
                                                         .recipe = recipe_of(recipe),
                                                         .layout = layout,
                                                         .m = 301,
                                                         .n = 264,
                                                         .k = 400,
                                                         .groups = 5,
                                                         .alignment = 8})),
                          "");
            }
        }
    }
}

TEST(GpuPreparation, GroupsOfK) {
    const CurrentDevice device;
    for (const Grouping grouping :
         {Grouping::k_grouped, Grouping::k_grouped_aligned_offsets, Grouping::k_grouped_flat}) {
        for (const char* recipe : {"row:row", "1x128:1x128", "1x128:128x128"}) {
            for (const bool with_c : {false, true}) {
                EXPECT_EQ(run_and_compare(in_rows_of_16({.grouping = grouping,
                                                         .recipe = recipe_of(recipe),
                                                         .layout = Layout::tn,
                                                         .output = Format::f32,
                                                         .m = 300,
                                                         .n = 152,
                                                         .k = 1100,
                                                         .groups = 4,
                                                         .with_c = with_c,
                                                         .in_place = with_c})),
                          "");
            }
        }
    }
}

check::CaseSpec tn(std::uint64_t seed) {
    return {.recipe = recipe_of("1x128:128x128"), .layout = Layout::tn, .m = 512, .n = 1040, .k = 1040, .seed = seed};
}

TEST(GpuPreparation, CallsThatOverlapShareOneWorkspace) {
    const CurrentDevice device;
    const Stream stream;
    const GpuCase cases[2]{GpuCase(tn(1)), GpuCase(tn(2))};
    const Workspace shared = cases[0].workspace();
    for (int round = 0; round < 20; ++round) {
        for (const GpuCase& gpu : cases) gpu.reset();
        for (int call = 0; call < 10; ++call) {
            run(cases[call % 2].problem(), {.stream = stream.handle(), .overlap = true, .workspace = shared});
        }
        stream.wait();
        for (const GpuCase& gpu : cases) ASSERT_EQ(gpu.difference(), "") << "round " << round;
    }
}

TEST(GpuPreparation, AGraphHoldsTheCopyToo) {
    const CurrentDevice device;
    const cuda::DriverCalls& call = cuda::driver().call;
    const Stream stream;
    GpuCase gpu(tn(3));
    cuda::GraphHandle graph = nullptr;
    cuda::GraphExecutionHandle execution = nullptr;
    cuda::driver().require(call.stream_begin_capture(stream.handle(), 0), "cuStreamBeginCapture", 0);
    run(gpu.problem(), {.stream = stream.handle(), .workspace = gpu.workspace()});
    cuda::driver().require(call.stream_end_capture(stream.handle(), &graph), "cuStreamEndCapture", 0);
    cuda::driver().require(call.graph_instantiate(&execution, graph, 0), "cuGraphInstantiate", 0);
    for (std::uint64_t replay = 0; replay < 5; ++replay) {
        gpu.take_data(GpuCase(tn(10 + replay)));
        cuda::driver().require(call.graph_launch(execution, stream.handle()), "cuGraphLaunch", 0);
        stream.wait();
        ASSERT_EQ(gpu.difference(), "") << "replay " << replay;
    }
    call.graph_execution_destroy(execution);
    call.graph_destroy(graph);
}

TEST(GpuPreparation, WeightsThatArePackedAtEachCall) {
    const CurrentDevice device;
    constexpr check::FarScales far_scales[] = {{}, {.one_row_in = 3, .spread = 24}, {.one_row_in = 2, .spread = 254}};
    for (const char* recipe :
         {"1x128:mxfp4", "row:mxfp4", "e5m2.tensor:mxfp4", "mxfp8:mxfp4", "mxfp4:mxfp4", "bf16:mxfp4", "nvfp4:mxfp4",
          "bf16:nvfp4", "nvfp4:nvfp4", "1x128:nvfp4", "tensor:nvfp4"}) {
        for (const Grouping grouping : {Grouping::dense, Grouping::batched, Grouping::m_grouped_offsets,
                                        Grouping::m_grouped_indices, Grouping::m_grouped_masked}) {
            for (const check::FarScales& far : far_scales) {
                const bool turned = far.spread == 24 && recipe_of(recipe).a.values != Format::bf16;  // A is copied too
                EXPECT_EQ(run_and_compare(in_rows_of_16({.grouping = grouping,
                                                         .recipe = recipe_of(recipe),
                                                         .layout = turned ? Layout::tt : Layout::nt,
                                                         .m = 70,
                                                         .n = 392,
                                                         .k = turned ? 418 : 544,
                                                         .groups = grouping == Grouping::dense ? 1 : 3,
                                                         .far_scales = far}),
                                          false),
                          "");
            }
        }
    }
}

TEST(GpuPreparation, WithoutAWorkspaceNothingRuns) {
    const CurrentDevice device;
    const GpuCase gpu(tn(4));
    EXPECT_ANY_THROW(run(gpu.problem()));
    const Workspace given = gpu.workspace();
    EXPECT_ANY_THROW(run(gpu.problem(), {.workspace = {given.data, given.bytes - 1}}));
    run(gpu.problem(), {.workspace = given});
    wait();
    EXPECT_EQ(gpu.difference(), "");
    EXPECT_ANY_THROW(run(gpu.problem())) << "a repetition needs it too";
}

}  // namespace
}  // namespace tilewright::test
