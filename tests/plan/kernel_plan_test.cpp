// A call is described once, whoever asks, and its plan says how it travels.
#include "plan/variant.h"

#include <gtest/gtest.h>
#include <tilewright/run.h>

#include <functional>
#include <stdexcept>

#include "plan/choose.h"
#include "plan/problems.h"
#include "problem/packed_problem.h"
#include "problem/times_made.h"

namespace tilewright::planner {
namespace {

ProblemSizes sizes_of(const char* recipe, Layout layout = Layout::nt, Grouping grouping = Grouping::dense) {
    ProblemSizes sizes{.grouping = grouping,
                       .recipe = parse_recipe(recipe).value(),
                       .layout = layout,
                       .m = 4096,
                       .n = 4096,
                       .k = 8192};
    if (grouping != Grouping::dense) sizes.groups = 4;
    return sizes;
}

// tools/count_description reads these.
constexpr int geometries_of_a_first_call = 1;
constexpr int preparations_of_a_first_call = 1;

TEST(KernelPlan, EveryQuestionDescribesACallOnce) {
    struct Question {
        const char* name;
        std::function<void(const Problem&)> ask;
    };
    const Question questions[] = {{"explain", [](const Problem& p) { (void)explain(p); }},
                                  {"plan", [](const Problem& p) { (void)plan(p); }},
                                  {"workspace_bytes", [](const Problem& p) { (void)workspace_bytes(p); }},
                                  {"planned_k_splits", [](const Problem& p) { (void)planned_k_splits(p, h200()); }}};
    for (const auto& [name, ask] : questions) {
        for (const Problem& p :
             {problem_of(sizes_of("1x128:128x128", Layout::tn)), problem_of(sizes_of("1x128:mxfp4")),
              problem_of(sizes_of("nvfp4:nvfp4")), with_packed_shape(problem_of(sizes_of("1x128:mxfp4")), 0)}) {
            times_made = {};
            ask(p);
            EXPECT_EQ(times_made.geometries, geometries_of_a_first_call) << name;
            EXPECT_EQ(times_made.workspace_plans, preparations_of_a_first_call) << name;
        }
    }
    times_made = {};
    (void)workspace_bytes(problem_of(sizes_of("1x128:128x128")));
    EXPECT_EQ(times_made.geometries, 0) << "K-major fp8 needs none, whatever its sizes";
    (void)scales_to_copy(problem_of(sizes_of("1x128:1x128")));
    EXPECT_EQ(times_made.geometries, 1);
    EXPECT_EQ(times_made.workspace_plans, 1);
}

/// C is given, although it has no address.
TEST(KernelPlan, AProblemWithoutMemoryMayHaveC) {
    ProblemSizes sizes = sizes_of("1x128:128x128");
    EXPECT_EQ(plan(problem_of(sizes)).path.output, "stored by TMA");
    sizes.with_c = true;
    EXPECT_FALSE(gpu_call(problem_of(sizes)).product.c.data);
    EXPECT_EQ(plan(problem_of(sizes)).path.output, "stored by threads");
    sizes = sizes_of("1x128:1x128", Layout::tn, Grouping::k_grouped);
    sizes.output = Format::f32;
    sizes.with_c = true;
    EXPECT_EQ(plan(problem_of(sizes)).path.output, "f32, stored by TMA through the memory that C is loaded into");
}

TEST(KernelPlan, ThreadsStoreTheSlicesOfK) {
    ProblemSizes sizes = sizes_of("1x128:128x128");
    sizes.m = 16;
    sizes.k = 7168;
    const Plan split = plan(problem_of(sizes));
    ASSERT_GT(planned_tile(split).cluster.k_slices, 1) << split.tile;
    EXPECT_EQ(split.path.output, "slices of k added in order, stored by threads");
}

TEST(KernelPlan, OnlyTheGeneralKernelRunsEveryCall) {
    const Geometry product = gpu_call(problem_of(sizes_of("1x128:128x128"))).product;
    const hopper::Kernel chosen = choose(workload(problem_of(sizes_of("1x128:128x128"))), h200(), {});
    const KernelPlan kernel = kernel_plan(product, chosen);
    EXPECT_EQ(given_kernel(product, kernel.tile).tile, kernel.tile);
    EXPECT_TRUE(given_kernel(product, kernel.tile).stores_by_tma);
    Geometry scaled = product;
    scaled.alpha = 2;
    EXPECT_NO_THROW((void)given_kernel(scaled, {.a = chosen.a, .b = chosen.b}));
    EXPECT_THROW((void)given_kernel(scaled, kernel.tile), std::logic_error);
}

TEST(KernelPath, FollowsTheTileAndTheCall) {
    const auto path = [](const char* recipe, Layout layout = Layout::nt) {
        ProblemSizes sizes = sizes_of(recipe, layout);
        sizes.m = 512;
        const Problem problem = problem_of(sizes);
        return plan(takes_packed_weights(problem) ? with_packed_shape(problem, 0) : problem).path;
    };
    EXPECT_EQ(path("1x128:128x128").feed, "both operands from shared memory");
    EXPECT_EQ(path("1x128:128x128").loop.find("sums of 128 k-elements, each scaled and added in fp32"), 0U);
    EXPECT_EQ(path("row:row").scales, "of rows or tensors at the end");
    EXPECT_EQ(path("row:row").loop.find("sums of 128 k-elements, each added in fp32"), 0U);
    EXPECT_EQ(path("row:row", Layout::nn).feed, "b transposed in registers");
    EXPECT_EQ(path("row:row", Layout::tt).feed, "a transposed in registers");
    EXPECT_EQ(path("mxfp8:mxfp8").loop, "sums of 32 k-elements, each scaled and added in fp32");
    EXPECT_EQ(path("mxfp8:mxfp8").scales, "of rows in the loop, loaded by a warp for every 32 k-elements");
    EXPECT_EQ(path("bf16:nvfp4").loop, "one sum over k in the tensor core");
    EXPECT_EQ(path("bf16:nvfp4").scales, "of NVFP4 tensors with alpha");
}

TEST(WorkspaceSteps, SayWhatIsWrittenAndWhy) {
    struct Case {
        ProblemSizes sizes;
        std::vector<std::string> steps;
    };
    const Case cases[] = {
        {sizes_of("1x128:128x128"), {}},
        {sizes_of("1x128:128x128", Layout::tn),
         {"a.values copied along k: only one operand may pass through registers, and this one is not the larger"}},
        {sizes_of("row:row", Layout::tt, Grouping::m_grouped_offsets),
         {"a.values copied along k: groups may begin at any row, and TMA loads only from multiples of 16 bytes"}},
        {sizes_of("1x128:128x128", Layout::nn),
         {"b.values copied along k: for this many rows one copy takes less time than a transposition for each tile of "
          "D"}},
        {sizes_of("mxfp8:mxfp8", Layout::nn),
         {"b.values copied along k: kernels for 1x32 scales read fp8 only along k"}},
        {sizes_of("1x128:1x128", Layout::tn, Grouping::k_grouped),
         {"a.values copied along k: k-grouped kernels read fp8 only along k",
          "b.values copied along k: k-grouped kernels read fp8 only along k"}},
        {sizes_of("1x128:mxfp4", Layout::tt),
         {"a.values copied along k: only one operand may pass through registers, and FP4 weights do",
          "b.scales arranged in tiles: the kernel reads the codes of unpacked weights in place, and their scales in "
          "tiles"}},
        {sizes_of("nvfp4:nvfp4"),
         {"a.values decoded to bf16: FP4 activations are multiplied as bf16",
          "b packed: kernels read these FP4 weights only packed; pack_weights does it once for all calls"}},
        {sizes_of("mxfp4:mxfp4"),
         {"a.values decoded to e4m3: FP4 activations are multiplied as e4m3",
          "b packed: kernels read these FP4 weights only packed; pack_weights does it once for all calls"}},
        {sizes_of("bf16:mxfp8"), {"b.values decoded to bf16: bf16 is multiplied as bf16"}},
    };
    for (const Case& test : cases) {
        const GpuCall call = gpu_call(problem_of(test.sizes));
        std::vector<std::string> steps;
        std::int64_t bytes = 0;
        for (const WorkspaceStep& step : workspace_steps(call)) {
            steps.push_back(step.operand + " " + step.what + ": " + step.why);
            bytes += step.bytes;
        }
        EXPECT_EQ(steps, test.steps) << name(test.sizes.recipe);
        EXPECT_LE(bytes, call.before.bytes);
        EXPECT_EQ(bytes == 0, call.before.empty());
    }
}

}  // namespace
}  // namespace tilewright::planner
