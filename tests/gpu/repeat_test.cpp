// A thousand launches always give the same bits, with other kernels on other streams at the same time. Launched are
// every tile, k-grouped kernels that are compiled on first use, copies, and a quantizer.
#include <gtest/gtest.h>
#include <tilewright/quantize_tokens.h>
#include <tilewright/run.h>

#include <atomic>
#include <cstring>
#include <functional>

#include "cuda/backend.h"
#include "formats/matrices.h"
#include "gpu/gpu_case.h"
#include "gpu/gpu_tiles.h"
#include "gpu/recipes.h"
#include "gpu/tile_recipe.h"
#include "hopper/description/design.h"
#include "launch/kernels.h"
#include "launch/launch.h"
#include "measure/device.h"
#include "plan/choose.h"
#include "plan/variant.h"
#include "tile_layout.h"

namespace tilewright::test {
namespace {

constexpr int launches = 1000;
constexpr int depth = 912;         // 8 k-blocks: a pitch of scales that TMA can take in either order
constexpr int depth_copied = 848;  // 7: along k they are copied

/// The difference and its launch; empty if there never is one.
template <typename Launch>
std::string repeat(const std::string& what, const GpuCase& gpu, const GpuCase& noise, const Launch& launch_in) {
    const Stream stream;
    const Stream other;
    for (int launch = 0; launch < launches; ++launch) {
        gpu.poison_output(stream.handle());
        if (launch % 3 == 0) cuda::run(noise.geometry(), hopper::Kernel{}, 0, other.handle());
        launch_in(stream.handle());
        stream.wait();
        if (gpu.output_is_right()) continue;
        return what + ", launch " + std::to_string(launch) + ": " + gpu.difference();
    }
    other.wait();
    return gpu.difference();  // what must not be written, too
}

std::string repeat(const hopper::Kernel& tile, int k, const GpuCase& noise) {
    const bool f32 = tile.output == hopper::Output::f32_by_tma;
    const GpuCase gpu(tests::in_layout_of(tile, {.grouping = tile_grouping(tile),
                                                 .recipe = recipe_of(tile_recipe(tile)),
                                                 .output = f32 ? Format::f32 : Format::bf16,
                                                 .m = 388,
                                                 .n = 520,
                                                 .k = k,
                                                 .groups = tile_groups(tile),
                                                 .with_c = f32,
                                                 .alpha = tile.output != hopper::Output::any ? 1.0F : 2.0F,
                                                 .accumulation = tests::accumulation_of(tile),
                                                 .a_scales_transposed = !tile.scales_along_k,
                                                 .b_scales_transposed = true,
                                                 .far_scales = tile_far_scales(tile)}),
                      planner::k_splits(tile, k));
    const Geometry geometry = gpu.geometry();
    if (planner::variant(geometry, tile) != tile) return launch::describe(tile) + ": another kernel would run";
    return repeat(launch::describe(tile), gpu, noise,
                  [&](cuda::StreamHandle stream) { cuda::run(geometry, tile, 0, stream); });
}

/// The tile that the library chooses, and the copies before it.
std::string repeat(const check::CaseSpec& spec, const GpuCase& noise) {
    const GpuCase gpu(spec);
    return repeat(check::describe(spec), gpu, noise, [&](cuda::StreamHandle stream) {
        run(gpu.problem(), {.stream = stream, .workspace = gpu.workspace()});
    });
}

/// In parallel, each on its own streams: every launch runs with others.
template <typename Each>
void expect_all(const std::vector<Each>& list,
                const std::function<std::string(const Each&, const GpuCase&)>& repeated) {
    const CurrentDevice device;
    std::atomic<int> failures = 0;
#pragma omp parallel
    {
        const CurrentDevice of_thread;
        const GpuCase noise({.recipe = recipe_of("tensor:tensor"), .m = 900, .n = 1100, .k = 2048});
#pragma omp for schedule(dynamic)
        for (std::size_t i = 0; i < list.size(); ++i) {
            const std::string difference = repeated(list[i], noise);
            if (difference.empty()) continue;
#pragma omp critical
            EXPECT_EQ(difference, "") << ++failures;
        }
    }
}

void expect_tiles(bool of_groups_of_k) {
    std::vector<hopper::Kernel> tiles = gpu_tiles();
    std::erase_if(tiles,
                  [&](const hopper::Kernel& tile) { return hopper::Design(tile).is_k_grouped() != of_groups_of_k; });
    expect_all<hopper::Kernel>(tiles, [](const hopper::Kernel& tile, const GpuCase& noise) {
        std::string difference = repeat(tile, depth, noise);
        if (hopper::Design(tile).scale_route.copies) difference += repeat(tile, depth_copied, noise);
        return difference;
    });
}

TEST(GpuRepeat, AThousandLaunchesOfEveryTile) { expect_tiles(false); }
TEST(GpuRepeat, AThousandLaunchesOfEveryTileForGroupsOfK) { expect_tiles(true); }

/// k-grouped kernels that do not ship, and groups that begin at a place that is not a multiple of 16 bytes.
std::vector<check::CaseSpec> groups_of_k() {
    std::vector<check::CaseSpec> list;
    for (const Grouping grouping : {Grouping::k_grouped_aligned_offsets, Grouping::k_grouped_flat}) {
        for (const char* recipe : {"128x128:128x128", "1x128:row", "1x128:tensor", "128x128:e4m3", "row:e4m3",
                                   "1x128:e5m2", "e5m2.row:e4m3.row", "1x128:128x128", "1x128:1x128", "row:row"}) {
            list.push_back({.grouping = grouping,
                            .recipe = recipe_of(recipe),
                            .output = Format::f32,
                            .m = 260,
                            .n = 264,
                            .k = depth,
                            .groups = 3,
                            .group_sizes = {272, 16, grouping == Grouping::k_grouped_flat ? depth - 288 : depth - 512},
                            .with_c = true,
                            .a_scales_transposed = true,
                            .b_scales_transposed = true});
        }
        check::CaseSpec unpromoted = list.back();
        unpromoted.accumulation = Accumulation::unpromoted;
        list.push_back(unpromoted);
        check::CaseSpec odd = list.back();
        odd.recipe = recipe_of("1x128:1x128");
        odd.accumulation = Accumulation::promoted;
        odd.group_sizes = {127, 1, grouping == Grouping::k_grouped_flat ? depth - 128 : depth - 512};
        list.push_back(odd);
    }
    return list;
}

TEST(GpuRepeat, AThousandLaunchesOfGroupsOfK) {
    expect_all<check::CaseSpec>(groups_of_k(),
                                [](const check::CaseSpec& spec, const GpuCase& noise) { return repeat(spec, noise); });
}

/// Copies along k: of a dense call with layout tn, and of a weight gradient whose B is forward's codes of the tokens.
TEST(GpuRepeat, AThousandLaunchesWithCopies) {
    const std::vector<check::CaseSpec> list{
        {.recipe = recipe_of("1x128:128x128"), .layout = Layout::tn, .m = 400, .n = 528, .k = depth},
        {.grouping = Grouping::k_grouped_aligned_offsets,
         .recipe = recipe_of("128x128:e4m3"),
         .layout = Layout::nn,
         .output = Format::f32,
         .m = 260,
         .n = 272,
         .k = depth,
         .groups = 3,
         .group_sizes = {272, 16, 400},
         .with_c = true}};
    expect_all<check::CaseSpec>(list,
                                [](const check::CaseSpec& spec, const GpuCase& noise) { return repeat(spec, noise); });
}

/// Both operands of one kernel, which runs in the default stream.
TEST(GpuRepeat, AThousandLaunchesOfAQuantizer) {
    const CurrentDevice device;
    const Stream other;
    const GpuCase noise({.recipe = recipe_of("tensor:tensor"), .m = 900, .n = 1100, .k = 2048});
    constexpr Granularity blocks = Granularity::block_1x128;
    const Dims shape{640, 528}, turned{528, 640};
    formats::Matrix x(Format::bf16, shape);
    x.fill_randomly(1);
    const formats::Matrix rows(Format::e4m3, shape), columns(Format::e4m3, turned);
    const formats::Matrix row_scales(Format::f32, scale_shape(blocks, shape));
    const formats::Matrix column_scales(Format::f32, scale_shape(blocks, turned));
    const formats::Matrix* const outputs[]{&rows, &row_scales, &columns, &column_scales};
    quantize_tokens({.x = x.tensor()}, {{rows.tensor(), blocks, row_scales.tensor(), {}}, {}, {}},
                    {{columns.tensor(), blocks, column_scales.tensor(), {}}, {}, {}});
    std::vector<measure::Buffer> buffers;
    const auto on_gpu = [&](Tensor tensor) {
        const auto bytes = static_cast<std::size_t>(row_major_bytes(tensor.format, tensor.shape));
        buffers.emplace_back(bytes);
        buffers.back().upload(tensor.data, bytes);
        tensor.data = buffers.back().data();
        tensor.device = {.kind = DeviceId::Kind::cuda};
        return tensor;
    };
    const TokenOperand first{{on_gpu(rows.tensor()), blocks, on_gpu(row_scales.tensor()), {}}, {}, {}};
    const TokenOperand second{{on_gpu(columns.tensor()), blocks, on_gpu(column_scales.tensor()), {}}, {}, {}};
    const Tensor source = on_gpu(x.tensor());
    for (int launch = 0; launch < launches; ++launch) {
        for (std::size_t i = 0; i < std::size(outputs); ++i) buffers[i].fill(0xA5);
        if (launch % 3 == 0) cuda::run(noise.geometry(), hopper::Kernel{}, 0, other.handle());
        quantize_tokens({.x = source}, first, second);
        for (std::size_t i = 0; i < std::size(outputs); ++i) {
            std::vector<std::byte> ours(buffers[i].size());
            buffers[i].download(ours.data(), ours.size());
            ASSERT_EQ(std::memcmp(ours.data(), outputs[i]->tensor().data, ours.size()), 0)
                << "output " << i << ", launch " << launch;
        }
    }
    other.wait();
}

}  // namespace
}  // namespace tilewright::test
