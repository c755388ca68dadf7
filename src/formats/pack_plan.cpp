#include "formats/pack_plan.h"

#include <algorithm>

namespace tilewright::formats {
namespace {

RowJudgement judge_row(const PackedSource& source, const PackPlan& plan, std::int64_t group, std::int64_t row) {
    RowJudgement judgement;
    bool zero_scales_differ = false;
    for (std::int64_t column = 0; column < plan.sections.scale_columns(); ++column) {
        const int scale = source.scale(group, row, column);
        const bool nonzero = source.block_has_nonzero(group, row, column);
        judgement.exponents.include(scale, nonzero);
        zero_scales_differ = zero_scales_differ || (!nonzero && scale != ue8m0_bias);
    }
    judgement.wide = judgement.exponents.wide(plan.range);
    judgement.kept = judgement.wide || judgement.exponents.nan || zero_scales_differ;
    return judgement;
}

PackedTileEntry judge_tile(const PackPlan& plan, std::int64_t group, std::int64_t row_tile) {
    PackedTileEntry entry;
    std::vector<std::int64_t> wide;
    const std::int64_t end = std::min(plan.sections.n, (row_tile + 1) * packed_rows);
    for (std::int64_t row = row_tile * packed_rows; row < end; ++row) {
        if (plan.judgement(group, row).wide) wide.push_back(row);
    }
    entry.wide_rows = static_cast<std::uint32_t>(wide.size());
    if (!plan.has_windows() || wide.empty()) return entry;
    for (std::int64_t k_block = 0; k_block < plan.sections.k_blocks(); ++k_block) {
        int most = 0;
        for (const std::int64_t row : wide) most = std::max(most, plan.further_windows(group, row, k_block));
        entry.windows += static_cast<std::uint32_t>(most);
    }
    return entry;
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

int PackPlan::further_windows(std::int64_t group, std::int64_t row, std::int64_t k_block) const {
    return block_windows(block_exponents(group, row, k_block)).count - 1;
}

PackPlan pack_plan(const Operand& weights, PackedFor activations, const ConversionOptions& how) {
    PackPlan plan{.source = PackedSource(weights), .activations = activations};
    plan.sections = plan.source.sections();
    const PackedSections& sections = plan.sections;
    plan.range = activations == PackedFor::fp8 ? fp8_exponent_range : bf16_exponent_range;
    const std::int64_t row_tiles = sections.groups * sections.row_tiles();
    plan.directory.resize(static_cast<std::size_t>(row_tiles));
    if (is_mxfp4(plan.source.recipe())) {
        plan.rows.resize(static_cast<std::size_t>(sections.groups * sections.n));
        for_each_item(std::ssize(plan.rows), how, [&](std::int64_t i) {
            plan.rows[static_cast<std::size_t>(i)] = judge_row(plan.source, plan, i / sections.n, i % sections.n);
        });
        for_each_item(row_tiles, how, [&](std::int64_t i) {
            plan.directory[static_cast<std::size_t>(i)] =
                judge_tile(plan, i / sections.row_tiles(), i % sections.row_tiles());
        });
    }
    std::int64_t at = sections.wide_at();
    for (PackedTileEntry& entry : plan.directory) {
        if (!plan.has_windows() || entry.wide_rows == 0) continue;
        entry.wide_offset = at;
        at += sections.exponent_bytes() + std::int64_t{entry.windows} * static_cast<std::int64_t>(sizeof(PackedWindow));
    }
    plan.kept_at = at;
    plan.kept_rows = std::ranges::count_if(plan.rows, [](const RowJudgement& row) { return row.kept; });
    plan.bytes = at;
    if (is_mxfp4(plan.source.recipe()))
        plan.bytes += PackedSections::aligned(8 + plan.kept_rows * sections.kept_row_bytes());
    return plan;
}

}  // namespace tilewright::formats
