// The numbers in groups.sizes, where the host can read them: what a call clamps is likely a mistake.
#include "problem/checks.h"

#include <string>

namespace tilewright::validation {
namespace {

std::int64_t number_at(const Tensor& tensor, std::int64_t i) {
    const std::int64_t offset = i * tensor.strides[0];
    if (tensor.format == Format::i32) return static_cast<const std::int32_t*>(tensor.data)[offset];
    return static_cast<const std::int64_t*>(tensor.data)[offset];
}

bool are_ends(Grouping grouping) {
    return grouping == Grouping::m_grouped_offsets || grouping == Grouping::m_grouped_aligned_offsets ||
           grouping == Grouping::k_grouped || grouping == Grouping::k_grouped_aligned_offsets;
}

struct Limit {
    std::int64_t value = 0;
    std::string text;  // "8 (m of a.values)"
};

std::string of_group(const char* what, std::int64_t number, std::int64_t group) {
    return std::string(what) + " " + std::to_string(number) + " for group " + std::to_string(group);
}

Finding beyond(std::string given, std::string expected) {
    return {.operand = "groups.sizes",
            .given = std::move(given),
            .expected = std::move(expected),
            .advice = "the call would clamp it"};
}

/// The first end that is less than the one before it, or outside the operand.
void check_ends(const Tensor& ends, const Limit& limit, Findings& findings) {
    std::int64_t before = 0;
    for (std::int64_t group = 0; group < ends.shape[0]; ++group) {
        const std::int64_t end = number_at(ends, group);
        if (end < before && group > 0) {
            return findings.add({.operand = "groups.sizes",
                                 .given = of_group("end", end, group) + " after end " + std::to_string(before) +
                                          " for group " + std::to_string(group - 1),
                                 .expected = "ends that do not decrease",
                                 .advice = "did you pass sizes? Use their running sum"});
        }
        if (end < 0 || end > limit.value) {
            return findings.add(beyond(of_group("end", end, group), "0 to " + limit.text));
        }
        before = end;
    }
}

/// Sizes each from 0 up; `together`: their sum, else each, at most the limit.
void check_counts(const Tensor& counts, bool together, const Limit& limit, Findings& findings) {
    std::int64_t begin = 0;
    for (std::int64_t group = 0; group < counts.shape[0]; ++group) {
        const std::int64_t count = number_at(counts, group);
        if (count < 0 || count > limit.value - begin) {
            std::string given = of_group("size", count, group);
            if (begin > 0) given += " after " + std::to_string(begin) + " in the groups before";
            return findings.add(beyond(std::move(given), together
                                                             ? "sizes of 0 or more with a sum of at most " + limit.text
                                                             : "0 to " + limit.text));
        }
        if (together) begin += count;
    }
}

}  // namespace

void check_group_sizes(const Problem& p, const Sizes& sizes, Findings& findings) {
    const Tensor& given = p.groups.sizes;
    const Grouping grouping = p.groups.grouping;
    if (!takes_sizes(grouping) || grouping == Grouping::m_grouped_indices) return;
    if (given.data == nullptr || given.device.kind != DeviceId::Kind::cpu) return;
    const Sizes::Size& size = sizes[is_k_grouped(grouping) ? Axis::k : Axis::m];
    if (!size.value) return;
    const Limit limit{.value = *size.value,
                      .text = std::to_string(*size.value) + " (" + (is_k_grouped(grouping) ? "k" : "m") + " of " +
                              std::string(size.source) + ")"};
    if (are_ends(grouping)) return check_ends(given, limit, findings);
    check_counts(given, grouping == Grouping::k_grouped_flat, limit, findings);
}

}  // namespace tilewright::validation
