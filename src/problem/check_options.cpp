// The words and numbers of a call.
#include "problem/checks.h"

namespace tilewright::validation {
namespace {

template <class Word>
bool check_word(std::string_view operand, Word word, Word last, Findings& findings) {
    if (word <= last) return true;
    std::vector<std::string> words;
    for (int i = 0; i <= static_cast<int>(last); ++i) words.emplace_back(name(static_cast<Word>(i)));
    findings.add({.operand = std::string(operand),
                  .given = std::to_string(static_cast<int>(word)),
                  .expected = either(words),
                  .advice = {}});
    return false;
}

void check_number(std::string_view operand, std::int64_t given, std::int64_t least, Findings& findings) {
    if (given >= least) return;
    findings.add({.operand = std::string(operand),
                  .given = std::to_string(given),
                  .expected = std::to_string(least) + " or more",
                  .advice = {}});
}

bool computes_in_wide_formats(const Operand& operand) {
    return operand.values.given() && (operand.values.format == Format::f16 || operand.values.format == Format::f32);
}

void check_arithmetic(const Problem& p, Findings& findings) {
    const Operand* wide = computes_in_wide_formats(p.a) ? &p.a : &p.b;
    if (!computes_in_wide_formats(*wide)) return;
    const std::string purpose = " for " + std::string(name(wide->values.format)) + " operands";
    if (p.arithmetic == Arithmetic::bit_exact) {
        findings.add({.operand = "arithmetic",
                      .given = "bit_exact",
                      .expected = "fast" + purpose,
                      .advice = "convert the operand to bf16"});
    }
    if (p.reproducibility == Reproducibility::invariant) {
        findings.add({.operand = "reproducibility",
                      .given = "invariant",
                      .expected = "repeatable" + purpose,
                      .advice = "invariant needs bit_exact arithmetic, which supports bf16 and narrower operands"});
    }
}

void check_accumulation(const Problem& p, Findings& findings) {
    if (p.accumulation != Accumulation::unpromoted) return;
    for (const Operand* operand : {&p.a, &p.b}) {
        if (k_block(operand->granularity) == 0) continue;
        findings.add(
            {.operand = "accumulation",
             .given = "unpromoted",
             .expected = "promoted for " + std::string(name(operand->granularity)) + " scales of " +
                         (operand == &p.a ? "a" : "b"),
             .advice =
                 "block scales are applied during accumulation; only tensor and row scales can be applied after it"});
        return;
    }
}

/// Blocks of scales begin with their group only where groups begin with a block.
void check_alignment(const Problem& p, Findings& findings) {
    const bool along_k = p.groups.grouping == Grouping::k_grouped_aligned_offsets;
    if (!along_k && p.groups.grouping != Grouping::m_grouped_aligned_offsets) return;
    check_number("groups.alignment", p.groups.alignment, 1, findings);
    for (const Operand* operand : {&p.a, &p.b}) {
        const int block = k_block(operand->granularity);
        if (!along_k || block == 0 || p.groups.alignment < 1 || p.groups.alignment % block == 0) continue;
        findings.add({.operand = "groups.alignment",
                      .given = std::to_string(p.groups.alignment),
                      .expected = "a multiple of " + std::to_string(block) + " for " +
                                  std::string(name(operand->granularity)) + " scales of " +
                                  (operand == &p.a ? "a" : "b"),
                      .advice = "each group begins with its own scale block"});
        return;
    }
}

}  // namespace

bool check_words(const Problem& p, Findings& findings) {
    const bool layout = check_word("layout", p.layout, Layout::tt, findings);
    const bool grouping = check_word("groups.grouping", p.groups.grouping, all_groupings.back(), findings);
    check_word("accumulation", p.accumulation, Accumulation::unpromoted, findings);
    check_word("arithmetic", p.arithmetic, Arithmetic::bit_exact, findings);
    check_word("reproducibility", p.reproducibility, Reproducibility::invariant, findings);
    return layout && grouping;
}

void check_options(const Problem& p, Findings& findings) {
    check_alignment(p, findings);
    if (p.groups.grouping == Grouping::m_grouped_indices) {
        check_number("groups.index_alignment", p.groups.index_alignment, 1, findings);
    }
    check_number("sm_limit", p.sm_limit, 0, findings);
    check_number("expected_m", p.expected_m, 0, findings);
    check_accumulation(p, findings);
    check_arithmetic(p, findings);
}

void check_backend(Backend backend, Findings& findings) { check_word("backend", backend, Backend::hopper, findings); }

}  // namespace tilewright::validation
