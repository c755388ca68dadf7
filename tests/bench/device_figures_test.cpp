// Figures of a device file: from the times that a known GPU would take, its figures come back.
#include "bench/device_figures.h"

#include <gtest/gtest.h>
#include <tilewright/error.h>

#include <algorithm>

#include "hopper/description/design.h"
#include "measure/probes.h"
#include "output/temporary_folder.h"
#include "plan/cost.h"
#include "plan/model.h"
#include "plan/shipped_tiles.h"
#include "plan/workload.h"

namespace tilewright::bench {
namespace {

constexpr double launch = 1.2e-6;

struct Known {
    ProblemSizes sizes{};
    hopper::Kernel tile{};
};

/// A shipped tile of a product.
Known known(const char* recipe, Accumulation accumulation) {
    const ProblemSizes sizes{.recipe = parse_recipe(recipe).value(),
                             .m = 128 * 12 * 8,
                             .n = 256 * 11,
                             .k = 16384,
                             .accumulation = accumulation};
    for (const hopper::Kernel& tile :
         planner::shipped_tiles(planner::shapeless_kernel(planner::workload(problem_of(sizes))))) {
        if (tile.shape.m == 128 && tile.shape.n == 256 && tile.cluster.size() == 1 && !tile.swap_ab)
            return {sizes, tile};
    }
    ADD_FAILURE() << "no such tile ships";
    return {};
}

/// The times of this GPU.
DeviceTimings timings_of(const DeviceDescription& gpu) {
    const double start = gpu.start_seconds + launch;
    const double read = 1 / gpu.memory_bytes_per_second, written = read * gpu.written_byte;
    DeviceTimings timings{
        .gpu = {.name = "NVIDIA " + gpu.name, .sms = gpu.sms, .clock_hertz = gpu.boost_hertz, .l2_bytes = gpu.l2_bytes},
        .pairs_at_once = gpu.cluster_2_sms / 2,
        .shallow_bytes = 32768,
        .empty_kernel = launch};
    for (const double bytes : {16e6, 64e6, 250e6}) {
        timings.reads.push_back({.bytes = bytes, .seconds = start + bytes * read});
        timings.writes.push_back({.bytes = bytes, .seconds = 2e-6 + bytes * written});
    }
    timings.copy = {.bytes = 250e6, .seconds = start + 250e6 * (read + written)};
    timings.shallow = {.bytes = 250e6, .seconds = start + 250e6 * gpu.memory_latency / (32768.0 * gpu.sms)};
    timings.l2_of_all = {.bytes = 4e9, .seconds = start + 4e9 / gpu.l2_bytes_per_second};
    timings.l2_of_one = {.bytes = 3e7, .seconds = start + 3e7 / (gpu.l2_bytes_per_clock * 1.7e9), .hertz = 1.7e9};

    const Known unpromoted = known("row:row", Accumulation::unpromoted);
    const planner::Workload work = planner::workload(problem_of(unpromoted.sizes));
    timings.power = {.sizes = unpromoted.sizes,
                     .tile = unpromoted.tile,
                     .hertz = planner::cost(unpromoted.tile, work, gpu).clock_hertz};
    const Known promoted = known("1x128:128x128", Accumulation::promoted);
    for (const hopper::Kernel& tile : {unpromoted.tile, promoted.tile}) {
        const planner::Loop loop = planner::loop(hopper::Design(tile));
        const double clocks = loop.tensor_clocks + loop.stall_clocks;
        const auto times = [&](std::int64_t waves, std::int64_t k_blocks, double hertz) {
            const double store = 2.0 * tile.shape.m * tile.shape.n / 30;
            const double all = 3000 + static_cast<double>(waves) * (static_cast<double>(k_blocks) * clocks + store);
            return TileTimes{
                .tile = tile, .waves = waves, .k_blocks = k_blocks, .time = {.seconds = all / hertz, .hertz = hertz}};
        };
        timings.loops.insert(timings.loops.end(), {times(1, 16, 1.9e9), times(1, 64, 1.6e9)});
        timings.stores.insert(timings.stores.end(), {times(2, 2, 1.9e9), times(4, 2, 1.8e9)});
    }
    return timings;
}

const Figure& figure(const std::vector<Figure>& all, const std::string& name) {
    const auto found = std::ranges::find(all, name, &Figure::name);
    EXPECT_NE(found, all.end()) << name;
    return *found;
}

TEST(DeviceFigures, AreThoseOfTheGpuThatTookTheTimes) {
    for (const char* name : {"h200", "h100", "h100-pcie"}) {
        const DeviceDescription& gpu = device_named(name);
        const std::vector<Figure> figures = device_figures(timings_of(gpu), gpu);
        for (const planner::DeviceField& field : planner::device_fields()) {
            double expected = std::visit([&](auto member) { return static_cast<double>(gpu.*member); }, field.member);
            if (field.name == "launch_seconds") expected = launch;
            const Figure& found = figure(figures, std::string(field.name));
            EXPECT_NEAR(found.value / expected, 1, 1e-3) << name << " " << field.name;
            EXPECT_TRUE(found.is_field);
            EXPECT_FALSE(found.source.empty());
        }
        EXPECT_NEAR(figure(figures, "copy").value / figure(figures, "copy").shipped, 1, 1e-3);
        EXPECT_NEAR(figure(figures, "loop 128x256").value / figure(figures, "loop 128x256").shipped, 1, 1e-3);
        EXPECT_NEAR(figure(figures, "store 128x256").value, 30, 1e-3);
        EXPECT_NEAR(figure(figures, "store 128x256 unpromoted").value, 30, 1e-3);
    }
}

TEST(DeviceFigures, MakeAFileThatIsRead) {
    const DeviceDescription& gpu = h200();
    const DeviceTimings timings = timings_of(gpu);
    const test::TemporaryFolder folder;
    test::write_file(folder.file("my.tsv"),
                     device_file(device_figures(timings, gpu), "mine", timings.gpu, "made by a test"));
    const DeviceDescription read = read_device(folder.file("my.tsv"));
    EXPECT_EQ(read.name, "mine");
    EXPECT_TRUE(read.assumed.empty());
    EXPECT_EQ(read.sms, gpu.sms);
    EXPECT_EQ(read.l2_bytes, gpu.l2_bytes);
    EXPECT_EQ(read.l2_bytes_per_clock, gpu.l2_bytes_per_clock);
    EXPECT_NEAR(read.power_hertz / gpu.power_hertz, 1, 1e-3);
    EXPECT_NEAR(read.memory_latency / gpu.memory_latency, 1, 1e-3);
}

TEST(DeviceFigures, SayWhatWasNotMeasured) {
    DeviceTimings timings = timings_of(h200());
    timings.pairs_at_once.reset();
    timings.loops.clear();
    timings.power->hertz = h200().boost_hertz;
    const std::vector<Figure> figures = device_figures(timings, h200());
    for (const char* name : {"cluster_2_sms", "fp8_products_per_clock", "power_hertz"}) {
        EXPECT_TRUE(figure(figures, name).source.starts_with("assumed")) << name;
    }
    EXPECT_EQ(figure(figures, "power_hertz").value, h200().power_hertz);
    EXPECT_EQ(std::ranges::count(figures, "store 128x256", &Figure::name), 0);
    const std::string text = figures_text(figures, "h200");
    EXPECT_NE(text.find("assumed"), std::string::npos) << text;
    EXPECT_NE(text.find("memory_bytes_per_second"), std::string::npos) << text;
}

TEST(DeviceFigures, RefuseTimesThatNoGpuHas) {
    const auto refused = [](void (*spoil)(DeviceTimings&)) {
        DeviceTimings timings = timings_of(h200());
        spoil(timings);
        EXPECT_THROW((void)device_file(device_figures(timings, h200()), "mine", timings.gpu, "x"), Error);
    };
    refused([](DeviceTimings& t) { t.reads.clear(); });
    refused([](DeviceTimings& t) { t.reads.resize(1); });
    refused([](DeviceTimings& t) { std::swap(t.reads.front().seconds, t.reads.back().seconds); });
    refused([](DeviceTimings& t) { t.writes.back().seconds = 0; });
    refused([](DeviceTimings& t) { t.shallow.seconds = 0; });
    refused([](DeviceTimings& t) { t.l2_of_all.seconds = 0; });
    refused([](DeviceTimings& t) { t.l2_of_one.hertz = 0; });
    refused([](DeviceTimings& t) { t.empty_kernel = 0; });
    refused([](DeviceTimings& t) { t.gpu.sms = 0; });
    refused([](DeviceTimings& t) { t.loops[1].time.seconds = 0; });
    refused([](DeviceTimings& t) { t.stores[1].time.seconds = 0; });
    refused([](DeviceTimings& t) { t.l2_of_all.bytes = 1e30; });
}

/// The sizes of PTX are numbers in its text.
TEST(Probes, PtxHasTheSizesOfItsHeader) {
    const std::string& text = measure::probes_ptx();
    EXPECT_EQ(measure::ProbeStream::chunk_bytes, 1 << 14);
    for (const char* part : {"full[12]", "[%address], 16384,", "shl.b64 %offset, %at, 14;", "_, [%barrier], 16384;"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part;
    }
    EXPECT_EQ(measure::ProbeStream::most_depth, 12);
}

}  // namespace
}  // namespace tilewright::bench
