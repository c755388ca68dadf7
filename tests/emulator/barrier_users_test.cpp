// Who waits at a barrier and who arrives there, as kernels of each kind do on the emulator, against the two tables that
// open src/hopper/gemm.h.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "emulator/kernel_case.h"
#include "emulator/kernel_table.h"
#include "emulator/row_call.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using Names = std::set<std::string>;

/// Each kind of barrier is used by one of them.
std::vector<RowKernel> kernels() {
    return emulated({"1x128:128x128 | 128x48x128 stages=3 | any", "1x128:128x128 m_grouped | 128x48x128 stages=4 | any",
                     "row:row | 128x48x128 stages=3 | any", "row:row m_grouped | 128x48x128 stages=4 | any",
                     "1x128:128x128 k_grouped | 128x48x128 stages=3 | any",
                     "1x128:128x128 | 128x128x128 stages=3 split=2 | any"});
}

/// Scales in strides that TMA cannot load, so that row_scales does; D by TMA.
CaseSpec call(const KernelRow& row) {
    const bool copies = row.groups != hopper::Groups::k_aligned && row.recipes[0] != "row:row";
    return spec_of(row, std::string(copies ? "a_scale_gaps=1/0/0 " : "") + "m=300 n=144 k=1024");
}

struct Users {
    Names waiting;
    Names arriving;
};

using AllUsers = std::map<std::string, Users>;  // by barrier

/// Waits for `unfinished` have the name of waits for `full`, which row_scales does not wait for; `ended` is asked by
/// itself.
std::string name_of(const emulator::BarrierUse& use, const Users& users) {
    if (use.name.empty()) return "ended";
    return use.name == "full" && users.waiting.contains("row_scales") ? "unfinished" : use.name;
}

void add_users(const RowKernel& of, AllUsers& all) {
    const EmulatedKernel& kernel = of.kernel;
    const check::Case test(call(of.row));
    emulator::Counts counts;
    run_on_emulator(kernel, test.geometry(), {}, &counts);
    for (const auto& [offset, use] : counts.barriers) {
        Users users;
        for (const int warp : use.waiting_warps) users.waiting.insert(hopper::word(role_of(kernel.tile, warp)));
        for (const int warp : use.arriving_warps) users.arriving.insert(hopper::word(role_of(kernel.tile, warp)));
        Users& of_name = all[name_of(use, users)];
        of_name.waiting.merge(users.waiting);
        of_name.arriving.merge(users.arriving);
    }
}

/// "load (with bytes), row_scales": what is in brackets is a comment.
Names names_in(const std::string& cell) {
    Names names;
    std::istringstream text(cell);
    for (std::string each; std::getline(text, each, ',');) {
        names.insert(hopper::trimmed(each.substr(0, each.find('('))));
    }
    return names;
}

/// The roles in the barriers' table. Asking `ended` is not a wait; "all blocks" are the same roles of others.
Names roles_in(const std::string& cell) {
    if (cell == "all but warp 1") return {"load", "row_scales", "store", "multiply"};
    if (cell == "load, in end_waits") return {};
    Names roles = names_in(cell);
    roles.erase("all blocks");
    if (roles.erase("warp 1") > 0) roles.insert("scheduler_and_scales");
    return roles;
}

TEST(BarrierUsers, AreThoseOfTheWarpsTable) {
    if (sanitizes) GTEST_SKIP() << "the sample lacks kernels";
    const std::vector<RowKernel> list = kernels();
    AllUsers all;
    add_users(list.front(), all);
    std::map<std::string, Users> barriers_of;  // by role
    for (const auto& [barrier, users] : all) {
        for (const std::string& role : users.waiting) barriers_of[role].waiting.insert(barrier);
        for (const std::string& role : users.arriving) barriers_of[role].arriving.insert(barrier);
    }
    const std::map<std::string, hopper::Row> rows = hopper::table(TILEWRIGHT_GEMM, "warp");
    EXPECT_EQ(rows.size(), barriers_of.size());
    for (const auto& [warps, cells] : rows) {
        ASSERT_EQ(cells.size(), 5U) << warps;
        EXPECT_EQ(names_in(cells[2]), barriers_of[cells[1]].waiting) << cells[1] << " waits for";
        EXPECT_EQ(names_in(cells[3]), barriers_of[cells[1]].arriving) << cells[1] << " signals";
    }
}

TEST(BarrierUsers, AreThoseOfTheBarriersTable) {
    if (sanitizes) GTEST_SKIP() << "the sample lacks kernels";
    AllUsers all;
    for (const RowKernel& of : kernels()) add_users(of, all);
    const std::map<std::string, hopper::Row> rows = hopper::table(TILEWRIGHT_GEMM, "barrier");
    EXPECT_EQ(rows.size(), all.size());
    for (const auto& [barrier, cells] : rows) {
        ASSERT_EQ(cells.size(), 4U) << barrier;
        EXPECT_EQ(roles_in(cells[1]), all[barrier].waiting) << "who waits for " << barrier;
        EXPECT_EQ(roles_in(cells[2]), all[barrier].arriving) << "who arrives at " << barrier;
    }
}

}  // namespace
}  // namespace tilewright::tests
