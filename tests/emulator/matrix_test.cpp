// Each kernel of the matrix runs its calls on the emulator. Each bit is compared with the CPU's arithmetic `bit_exact`.
// Memory outside of operands is NaN or unreadable, and nothing outside of D and the workspace may be written.
#include "emulator/changed_data.h"
#include "emulator/kernel_case.h"
#include "emulator/prepared_case.h"
#include "emulator/row_call.h"
#include "emulator/row_kernel.h"
#include "hopper/description/design.h"
#include "launch/kernels.h"
#include "plan/shipped_kernels.h"
#include "plan/tma.h"
#include "plan/workload.h"
#include "problem/hopper_rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tilewright::tests {
namespace {

using hopper::Design;

const Matrix& matrix() {
    static const Matrix read = read_matrix(TILEWRIGHT_MATRIX);
    return read;
}

/// A kernel that ships has its tile: there are some of which no recipe is.
struct Tested {
    KernelRow row;
    std::optional<hopper::Kernel> shipped{};
};

void PrintTo(const Tested& tested, std::ostream* out) { *out << tested.row.place << ": " << tested.row.text; }

/// Kernels that ship run the calls of what they serve, and of their groups and operands.
KernelRow shipped_row(const hopper::Kernel& tile) {
    KernelRow row = row_of(tile);
    const std::string serves(name(row.serves));
    const std::string more = fmt::format("{} {} {}", serves, name(row.groups), name(row.operands));
    for (const std::string& words : {serves, more}) {
        const auto found = matrix().shipped.find(words);
        if (found == matrix().shipped.end()) continue;
        row.calls.insert(row.calls.end(), found->second.begin(), found->second.end());
    }
    return row;
}

/// Those that this build runs.
std::vector<Tested> tested() {
    std::vector<Tested> list;
    for (const KernelRow& row : matrix().kernels) {
        if (!row.calls.empty() && (!sanitizes || row.sanitize)) list.push_back({.row = row});
    }
    if (sanitizes) return list;
    for (const hopper::Kernel& tile : planner::shipped_kernels())
        list.push_back({.row = shipped_row(tile), .shipped = tile});
    return list;
}

/// wgmmas of the warpgroups that have rows of D.
std::int64_t needed_products(const hopper::Design& tile, const check::CaseSpec& spec) {
    constexpr int of_a_k_block = 4;
    std::int64_t shares = 0;
    const int tiles_m =
        hopper::tiles_along(static_cast<int>(spec.m), tile.d_rows * tile.cluster.rows) * tile.cluster.rows;
    for (int row = 0; row < tiles_m * tile.d_rows; row += tile.d_rows) {
        for (int warpgroup = 0; warpgroup < tile.shape.warpgroups; ++warpgroup) {
            if (!tile.skips_rows || row + warpgroup * tile.rows_per_warpgroup < spec.m) ++shares;
        }
    }
    const std::int64_t columns = spec.n / tile.d_columns * spec.groups;
    return shares * columns * ((spec.k + 127) / 128) * tile.subtiles * of_a_k_block;
}

std::string difference_of(const EmulatedKernel& kernel, const RowCall& call) {
    if (std::string reason = check::impossible(call.spec); !reason.empty()) return reason;
    check::Case test(call.spec);
    DataChange change(test, call.data);
    if (call.prepares) return prepared_difference(kernel, test, call.run, call.packs);
    if (!serves(kernel, call.spec)) return "the kernel does not serve this call";
    if (call.copies_scales && planner::loads_scales_by_tma(test.geometry(), kernel.tile)) return "TMA loads the scales";
    emulator::Counts counts;
    Conditions run = call.run;
    run.counts = &counts;
    const std::string wrong = difference(
        kernel, test, run, [&] { change.fill_c(); }, change.gives_any_nan());
    if (!wrong.empty() || !call.counts_products) return wrong;
    const std::int64_t needed = needed_products(kernel.tile, call.spec);
    return counts.products == needed ? "" : fmt::format("{} wgmmas; {} are needed", counts.products, needed);
}

class MatrixKernels : public testing::TestWithParam<Tested> {};

TEST_P(MatrixKernels, GiveTheBitsOfTheCpu) {
    const auto& [row, shipped] = GetParam();
    const EmulatedKernel kernel = shipped ? emulated(*shipped) : emulated(row);
    ASSERT_NE(kernel.run, nullptr) << row.text << " is not compiled";
    int number = static_cast<int>(row.text.size());
    Sample sample(3);
    for (const std::string& set : row.calls) {
        const auto calls = matrix().calls.find(set);
        ASSERT_NE(calls, matrix().calls.end()) << row.place << ": got '" << set << "'; expected a set of calls";
        for (const CallRow& each : calls->second) {
            const RowCall call = call_of(row, each, ++number);
            if (!sample.takes_next()) continue;
            EXPECT_EQ(difference_of(kernel, call), "")
                << row.place << ": " << row.text << "\n"
                << each.place << ": " << describe(kernel, call.spec, call.run) << (call.packs ? ", packed" : "");
        }
    }
}

/// "mainloop_12_bf16": the file, the line, what the kernel serves, and a number that makes it one of a kind.
std::string test_name(const testing::TestParamInfo<Tested>& info) {
    std::string text = info.param.row.place;
    text.erase(std::min(text.find(".txt"), text.size()), 4);
    text += "_" + std::string(name(info.param.row.serves)) + "_" + std::to_string(info.index);
    std::ranges::replace_if(
        text, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return text;
}

INSTANTIATE_TEST_SUITE_P(All, MatrixKernels, testing::ValuesIn(tested()), test_name);

// ---- What the matrix is to have

TEST(Matrix, HasEachKernelOnceAndRunsEachCall) {
    std::vector<hopper::Kernel> tiles;
    std::set<std::string> used;
    for (const KernelRow& row : matrix().kernels) {
        const hopper::Kernel tile = tile_of(row);
        EXPECT_EQ(std::ranges::count(tiles, tile), 0) << row.place << ": a line before has this kernel: " << row.text;
        tiles.push_back(tile);
        used.insert(row.calls.begin(), row.calls.end());
    }
    for (const auto& [words, sets] : matrix().shipped) used.insert(sets.begin(), sets.end());
    for (const auto& [name, calls] : matrix().calls) EXPECT_TRUE(used.contains(name)) << "no kernel runs " << name;
}

TEST(Matrix, RunsEveryKernelThatShips) {
    if (sanitizes) GTEST_SKIP() << "a build with sanitizers runs a sample";
    for (const hopper::Kernel& tile : planner::shipped_kernels()) {
        EXPECT_FALSE(shipped_row(tile).calls.empty()) << launch::describe(tile);
    }
}

template <class Is>
bool any_kernel(Is is) {
    return std::ranges::any_of(emulated_kernels(), [&](const EmulatedKernel& kernel) { return is(kernel.tile); });
}

bool feeds(const Design& t) { return t.feed == hopper::FeedKind::transposed && t.loop == hopper::Loop::filling_next; }
bool decodes(const Design& t) { return t.b.is_packed() && t.loop == hopper::Loop::filling_next; }
bool fills_windows(const Design& t) { return t.feed == hopper::FeedKind::windowed && t.fills_next_window; }
bool steps(const Design& t) { return t.order.chain == hopper::step_k; }

/// Operands in registers are made ahead of the next multiplication: of 64 rows per warpgroup or 128, in one wgmma along
/// n or two. Or there are too few registers.
TEST(Matrix, HasKernelsOfEachLoop) {
    constexpr bool (*loops[])(const Design&) = {
        [](const Design& t) { return feeds(t) && t.wgmmas_along_n == 1 && t.rows_per_warpgroup == 64; },
        [](const Design& t) { return feeds(t) && t.wgmmas_along_n == 1 && t.rows_per_warpgroup == 128; },
        [](const Design& t) { return feeds(t) && t.wgmmas_along_n == 2 && t.rows_per_warpgroup == 64; },
        [](const Design& t) { return feeds(t) && t.wgmmas_along_n == 2 && t.rows_per_warpgroup == 128; },
        [](const Design& t) { return decodes(t) && t.rows_per_warpgroup == 64; },
        [](const Design& t) { return decodes(t) && t.rows_per_warpgroup == 128; },
        [](const Design& t) { return decodes(t) && t.wgmmas_along_n == 2; },
        [](const Design& t) { return fills_windows(t) && t.rows_per_warpgroup == 64; },
        [](const Design& t) { return fills_windows(t) && t.rows_per_warpgroup == 128; },
        [](const Design& t) { return fills_windows(t) && t.wgmmas_along_n == 2; },
        [](const Design& t) {
            return t.feed == hopper::FeedKind::windowed && !t.fills_next_window && t.wgmmas_along_n == 2;
        },
        [](const Design& t) { return t.order.chain == 0 && t.wide_rows && t.wgmmas_along_n == 2; },
        [](const Design& t) { return t.b.is_nvfp4() && t.loop == hopper::Loop::two_partials; },
        [](const Design& t) { return t.b.is_nvfp4() && t.loop != hopper::Loop::two_partials; },
        [](const Design& t) { return steps(t) && t.subtiles == 4; },
        [](const Design& t) { return steps(t) && t.b.is_packed() && t.wgmmas_along_n > 1; },
    };
    if (sanitizes) GTEST_SKIP() << "a sample";
    for (std::size_t i = 0; i < std::size(loops); ++i) EXPECT_TRUE(any_kernel(loops[i])) << "loop " << i;
}

/// The planner asks for no pair of scales that no kernel multiplies.
TEST(Matrix, HasPairsOfScalesOfEveryServedRecipe) {
    if (sanitizes) GTEST_SKIP() << "a sample";
    for (const Recipe& recipe : all_recipes()) {
        const check::Case test(
            {.recipe = recipe, .m = 128, .n = 128, .k = 128, .distribution = check::Distribution::ones});
        const planner::Workload work = planner::workload(test.problem());
        if (!unsupported_on_hopper(work.asked).empty()) continue;
        const hopper::Kernel shapeless = planner::shapeless_kernel(work);
        EXPECT_TRUE(any_kernel([&](const Design& tile) {
            const auto &a = tile.a, &b = tile.b;
            return tile.order == shapeless.order && a.scale_k == shapeless.a.scale_k &&
                   a.scale_rows == shapeless.a.scale_rows && b.scale_k == shapeless.b.scale_k &&
                   b.scale_rows == shapeless.b.scale_rows;
        })) << name(recipe);
    }
}

}  // namespace
}  // namespace tilewright::tests
