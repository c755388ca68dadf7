// Legality: each rule refuses what it is about, in words with the numbers, and lets its neighbour pass.
#include "plan/legality.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "hopper/description/design.h"
#include "plan/choose.h"
#include "plan/problems.h"
#include "plan/variant.h"
#include "problem/canonical_order.h"
#include "problem/hopper_rules.h"
#include "problem/packed_problem.h"
#include "sample.h"

namespace tilewright::planner {
namespace {

/// "rule: reason", or "" for a legal tile.
std::string objection(const char* tile, const ProblemSizes& sizes) {
    const Workload work = workload(problem_of(sizes));
    const auto found = why_illegal(parse_tile(tile).value(), work, h200());
    return found ? found->rule + ": " + found->reason : "";
}

struct Pair {
    const char* legal;
    const char* illegal;
    const char* words;
};

TEST(Legality, EachRuleSpeaksInNumbers) {
    const Pair pairs[]{
        {"256x128x128 stages=3", "256x128x128 stages=4",
         "shared memory: 256x128 with 4 stages needs 261 KB of shared memory; 227 KB are available"},
        {"256x128x128 stages=3", "256x256x128 stages=2",
         "registers: 256x256 needs 288 accumulator registers per thread (256 for the sum, 32 for partial sums); 200 "
         "are available after 32 others with 2 warpgroups"},
        {"192x128x128 warpgroups=3", "192x128x128", "wgmma: 192x128: 2 warpgroups multiply multiples of 128 rows"},
        {"128x136x128", "128x132x128", "wgmma: 128x132: wgmma supports multiples of 8 columns, at most 256"},
        {"128x128x128", "128x128x64", "wgmma: 128x128: a stage holds a k-block of 128, not 64"},
        {"128x128x128 cluster=2 multicast=a", "128x128x128 cluster=4 multicast=a",
         "cluster: clusters of 4 leave SMs idle, only pairs fill the chip"},
    };
    for (const Pair& pair : pairs) {
        EXPECT_EQ(objection(pair.legal, dense(4096, 7168, 576)), "") << pair.legal;
        EXPECT_EQ(objection(pair.illegal, dense(4096, 7168, 576)), pair.words);
    }
}

TEST(Legality, SwappedAndSplitTilesHaveRulesOfTheirOwn) {
    ProblemSizes sizes = dense(4096, 7168, 576);
    EXPECT_EQ(objection("128x32x128 swap cluster=2 multicast=a", sizes), "");
    EXPECT_EQ(objection("128x24x128 swap cluster=2 multicast=a", sizes),
              "cluster: 128x24 swapped: half of the shared operand's 24 rows is not a multiple of 8");
    EXPECT_EQ(objection("128x128x128 stages=3 split=4", sizes), "");
    EXPECT_EQ(objection("128x128x128 stages=3 split=8", sizes), "split k: k = 576 has at most 5 slices of 128, not 8");
}

TEST(Legality, SwappedAndSplitTilesAreLegalForFewRows) {
    EXPECT_EQ(objection("128x32x128 swap", dense(16, 7168, 576)), "");
    EXPECT_EQ(objection("128x128x128 split=4", dense(16, 7168, 576)), "");
}

TEST(Legality, PairsNeedTwoTilesOfOneGroup) {
    EXPECT_EQ(objection("128x128x128 cluster=2 multicast=b", dense(128, 7168, 512)),
              "cluster: sharing b needs two tiles of 128 along the rows of D; there are 128");
    EXPECT_EQ(objection("128x128x128 cluster=2 multicast=b", dense(129, 7168, 512)), "");
    ProblemSizes masked = dense(1024, 4096, 7168);
    masked.grouping = Grouping::m_grouped_masked;
    masked.groups = 4;
    EXPECT_EQ(objection("128x128x128 cluster=2 multicast=b", masked),
              "cluster: blocks that share b are neighbours along the rows, where another group may begin between them; "
              "share a "
              "instead");
    EXPECT_EQ(objection("128x128x128 cluster=2 multicast=a", masked), "");
    ProblemSizes one_sm = dense(1024, 4096, 7168);
    one_sm.sm_limit = 1;
    EXPECT_EQ(objection("128x128x128 cluster=2 multicast=a", one_sm),
              "cluster: a cluster of 2 needs two SMs; this call may use one");
}

TEST(Legality, SplitsKeepInvarianceAndFitAClusterOfBlocks) {
    ProblemSizes sizes = dense(64, 2112, 7168);
    sizes.reproducibility = Reproducibility::invariant;
    EXPECT_EQ(objection("64x64x128 warpgroups=1 split=4", sizes),
              "split k: splitting k changes the order of addition, which `invariant` forbids");
    sizes = dense(64, 2112, 7168);
    sizes.grouping = Grouping::m_grouped_offsets;
    sizes.groups = 4;
    EXPECT_EQ(objection("64x64x128 warpgroups=1 split=4", sizes), "");
    EXPECT_EQ(objection("64x64x128 warpgroups=1 split=16", sizes), "cluster: clusters have at most 8 blocks, not 16");
    sizes.sm_limit = 3;
    EXPECT_EQ(objection("64x64x128 warpgroups=1 split=4", sizes),
              "cluster: a cluster of 4 needs as many SMs; this call may use 3");
}

TEST(Legality, AnOperandAlongItsRowsIsMmaA) {
    ProblemSizes sizes = dense(64, 2112, 7168);
    sizes.layout = Layout::nn;
    EXPECT_EQ(objection("128x128x128 stages=4 swap", sizes), "");
    EXPECT_EQ(objection("128x128x128 stages=4", sizes),
              "kernel: 128x128: an N-major b is on the rows of the tensor core, with swap");
    EXPECT_EQ(objection("64x128x128 stages=4 warpgroups=1 swap", sizes),
              "wgmma: 64x128 swapped: an N-major b is loaded in 128 rows at a time");
    sizes.layout = Layout::tt;
    EXPECT_EQ(objection("128x128x128 stages=4 swap", sizes),
              "kernel: 128x128 swapped: an M-major a is on the rows of the tensor core, without swap");
    EXPECT_EQ(objection("128x128x128 stages=4 cluster=2 multicast=b", sizes),
              "kernel: 128x128: an MN-major operand is taken from registers, which blocks do not share");
}

TEST(Legality, PackedWeightsForBf16AreMmaA) {
    ProblemSizes sizes = dense(16, 7168, 16384);
    sizes.recipe = parse_recipe("bf16:nvfp4").value();
    const Workload work = workload(with_packed_shape(problem_of(sizes), 0));
    const auto objection_to = [&](const char* tile) {
        const auto found = why_illegal(parse_tile(tile).value(), work, h200());
        return found ? found->rule + ": " + found->reason : std::string();
    };
    EXPECT_EQ(objection_to("256x64x128 stages=5 warpgroups=4 swap"), "");
    EXPECT_EQ(objection_to("256x16x128 stages=7 warpgroups=4 swap split=8"), "");
    EXPECT_EQ(objection_to("128x64x128 stages=5"),
              "kernel: 128x64: packed weights are decoded on the rows of the tensor core, with swap");
    EXPECT_EQ(objection_to("192x16x128 stages=5 warpgroups=3 swap"),
              "wgmma: 192x16 swapped: packed weights are loaded in 64 rows or multiples of 128");
    EXPECT_EQ(objection_to("256x64x128 stages=6 warpgroups=4 swap"),
              "shared memory: 256x64 swapped with 6 stages needs 237 KB of shared memory; 227 KB are available");
    EXPECT_NE(objection_to("256x104x128 stages=3 warpgroups=4 swap"), "") << "registers";
}

/// The kernel of `tile` with this name of a variant.
hopper::Kernel named(hopper::Kernel tile, std::string_view variant) {
    for (const hopper::Output output : {hopper::Output::any, hopper::Output::bf16_by_tma, hopper::Output::f32_by_tma}) {
        for (const bool along_k : {false, true}) {
            tile.output = output;
            tile.scales_along_k = along_k;
            if (variant_name(tile) == variant) return tile;
        }
    }
    ADD_FAILURE() << variant;
    return tile;
}

TEST(Legality, LegalTilesFitTheMachine) {
    for (const Recipe& recipe : {block_scaled, both_row_scaled, per_tensor}) {
        ProblemSizes sizes = dense(512, 4096, 7168);
        if (recipe == per_tensor) sizes.layout = Layout::nn;
        sizes.recipe = recipe;
        const Problem problem = problem_of(sizes);
        const hopper::Kernel shapeless = shapeless_kernel(workload(problem));
        for (const Plan& plan : explain(problem).legal) {
            const hopper::Design tile = hopper::Design(named(device_tile(planned_tile(plan), shapeless), plan.variant));
            ASSERT_EQ(name(planned_tile(tile)), plan.tile);
            ASSERT_LE(plan.shared_bytes, hopper::shared_bytes_limit) << plan.tile;
            ASSERT_EQ(plan.shared_bytes, tile.shared_bytes);
            ASSERT_LE(tile.mma_registers, tile.mma_register_budget);
        }
    }
}

bool is_served(const Recipe& recipe) {
    for (const OperandRecipe& side : {recipe.a, recipe.b}) {
        const bool micro_scaled = k_block(side.granularity) != 0 && k_block(side.granularity) < 128;
        if (!is_fp8(side.values) || micro_scaled) return false;
    }
    return true;
}

/// bf16 must be K-major.
bool becomes_bf16(const OperandRecipe& a, Layout layout) {
    return (is_bf16(a) && !a_is_transposed(layout)) || is_nvfp4(a);
}

/// MXFP8 with fp8 on the other side, or MXFP8 weights with activations that become bf16. Only m-grouped.
bool has_mxfp8(const Recipe& recipe, Layout layout) {
    const auto by_32 = [](const OperandRecipe& side) { return side.granularity == Granularity::block_1x32; };
    if (!is_fp8(recipe.b.values)) return false;
    const bool next_to_fp8 = is_fp8(recipe.a.values) && (by_32(recipe.a) || by_32(recipe.b));
    return next_to_fp8 || (by_32(recipe.b) && becomes_bf16(recipe.a, layout));
}

bool has_row_scales_of_fp8(const OperandRecipe& a) {
    return is_fp8(a.values) && a.granularity != Granularity::block_128x128 && a.granularity != Granularity::none;
}

/// FP4 weights along k, which are packed by each call.
bool packs_weights(const Recipe& recipe, Layout layout) {
    const bool as_bf16 = becomes_bf16(recipe.a, layout);
    if (is_mxfp4(recipe.b)) return as_bf16 || is_mxfp4(recipe.a) || has_row_scales_of_fp8(recipe.a);
    return is_nvfp4(recipe.b) && (as_bf16 || is_fp8(recipe.a.values));
}

// Every fifth (recipe, grouping, layout) that the API accepts has a plan or says what is missing: of each recipe some,
// in turns. 5 is prime to the numbers of groupings and layouts. Under sanitizers one in 175.
TEST(Legality, EveryCallHasAPlanOrAReason) {
    std::set<std::string> reasons;
    constexpr std::size_t step = tests::sanitizes ? 175 : 5;
    std::size_t calls = 0;
    std::size_t asked = 0;
    int planned = 0;
    for (const Recipe& recipe : all_recipes()) {
        for (Grouping grouping : all_groupings) {
            for (Layout layout : all_layouts) {
                if (calls++ % step != 0) continue;
                ++asked;
                const ProblemSizes sizes{.grouping = grouping,
                                         .recipe = recipe,
                                         .layout = layout,
                                         .m = 200,
                                         .n = 256,
                                         .k = 384,
                                         .groups = 3};
                const Problem problem = problem_of(sizes);
                ASSERT_TRUE(validate(problem, Backend::automatic, Check::shapes).empty())
                    << name(recipe) << " " << validate(problem, Backend::automatic, Check::shapes)[0].message();
                const Explanation explanation = explain(problem);
                ASSERT_NE(explanation.chosen.has_value(), !explanation.unavailable.empty());
                planned += explanation.chosen ? 1 : 0;
                for (const Finding& finding : explanation.unavailable) reasons.insert(finding.message());
                const bool packs = packs_weights(recipe, layout) && !is_k_grouped(grouping) && !b_is_transposed(layout);
                const bool served =
                    packs || is_served(recipe) || (has_mxfp8(recipe, layout) && !is_k_grouped(grouping));
                EXPECT_EQ(explanation.chosen.has_value(), served)
                    << name(recipe) << " " << name(grouping) << " " << name(layout);
            }
        }
    }
    EXPECT_GE(asked, all_recipes().size() * std::size(all_groupings) * std::size(all_layouts) / step);
    EXPECT_GT(planned, 0);
    if (tests::sanitizes) return;  // a sample may lack these reasons
    EXPECT_TRUE(reasons.contains(
        "a: got f16; expected bf16, nvfp4, mxfp4, or fp8 with tensor, row, 1x128 or 1x32 scales for mxfp4 weights "
        "on a Hopper GPU. Pass it as bf16, or copy the tensors to the host and use the CPU backend."));
    EXPECT_TRUE(reasons.contains(
        "a: got bf16; expected fp8 with tensor, row, 1x128 or 128x128 scales on a Hopper GPU. Quantize "
        "it, or copy the tensors to the host and use the CPU backend."));
}

}  // namespace
}  // namespace tilewright::planner
