// The two tables that open src/hopper/gemm.h, against the roles, registers and arrivals that the code computes.
#include "hopper/kernel/barriers.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "emulator/emulator.h"
#include "emulator/kernel_table.h"
#include "emulator/primitives.h"
#include "hopper/description/derive.h"
#include "kernel_of_recipe.h"

namespace tilewright::hopper {
namespace {

constexpr Kernel shown_kernel = tests::of_recipe(tests::blocks_of_both, {.shape = {.m = 256, .n = 128}, .stages = 3});
constexpr Design shown = design_of(shown_kernel);

constexpr Design with_groups(Groups groups) {
    Kernel kernel = shown_kernel;
    kernel.groups = groups;
    return design_of(kernel);
}
constexpr Design with_cluster(const Cluster& cluster) {
    Kernel kernel = shown_kernel;
    kernel.cluster = cluster;
    return design_of(kernel);
}

TEST(Tables, WarpsHaveTheRolesAndRegistersThatTheCodeComputes) {
    const std::map<std::string, Row> rows = table(TILEWRIGHT_GEMM, "warp");
    int warps = 0;
    for (const auto& [name, row] : rows) {
        ASSERT_EQ(row.size(), 5U) << name;
        const int first = std::stoi(name);
        const std::size_t dash = name.find('-');
        const int last = dash == std::string::npos ? first : std::stoi(name.substr(dash + 1));
        for (int warp = first; warp <= last; ++warp, ++warps) {
            EXPECT_EQ(row[1], word(role_of(shown, warp))) << "warp " << warp;
            const int registers = warp < producer_warps ? shown.producer_registers : shown.consumer_registers;
            EXPECT_EQ(row[4], std::to_string(registers)) << "warp " << warp;
        }
    }
    EXPECT_EQ(warps, shown.threads / warp_threads);
    EXPECT_EQ(role_of(with_groups(Groups::rows), 1), Role::scheduler);
}

/// The meaning of the words in the column `arrivals`.
int arrivals(const std::string& words, const Design& tile, bool by_tma) {
    if (words == "1") return 1;
    if (words == "1 + row scale warps") return 1 + row_scale_warps(tile, by_tma);
    if (words == "warps of a warpgroup") return warpgroup_warps;
    if (words == "consumer warps") return tile.consumer_warps;
    if (words == "consumer warps x cluster") return tile.consumer_warps * tile.cluster.size;
    if (words == "warps that take tiles") return 1 + row_scale_warps(tile, by_tma) + tile.consumer_warps + 1;
    return -1;
}

TEST(Tables, BarriersHaveTheArrivalsThatTheCodeComputes) {
    const Design pair = with_cluster(share_b(2)), grouped = with_groups(Groups::rows), split = with_cluster(split_k(4));
    const std::map<std::string, Row> rows = table(TILEWRIGHT_GEMM, "barrier");
    std::set<std::string> seen;
    const auto expect = [&](const char* name, int computed, const Design& tile, bool by_tma = false) {
        const auto row = rows.find(name);
        ASSERT_NE(row, rows.end()) << name;
        ASSERT_EQ(row->second.size(), 4U) << name;
        EXPECT_EQ(arrivals(row->second[3], tile, by_tma), computed) << name;
        seen.insert(name);
    };
    for (const bool by_tma : {false, true}) {
        expect("full", full_arrivals(shown, by_tma), shown, by_tma);
        expect("work_empty", work_empty_arrivals(grouped, by_tma, true), grouped, by_tma);
    }
    for (const Design& tile : {shown, pair}) expect("empty", empty_arrivals(tile), tile);
    expect("ended", ended_arrivals(shown), shown);
    const Design of_k = with_groups(Groups::k_aligned);
    expect("landed", landed_arrivals(of_k), of_k);
    EXPECT_EQ(work_empty_arrivals(of_k, true, true), work_empty_arrivals(grouped, false, true)) << "row_scales always";
    expect("staged", staged_arrivals(shown), shown);
    expect("stored", stored_arrivals(shown), shown);
    for (const char* full : {"block_scales_full", "epilogue_scales_full"})
        expect(full, scales_full_arrivals(shown), shown);
    for (const char* empty : {"block_scales_empty", "epilogue_scales_empty"}) {
        expect(empty, scales_empty_arrivals(shown), shown);
    }
    expect("work_full", work_full_arrivals(grouped), grouped);
    expect("slices_full", slices_full_arrivals(split), split);
    expect("slices_read", slices_read_arrivals(split), split);
    EXPECT_EQ(seen.size(), rows.size()) << "a row that nothing computes";
    // Waits for `landed` have the name of those for `full`.
    EXPECT_EQ(rows.size(), static_cast<std::size_t>(BarrierName::slices_read) + 1) << "a barrier without a row";
}

}  // namespace
}  // namespace tilewright::hopper
