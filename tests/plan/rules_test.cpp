// The fields of a kernel that contradict each other. Each rule of hopper/description/rules.h refuses a kernel that
// breaks only this rule, with its sentence.
#include "hopper/description/rules.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "kernel_of_recipe.h"

namespace tilewright::hopper {
namespace {

using tests::of_recipe;

struct Rule {
    const char* sentence;
    Kernel kernel;  // which contradicts no rule
    void (*breaks)(Kernel&);
};

/// MXFP4 weights that were expanded to bf16.
Kernel bf16_on_both_sides() {
    return planner::kernel_class(parse_recipe("bf16:mxfp4").value(), Accumulation::promoted, Format::bf16,
                                 Format::bf16);
}

const std::vector<Rule>& rules() {
    static const std::vector<Rule> list{
        {"a cluster has a use and more than one block", {}, [](Kernel& k) { k.cluster.size = 2; }},
        {"a cluster has a use and more than one block", {}, [](Kernel& k) { k.cluster.use = ClusterUse::split_k; }},
        {"blocks of a cluster have one arrival per warp",
         {.cluster = {ClusterUse::share_b, 2}},
         [](Kernel& k) { k.debug.every_lane_arrives = true; }},
        {"packed weights are b", {}, [](Kernel& k) { k.a.form = Form::tiles; }},
        {"packed weights are decoded on the rows of the tensor core, with swap", of_recipe("row:mxfp4"),
         [](Kernel& k) { k.swap_ab = false; }},
        {"packed weights are decoded to e4m3 or bf16", of_recipe("row:mxfp4"),
         [](Kernel& k) { k.b.values = ValueFormat::e5m2; }},
        {"packed weights take registers that this kernel needs", of_recipe("row:mxfp4"),
         [](Kernel& k) {
             k.cluster = {ClusterUse::share_a, 2};
         }},
        {"packed weights take registers that this kernel needs", of_recipe("row:mxfp4"),
         [](Kernel& k) { k.groups = Groups::k_aligned; }},
        {"an MN-major operand is on the rows of the tensor core", {}, [](Kernel& k) { k.b.form = Form::columns; }},
        {"an MN-major operand is on the rows of the tensor core",
         {.swap_ab = true},
         [](Kernel& k) { k.a.form = Form::columns; }},
        {"an MN-major operand is taken from registers, which blocks do not share",
         {.a = {.form = Form::columns}},
         [](Kernel& k) {
             k.cluster = {ClusterUse::share_b, 2};
         }},
        {"only packed weights have wide rows", {}, [](Kernel& k) { k.wide_rows = true; }},
        {"values are read in place for fp8 with scales of rows", of_recipe("bf16:mxfp4"),
         [](Kernel& k) { k.b.form = Form::rows_and_tiles; }},
        {"values are read in place for fp8 with scales of rows", of_recipe("mxfp8:mxfp4"),
         [](Kernel& k) { k.b.form = Form::rows_and_tiles; }},
        {"a has the values that the tensor core multiplies", of_recipe("bf16:mxfp4"),
         [](Kernel& k) { k.a.values = ValueFormat::e4m3; }},
        {"a has the values that the tensor core multiplies", {}, [](Kernel& k) { k.a.values = ValueFormat::bf16; }},
        {"bf16 is multiplied by bf16", {}, [](Kernel& k) { k.b.values = ValueFormat::bf16; }},
        {"bf16 is multiplied by bf16", bf16_on_both_sides(), [](Kernel& k) { k.b.values = ValueFormat::e4m3; }},
        {"bf16 is multiplied by bf16", of_recipe("bf16:mxfp4"), [](Kernel& k) { k.b.values = ValueFormat::e4m3; }},
        {"NVFP4 is multiplied as bf16", {}, [](Kernel& k) { k.a.scale_k = 16; }},
        {"kernels for bf16 have no version for one output", of_recipe("bf16:mxfp4"),
         [](Kernel& k) { k.output = Output::bf16_by_tma; }},
        {"weights in bf16 were FP4", bf16_on_both_sides(),
         [](Kernel& k) {
             k.order.folded = Folded::none;
             k.b.scale_k = 0;
         }},
        {"kernels of bf16 on both sides are K-major, without pairs of blocks", bf16_on_both_sides(),
         [](Kernel& k) {
             k.cluster = {ClusterUse::share_b, 2};
         }},
        {"kernels of bf16 on both sides are K-major, without pairs of blocks", bf16_on_both_sides(),
         [](Kernel& k) { k.groups = Groups::k_anywhere; }},
        {"tokens in bf16 have scales only with NVFP4 weights", of_recipe("bf16:mxfp4"),
         [](Kernel& k) { k.order.a = ScaleUse::end; }},
        {"128x128 scales of a go with the same of b", of_recipe("128x128:128x128"),
         [](Kernel& k) { k.b = {.scale_rows = 1, .scale_k = 128}; }},
        {"with 1x32 scales the others multiply each step too", of_recipe("row:mxfp8"),
         [](Kernel& k) { k.order.a = ScaleUse::end; }},
        {"kernels for 1x32 scales have one version", of_recipe("mxfp8:mxfp8"),
         [](Kernel& k) { k.output = Output::f32_by_tma; }},
        {"kernels for 1x32 scales have one version", of_recipe("mxfp8:mxfp8"),
         [](Kernel& k) { k.groups = Groups::k_aligned; }},
        {"kernels for 1x32 scales with packed weights have 64 rows per warpgroup", of_recipe("mxfp8:mxfp4"),
         [](Kernel& k) { k.shape.m = 256; }},
        {"k-grouped kernels are K-major, without clusters",
         {.groups = Groups::k_anywhere},
         [](Kernel& k) {
             k.cluster = {ClusterUse::split_k, 2};
         }},
        {"k-grouped kernels are K-major, without clusters",
         {.groups = Groups::k_aligned},
         [](Kernel& k) { k.a.form = Form::columns; }},
        {"kernels for D of f32 store rows of one block",
         {.output = Output::f32_by_tma},
         [](Kernel& k) { k.swap_ab = true; }},
        {"kernels for D of f32 store rows of one block",
         {.output = Output::f32_by_tma},
         [](Kernel& k) { k.groups = Groups::rows; }},
        {"this pair of scales has no kernel for D of bf16 only", of_recipe("1x128:row"),
         [](Kernel& k) { k.output = Output::bf16_by_tma; }},
        {"only kernels for D of bf16 with 1x128 scales of a have an order of scales", of_recipe("1x128:128x128"),
         [](Kernel& k) { k.scales_along_k = true; }},
        {"only kernels for D of bf16 with 1x128 scales of a have an order of scales",
         {.output = Output::bf16_by_tma},
         [](Kernel& k) { k.scales_along_k = true; }},
    };
    return list;
}

TEST(Rules, AKernelThatBreaksOneGetsItsSentence) {
    for (const Rule& rule : rules()) {
        EXPECT_STREQ(contradiction(rule.kernel), nullptr) << rule.sentence;
        Kernel broken = rule.kernel;
        rule.breaks(broken);
        EXPECT_STREQ(contradiction(broken), rule.sentence);
    }
}

/// So that a new rule gets a kernel above.
TEST(Rules, AllOfThemAreTested) {
    std::set<std::string> tested, stated;
    for (const Rule& rule : rules()) tested.insert(rule.sentence);
    std::ifstream file(TILEWRIGHT_RULES);
    const std::string begin = "return \"", end = "\";";
    for (std::string line; std::getline(file, line);) {
        const std::size_t at = line.find(begin);
        if (at == std::string::npos) continue;
        const std::size_t first = at + begin.size();
        stated.insert(line.substr(first, line.find(end, first) - first));
    }
    EXPECT_EQ(stated, tested);
}

}  // namespace
}  // namespace tilewright::hopper
