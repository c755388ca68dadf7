// The fields of a kernel that contradict each other. Each rule of plan/kernel_rules.cpp refuses a kernel that breaks
// only this rule, with its sentence.
#include "plan/kernel_class.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "kernel_of_recipe.h"

namespace tilewright::planner {
namespace {

using namespace hopper;
using hopper::Kernel, hopper::Groups, hopper::Output, hopper::Side;
using tests::of_recipe;

struct Rule {
    const char* sentence;
    Kernel kernel;  // which contradicts no rule
    void (*breaks)(Kernel&);
};

/// MXFP4 weights that were expanded to this format.
Kernel expanded(Format values) {
    const bool bf16 = values == Format::bf16;
    return kernel_class(parse_recipe(bf16 ? "bf16:mxfp4" : "1x128:mxfp4").value(), Accumulation::promoted,
                        bf16 ? Format::bf16 : Format::e4m3, values);
}

const std::vector<Rule>& rules() {
    static const std::vector<Rule> list{
        {"the blocks of a cluster share a, share b or split k",
         {.cluster = {.rows = 2}},
         [](Kernel& k) { k.cluster.columns = 2; }},
        {"the blocks of a cluster share a, share b or split k",
         {.cluster = {.columns = 2}},
         [](Kernel& k) { k.cluster.k_slices = 2; }},
        {"blocks of a cluster have one arrival per warp",
         {.cluster = {.rows = 2}},
         [](Kernel& k) { k.debug.every_lane_arrives = true; }},
        {"packed weights are b", {}, [](Kernel& k) { k.a.form = Form::tiles; }},
        {"packed weights are decoded on the rows of the tensor core, with swap", of_recipe("row:mxfp4"),
         [](Kernel& k) { k.swap_ab = false; }},
        {"packed weights are decoded to e4m3 or bf16", of_recipe("row:mxfp4"),
         [](Kernel& k) { k.b.values = ValueFormat::e5m2; }},
        {"packed weights take registers that this kernel needs", of_recipe("row:mxfp4"),
         [](Kernel& k) { k.cluster = {.columns = 2}; }},
        {"packed weights take registers that this kernel needs", of_recipe("row:mxfp4"),
         [](Kernel& k) { k.groups = Groups::k_aligned; }},
        {"an N-major b is on the rows of the tensor core, with swap", {}, [](Kernel& k) { k.b.form = Form::columns; }},
        {"an M-major a is on the rows of the tensor core, without swap",
         {.swap_ab = true},
         [](Kernel& k) { k.a.form = Form::columns; }},
        {"an MN-major operand is taken from registers, which blocks do not share",
         {.a = {.form = Form::columns}},
         [](Kernel& k) { k.cluster = {.rows = 2}; }},
        {"only packed weights have wide rows", {}, [](Kernel& k) { k.wide_rows = true; }},
        {"values are read in place for fp8 with scales of rows", of_recipe("bf16:mxfp4"),
         [](Kernel& k) { k.b.form = Form::rows_and_tiles; }},
        {"values are read in place for fp8 with scales of rows", of_recipe("mxfp8:mxfp4"),
         [](Kernel& k) { k.b.form = Form::rows_and_tiles; }},
        {"kernels for bf16, 1x32 scales or expanded weights are for any output", of_recipe("bf16:mxfp4"),
         [](Kernel& k) { k.output = Output::bf16_by_tma; }},
        {"kernels for bf16, 1x32 scales or expanded weights are for any output", of_recipe("mxfp8:mxfp8"),
         [](Kernel& k) { k.output = Output::f32_by_tma; }},
        {"kernels for bf16, 1x32 scales or expanded weights are for any output", expanded(Format::e4m3),
         [](Kernel& k) { k.output = Output::bf16_by_tma; }},
        {"kernels of bf16 on both sides are K-major, without pairs of blocks", expanded(Format::bf16),
         [](Kernel& k) { k.cluster = {.rows = 2}; }},
        {"kernels of bf16 on both sides are K-major, without pairs of blocks", expanded(Format::bf16),
         [](Kernel& k) { k.groups = Groups::k_anywhere; }},
        {"kernels for 1x32 scales are K-major, without pairs of blocks", of_recipe("mxfp8:mxfp8"),
         [](Kernel& k) { k.groups = Groups::k_aligned; }},
        {"kernels for 1x32 scales with packed weights have 64 rows per warpgroup", of_recipe("mxfp8:mxfp4"),
         [](Kernel& k) { k.shape.m = 256; }},
        {"k-grouped kernels are K-major, without clusters",
         {.groups = Groups::k_anywhere},
         [](Kernel& k) { k.cluster = {.k_slices = 2}; }},
        {"k-grouped kernels are K-major, without clusters",
         {.groups = Groups::k_aligned},
         [](Kernel& k) { k.a.form = Form::columns; }},
        {"kernels for D of f32 store rows of one block",
         {.output = Output::f32_by_tma},
         [](Kernel& k) { k.swap_ab = true; }},
        {"kernels for D of f32 store rows of one block",
         {.output = Output::f32_by_tma},
         [](Kernel& k) { k.groups = Groups::rows; }},
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
}  // namespace tilewright::planner
