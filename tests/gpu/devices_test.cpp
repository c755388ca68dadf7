// The plans of every shipped device, forced on the present GPU, have the bits of the CPU asked for that device.
#include <gtest/gtest.h>
#include <tilewright/run.h>

#include <set>

#include "gpu/gpu_case.h"
#include "gpu/recipes.h"
#include "output/temporary_folder.h"
#include "plan/choose.h"
#include "plan/tsv.h"

namespace tilewright::test {
namespace {

/// How k is split, after the bits of D were compared.
std::vector<std::int64_t> compared(const check::CaseSpec& spec, const DeviceDescription& device) {
    const check::Case shapes(spec);
    std::vector<std::int64_t> k_splits = planner::planned_k_splits(shapes.problem(), device);
    const GpuCase gpu(spec, k_splits);
    run(gpu.problem(), {.backend = Backend::hopper, .device = &device});
    cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", 0);
    EXPECT_EQ(gpu.difference(), "") << device.name << " m " << spec.m << " n " << spec.n << " k " << spec.k;
    return k_splits;
}

TEST(GpuDevices, EachOnesPlansGiveTheBitsThatTheCpuGivesForIt) {
    const CurrentDevice current;
    std::set<std::vector<std::vector<std::int64_t>>> answers;
    int split = 0;
    for (const DeviceDescription& device : known_devices()) {
        std::vector<std::vector<std::int64_t>> of_device;
        for (const char* recipe : {"1x128:128x128", "row:row"}) {
            for (const std::int64_t m : {1, 16, 48, 100}) {
                for (const auto& [n, k] : {std::pair{520, 7168}, {2112, 2304}}) {
                    of_device.push_back(compared({.recipe = recipe_of(recipe), .m = m, .n = n, .k = k}, device));
                    split += of_device.back().empty() ? 0 : 1;
                }
            }
        }
        answers.insert(of_device);
    }
    EXPECT_GE(split, 16);
    EXPECT_GE(answers.size(), 2U) << "all devices split k alike: this test says nothing";
}

TEST(GpuDevices, AFileIsPlannedForAsATableThatShips) {
    const CurrentDevice current;
    const TemporaryFolder folder;
    const std::string name = "\nname\th100-nvl";
    std::string text(planner::device_tables.at(3));
    ASSERT_NE(text.find(name), std::string::npos);
    write_file(folder.file("mine.tsv"), text.replace(text.find(name), name.size(), "\nname\tmine"));
    const DeviceDescription mine = read_device(folder.file("mine.tsv"));
    const check::CaseSpec spec{.recipe = recipe_of("1x128:128x128"), .m = 16, .n = 2112, .k = 2304};
    EXPECT_EQ(compared(spec, mine), compared(spec, device_named("h100-nvl")));
}

}  // namespace
}  // namespace tilewright::test
