// Names of distributions, and a case in one line.
#include "check/case.h"

#include <fmt/format.h>

namespace tilewright::check {
namespace {

class Line {
public:
    void word(std::string_view text) {
        if (!text_.empty()) text_ += ' ';
        text_ += text;
    }
    template <class Value>
    void field(std::string_view key, const Value& value) {
        word(fmt::format("{}={}", key, value));
    }
    void flag(std::string_view key, bool set) {
        if (set) word(key);
    }
    void gaps(std::string_view key, const Gaps& gaps) {
        if (gaps.element == 0 && gaps.row == 0 && gaps.group == 0) return;
        word(fmt::format("{}={}/{}/{}", key, gaps.element, gaps.row, gaps.group));
    }
    void sizes(std::string_view key, const std::vector<std::int64_t>& sizes) {
        if (sizes.empty()) return;
        std::string list;
        for (std::int64_t size : sizes) list += (list.empty() ? "" : ",") + std::to_string(size);
        word(fmt::format("{}=[{}]", key, list));
    }
    std::string take() { return std::move(text_); }

private:
    std::string text_;
};

void describe_groups(const CaseSpec& spec, Line& line) {
    if (spec.grouping == Grouping::dense) return;
    line.field("groups", spec.groups);
    if (spec.grouping == Grouping::batched) return;
    line.sizes("group_sizes", spec.group_sizes);
    line.sizes("size_entries", spec.size_entries);
    if (spec.size_multiple != 1) line.field("size_multiple", spec.size_multiple);
    line.word(tilewright::name(spec.size_format));
    const bool aligned =
        spec.grouping == Grouping::m_grouped_aligned_offsets || spec.grouping == Grouping::k_grouped_aligned_offsets;
    if (aligned) line.field("alignment", spec.alignment);
    if (spec.index_alignment != 1) line.field("index_alignment", spec.index_alignment);
}

}  // namespace

const std::vector<Distribution>& random_distributions() {
    static const std::vector<Distribution> list{
        Distribution::normal,     Distribution::abs_normal, Distribution::uniform, Distribution::normal_cubed,
        Distribution::log_normal, Distribution::outliers,   Distribution::sparse,  Distribution::ones};
    return list;
}

std::string_view name(Distribution distribution) {
    switch (distribution) {
        case Distribution::normal: return "normal";
        case Distribution::abs_normal: return "abs_normal";
        case Distribution::uniform: return "uniform";
        case Distribution::normal_cubed: return "normal_cubed";
        case Distribution::log_normal: return "log_normal";
        case Distribution::outliers: return "outliers";
        case Distribution::sparse: return "sparse";
        case Distribution::ones: return "ones";
        case Distribution::exact_grid: return "exact_grid";
        case Distribution::distinct_scales: return "distinct_scales";
    }
    return "unknown distribution";
}

std::string describe(const CaseSpec& spec) {
    Line line;
    line.word(tilewright::name(spec.grouping));
    line.word(tilewright::name(spec.recipe));
    line.word(tilewright::name(spec.layout));
    line.word(tilewright::name(spec.output));
    line.field("m", spec.m);
    line.field("n", spec.n);
    line.field("k", spec.k);
    describe_groups(spec, line);
    line.word(name(spec.distribution));
    line.field("seed", spec.seed);
    line.flag("with_c", spec.with_c);
    line.flag("in_place", spec.in_place);
    line.flag("with_bias", spec.with_bias);
    line.flag("shared_bias", spec.shared_bias);
    if (spec.bias_format != Format::bf16) line.field("bias_format", tilewright::name(spec.bias_format));
    if (spec.alpha != 1.0F) line.field("alpha", spec.alpha);
    if (spec.accumulation != Accumulation::promoted) line.word(tilewright::name(spec.accumulation));
    if (spec.arithmetic != Arithmetic::fast) line.word(tilewright::name(spec.arithmetic));
    if (spec.reproducibility != Reproducibility::repeatable) line.word(tilewright::name(spec.reproducibility));
    line.gaps("a_gaps", spec.a_gaps);
    line.gaps("b_gaps", spec.b_gaps);
    line.gaps("a_scale_gaps", spec.a_scale_gaps);
    line.gaps("b_scale_gaps", spec.b_scale_gaps);
    line.gaps("c_gaps", spec.c_gaps);
    line.gaps("d_gaps", spec.d_gaps);
    line.gaps("bias_gaps", spec.bias_gaps);
    line.flag("a_scales_transposed", spec.a_scales_transposed);
    line.flag("b_scales_transposed", spec.b_scales_transposed);
    if (spec.far_scales.one_row_in > 0) {
        line.field("far_scales.one_row_in", spec.far_scales.one_row_in);
        line.field("far_scales.spread", spec.far_scales.spread);
        line.flag("far_scales.odd", spec.far_scales.odd);
    }
    line.flag("shared_scales", spec.shared_scales);
    line.flag("guard_pages", spec.guard_pages);
    return line.take();
}

}  // namespace tilewright::check
