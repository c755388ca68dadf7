// Groups whose sizes only the GPU knows: every way to say them, every recipe, sizes that no one could mean, graphs that
// are replayed with others. The GPU's bits are the CPU's, and rows of no group keep theirs.
#include <gtest/gtest.h>
#include <tilewright/run.h>

#include <limits>
#include <random>

#include "gpu/gpu_case.h"
#include "gpu/recipes.h"

namespace tilewright::test {
namespace {

constexpr std::array groupings{Grouping::m_grouped_offsets, Grouping::m_grouped_masked,
                               Grouping::m_grouped_aligned_offsets, Grouping::m_grouped_indices};
constexpr std::array recipes{"1x128:128x128", "1x128:1x128",     "row:row",   "tensor:tensor",
                             "128x128:e4m3",  "128x128:128x128", "1x128:row", "row:e4m3"};

check::CaseSpec spec_of(Grouping grouping, const char* recipe) {
    return {.grouping = grouping,
            .recipe = recipe_of(recipe),
            .m = 600,
            .n = 520,
            .k = 784,
            .groups = 5,
            .a_scales_transposed = true,
            .b_scales_transposed = true};
}

void wait() { cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", 0); }

TEST(GpuGrouped, EveryRecipe) {
    const CurrentDevice device;
    // Every way to say sizes runs the same kernels: other recipes than the main ones in one of them.
    for (const Recipe& recipe : gpu_recipes()) {
        check::CaseSpec spec = spec_of(Grouping::m_grouped_offsets, "row:row");
        spec.recipe = recipe;
        EXPECT_EQ(run_and_compare(spec), "");
    }
    for (const Grouping grouping : groupings) {
        for (const char* recipe : recipes) EXPECT_EQ(run_and_compare(spec_of(grouping, recipe)), "");
    }
}

TEST(GpuGrouped, AnySplit) {
    const CurrentDevice device;
    std::mt19937_64 random(1);
    std::vector<check::CaseSpec> specs;
    for (int i = 0; i < 240; ++i) {
        check::CaseSpec spec = spec_of(groupings[i % groupings.size()], recipes[i / 4 % recipes.size()]);
        spec.groups = 1 + static_cast<std::int64_t>(random() % 40);
        spec.m = 1 + static_cast<std::int64_t>(random() % (spec.grouping == Grouping::m_grouped_masked ? 300 : 2000));
        spec.n = 1 + static_cast<std::int64_t>(random() % 700);
        spec.k = 16 * (1 + static_cast<std::int64_t>(random() % 70));
        spec.alignment = 1LL << random() % 8;
        spec.index_alignment = random() % 2 == 0 ? spec.alignment : 1;
        spec.size_format = random() % 2 == 0 ? Format::i32 : Format::i64;
        spec.a_scales_transposed = random() % 2 == 0;
        spec.seed = random();
        specs.push_back(spec);
    }
    EXPECT_EQ(run_and_compare(specs), "");
}

TEST(GpuGrouped, OutputsWithCAndAlpha) {
    const CurrentDevice device;
    for (const Grouping grouping : groupings) {
        for (const Format output : {Format::bf16, Format::f16, Format::f32}) {
            check::CaseSpec spec = spec_of(grouping, "1x128:128x128");
            spec.output = output;
            spec.alpha = -0.75F;
            EXPECT_EQ(run_and_compare(spec), "");
            spec.with_c = true;
            spec.n = 515;
            EXPECT_EQ(run_and_compare(spec), "");
            spec.k = 0;
            EXPECT_EQ(run_and_compare(spec), "");
        }
    }
}

TEST(GpuGrouped, OneLargeGroupAmongEmptyOnes) {
    const CurrentDevice device;
    for (const Grouping grouping : groupings) {
        for (const std::int64_t groups : {256, 300}) {
            check::CaseSpec spec = spec_of(grouping, "1x128:128x128");
            spec.groups = groups;
            spec.n = 136;
            spec.k = 272;
            spec.m = 2400;
            spec.alignment = 1;
            spec.group_sizes.assign(static_cast<std::size_t>(groups), 0);
            EXPECT_EQ(run_and_compare(spec), "");
            for (std::size_t i = 0; i < spec.group_sizes.size(); i += 3) spec.group_sizes[i] = 1;
            for (const std::size_t hot : {0, 32, 255}) {
                const std::int64_t before = spec.group_sizes[hot];
                spec.group_sizes[hot] = 2300;
                EXPECT_EQ(run_and_compare(spec), "");
                spec.group_sizes[hot] = before;
            }
        }
    }
}

TEST(GpuGrouped, GarbageIsClamped) {
    const CurrentDevice device;
    constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
    for (const Grouping grouping :
         {Grouping::m_grouped_offsets, Grouping::m_grouped_masked, Grouping::m_grouped_aligned_offsets}) {
        for (const std::vector<std::int64_t>& entries : {std::vector<std::int64_t>{500, 50, 10, 600, 7},
                                                         {-5, 40, 1000, huge, least},
                                                         {huge, least, 7, 7, 7},
                                                         {least, 20, huge, 1, 300}}) {
            check::CaseSpec spec = spec_of(grouping, "1x128:128x128");
            spec.size_format = Format::i64;
            spec.size_entries = entries;
            EXPECT_EQ(run_and_compare(spec), "");
        }
    }
    std::mt19937_64 random(7);
    for (const int longest : {1, 30, 400}) {
        check::CaseSpec spec = spec_of(Grouping::m_grouped_indices, "1x128:128x128");
        spec.size_format = Format::i64;
        while (static_cast<std::int64_t>(spec.size_entries.size()) < spec.m) {
            const std::int64_t group =
                std::array<std::int64_t, 8>{0, 1, 2, 5, -1, huge, least, 1LL << 32}[random() % 8];
            for (auto run = 1 + random() % longest; run > 0; --run) spec.size_entries.push_back(group);
        }
        spec.size_entries.resize(static_cast<std::size_t>(spec.m));
        EXPECT_EQ(run_and_compare(spec), "");
    }
}

TEST(GpuGrouped, FewSmsAndManyTiles) {
    const CurrentDevice device;
    for (const Grouping grouping : groupings) {
        for (const Layout layout : {Layout::nt, Layout::nn}) {
            check::CaseSpec spec = spec_of(grouping, "1x128:128x128");
            spec.layout = layout;
            spec.m = grouping == Grouping::m_grouped_masked ? 700 : 5000;
            spec.n = 1296;
            spec.groups = 9;
            EXPECT_EQ(run_on_few_sms(spec), "");
        }
    }
}

TEST(GpuGrouped, AGraphIsReplayedWithOtherSizes) {
    const CurrentDevice device;
    const cuda::DriverCalls& call = cuda::driver().call;
    for (const Grouping grouping : groupings) {
        check::CaseSpec spec = spec_of(grouping, "1x128:128x128");
        GpuCase gpu(spec);
        const Stream stream;
        cuda::GraphHandle graph = nullptr;
        cuda::GraphExecutionHandle execution = nullptr;
        cuda::driver().require(call.stream_begin_capture(stream.handle(), 0), "cuStreamBeginCapture", 0);
        run(gpu.problem(), {.stream = stream.handle()});
        cuda::driver().require(call.stream_end_capture(stream.handle(), &graph), "cuStreamEndCapture", 0);
        cuda::driver().require(call.graph_instantiate(&execution, graph, 0), "cuGraphInstantiate", 0);
        for (int replay = 0; replay < 30; ++replay) {
            spec.seed = 100 + static_cast<std::uint64_t>(replay);
            gpu.take_data(GpuCase(spec));
            cuda::driver().require(call.graph_launch(execution, stream.handle()), "cuGraphLaunch", 0);
            stream.wait();
            ASSERT_EQ(gpu.difference(), "") << "replay " << replay;
        }
        call.graph_execution_destroy(execution);
        call.graph_destroy(graph);
    }
}

/// The rows of group 1, computed as a dense product from the same memory, have the same bits. Not with 128x128 scales
/// of A, whose blocks do not begin with the group.
TEST(GpuGrouped, ARowHasTheSameBitsAlone) {
    const CurrentDevice device;
    for (const char* recipe : {"1x128:128x128", "1x128:1x128", "row:row", "tensor:tensor", "1x128:row", "row:e4m3"}) {
        check::CaseSpec spec = spec_of(Grouping::m_grouped_offsets, recipe);
        spec.groups = 3;
        spec.group_sizes = {100, 37, 463};
        const GpuCase gpu(spec);
        Problem grouped = gpu.problem();
        grouped.reproducibility = Reproducibility::invariant;
        run(grouped);
        wait();
        const std::vector<std::byte> together = gpu.output();
        gpu.reset();
        Problem dense = grouped;
        dense.groups = {};
        const auto rows_from = [](Tensor tensor, std::int64_t index) {
            tensor.data = static_cast<std::byte*>(tensor.data) + index * tensor.strides[0] * bits(tensor.format) / 8;
            return tensor;
        };
        const auto first_group = [&](Tensor tensor) {
            Tensor view = rows_from(tensor, 1);
            view.shape = tensor.shape.rank() == 3 ? Dims{tensor.shape[1], tensor.shape[2]} : Dims{tensor.shape[1]};
            view.strides =
                tensor.shape.rank() == 3 ? Dims{tensor.strides[1], tensor.strides[2]} : Dims{tensor.strides[1]};
            return view;
        };
        const bool tensor_wide = dense.a.granularity == Granularity::tensor;
        dense.a.values = rows_from(dense.a.values, 100);
        dense.a.values.shape[0] = 37;
        if (!tensor_wide) {
            dense.a.scales = rows_from(dense.a.scales, 100);
            dense.a.scales.shape[0] = 37;
        }
        dense.b.values = first_group(dense.b.values);
        if (tensor_wide) {
            dense.b.scales = rows_from(dense.b.scales, 1);
            dense.b.scales.shape[0] = 1;
        } else if (dense.b.granularity != Granularity::none) {
            dense.b.scales = first_group(dense.b.scales);
        }
        dense.d = rows_from(dense.d, 100);
        dense.d.shape[0] = 37;
        run(dense);
        wait();
        const std::vector<std::byte> alone = gpu.output();
        const std::ptrdiff_t begin = 100 * spec.n * 2, end = 137 * spec.n * 2;
        EXPECT_TRUE(std::equal(together.begin() + begin, together.begin() + end, alone.begin() + begin)) << recipe;
        EXPECT_NE(together, alone) << "the other groups were not asked for";
    }
}

}  // namespace
}  // namespace tilewright::test
