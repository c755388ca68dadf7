// The two tables that open src/hopper/gemm.h, against the roles, registers and arrivals that the code computes.
#include "hopper/kernel/barriers.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "emulator/emulator.h"
#include "emulator/kernel_table.h"
#include "emulator/primitives.h"
#include "hopper/description/design.h"
#include "kernel_of_recipe.h"

namespace tilewright::hopper {
namespace {

constexpr Kernel shown_kernel = tests::of_recipe(tests::blocks_of_both, {.shape = {.m = 256, .n = 128}, .stages = 3});
constexpr Design shown = Design(shown_kernel);

constexpr Design with_groups(Groups groups) {
    Kernel kernel = shown_kernel;
    kernel.groups = groups;
    return Design(kernel);
}
constexpr Design with_cluster(const Cluster& cluster) {
    Kernel kernel = shown_kernel;
    kernel.cluster = cluster;
    return Design(kernel);
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
    EXPECT_EQ(role_of(with_groups(Groups::rows), 1), Role::scheduler_and_scales);
}

/// The meaning of the words in the column `arrivals`, of kernels whose scales need a warp unless TMA loads them.
int arrivals(const std::string& words, const Design& tile, bool by_tma) {
    const int row_scales = by_tma ? 0 : 1, consumers = 4 * tile.shape.warpgroups;
    if (words == "1") return 1;
    if (words == "1 + row scale warps") return 1 + row_scales;
    if (words == "warps of a warpgroup") return 4;
    if (words == "consumer warps") return consumers;
    if (words == "consumer warps x cluster") return consumers * tile.cluster.size();
    if (words == "warps that take tiles") return 1 + row_scales + consumers + 1;
    return -1;
}

TEST(Tables, BarriersHaveTheArrivalsThatTheCodeComputes) {
    const Design grouped = with_groups(Groups::rows), of_k = with_groups(Groups::k_aligned);
    std::map<std::string, Row> rows = table(TILEWRIGHT_GEMM, "barrier");
    const auto expect = [&](BarrierName barrier, const Design& tile) {
        const Row& row = rows[name_of(barrier)];
        ASSERT_EQ(row.size(), 4U) << name_of(barrier);
        for (const bool by_tma : {false, true})
            EXPECT_EQ(arrivals(row[3], tile, by_tma), arrivals_at(barrier, tile, by_tma, true)) << name_of(barrier);
    };
    constexpr int last = static_cast<int>(BarrierName::slices_read);
    for (int i = 1; i <= last; ++i) {
        const auto barrier = static_cast<BarrierName>(i);
        const std::string name = name_of(barrier);
        expect(barrier, name.starts_with("work")     ? grouped
                        : name.starts_with("slices") ? with_cluster({.k_slices = 4})
                                                     : shown);
    }
    expect(BarrierName::empty, with_cluster({.rows = 2}));
    EXPECT_EQ(arrivals_at(BarrierName::work_empty, of_k, true, true),
              arrivals_at(BarrierName::work_empty, grouped, false, true))
        << "row_scales always";
    EXPECT_EQ(arrivals_at(BarrierName::full, Design({})), 1) << "no row scales";
    // Waits for `unfinished`, which one thread ends, have the name of those for `full`.
    EXPECT_EQ(rows["unfinished"].at(3), "1");
    EXPECT_EQ(rows.size(), static_cast<std::size_t>(last) + 1) << "a row that nothing computes";
}

}  // namespace
}  // namespace tilewright::hopper
