#include "formats/pack_plan.h"

#include <algorithm>

namespace tilewright::formats {
namespace {

RowJudgement judge_nvfp4_row(const PackedSource& source, const PackPlan& plan, std::int64_t group, std::int64_t row) {
    RowJudgement judgement;
    for (std::int64_t column = 0; column < plan.sections.scale_columns(); ++column) {
        const int scale = source.scale(group, row, column);
        judgement.kept = judgement.kept || packed_nvfp4_scale(scale) != scale;
    }
    return judgement;
}

RowJudgement judge_row(const PackedSource& source, const PackPlan& plan, std::int64_t group, std::int64_t row) {
    if (!has_blocks_of_32(source.recipe())) return judge_nvfp4_row(source, plan, group, row);
    RowJudgement judgement;
    bool zero_scales_differ = false;
    for (std::int64_t column = 0; column < plan.sections.scale_columns(); ++column) {
        const int scale = source.scale(group, row, column);
        const bool nonzero = source.block_has_nonzero(group, row, column);
        judgement.exponents.include(scale, nonzero);
        zero_scales_differ = zero_scales_differ || (!nonzero && scale != ue8m0_bias);
    }
    judgement.wide = judgement.exponents.wide(plan.range);
    for (std::int64_t k_block = 0; judgement.wide && k_block < plan.sections.k_blocks(); ++k_block) {
        judgement.windows = std::max(judgement.windows, block_windows(plan.block_exponents(group, row, k_block)).count);
    }
    judgement.kept = judgement.wide || judgement.exponents.nan || zero_scales_differ;
    return judgement;
}

}  // namespace

std::array<int, BlockWindows::blocks> PackPlan::block_exponents(std::int64_t group, std::int64_t row,
                                                                std::int64_t k_block) const {
    std::array<int, BlockWindows::blocks> exponents{};
    exponents.fill(BlockWindows::none);
    for (std::size_t i = 0; i < exponents.size(); ++i) {
        const std::int64_t column = k_block * BlockWindows::blocks + static_cast<std::int64_t>(i);
        if (column >= sections.scale_columns()) break;
        const int scale = source.scale(group, row, column);
        const bool counts = scale != ue8m0_nan && source.block_has_nonzero(group, row, column);
        if (counts) exponents[i] = scale - ue8m0_bias;
    }
    return exponents;
}

BlockWindows PackPlan::windows(std::int64_t group, std::int64_t row, std::int64_t k_block) const {
    const bool split = has_windows() && judgement(group, row).wide;
    return split ? block_windows(block_exponents(group, row, k_block)) : BlockWindows{};
}

PackPlan pack_plan(const Operand& weights, PackedFor activations, const ConversionOptions& how) {
    PackPlan plan{.source = PackedSource(weights), .activations = activations};
    plan.sections = plan.source.sections();
    const PackedSections& sections = plan.sections;
    plan.range = activations == PackedFor::fp8 ? fp8_exponent_range : bf16_exponent_range;
    plan.rows.resize(static_cast<std::size_t>(sections.groups * sections.n));
    for_each_item(std::ssize(plan.rows), how, [&](std::int64_t i) {
        plan.rows[static_cast<std::size_t>(i)] = judge_row(plan.source, plan, i / sections.n, i % sections.n);
    });
    for (std::size_t i = 0; i < plan.rows.size(); ++i) {
        const RowJudgement& row = plan.rows[i];
        if (row.kept) ++plan.kept_rows;
        if (!row.wide) continue;
        if (plan.has_windows()) {
            plan.sections.windows = std::max<std::int64_t>(sections.windows, row.windows);
        } else if (sections.wide_row < 0) {
            plan.sections.wide_row = static_cast<std::int64_t>(i);
        }
    }
    plan.bytes = sections.kept_at() + sections.kept_bytes(plan.kept_rows);
    return plan;
}

}  // namespace tilewright::formats
