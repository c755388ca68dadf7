#include "check/sizes.h"

#include "base/math.h"
#include "check/random.h"

#include <algorithm>
#include <stdexcept>

namespace tilewright::check {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr std::uint64_t size_stream = 0x51;

/// Groups begin at multiples of it; 0: anywhere.
std::int64_t alignment(const CaseSpec& spec) {
    const bool aligned =
        spec.grouping == Grouping::m_grouped_aligned_offsets || spec.grouping == Grouping::k_grouped_aligned_offsets;
    if (aligned) return group_alignment(spec);
    return spec.grouping == Grouping::m_grouped_indices && spec.index_alignment > 1 ? spec.index_alignment : 0;
}

std::int64_t total(const CaseSpec& spec) { return is_k_grouped(spec.grouping) ? spec.k : spec.m; }

/// From three groups on: one is empty, one has a single unit, and a third gets their other units.
void force_none_and_one(Sizes& sizes, Random& random) {
    const auto count = static_cast<std::int64_t>(sizes.size());
    if (count < 3) return;
    const std::int64_t none = random.up_to(count - 1);
    const std::int64_t one = (none + 1 + random.up_to(count - 3)) % count;
    std::int64_t third = (std::max(none, one) + 1) % count;
    while (third == none || third == one) third = (third + 1) % count;
    std::int64_t freed = sizes[none] + sizes[one];
    sizes[none] = 0;
    sizes[one] = 0;
    if (freed == 0 && sizes[third] > 0) {
        --sizes[third];
        ++freed;
    }
    if (freed == 0) return;
    sizes[one] = 1;
    sizes[third] += freed - 1;
}

/// Units of each group: random cuts of most of the available units.
Sizes split_units(const CaseSpec& spec, std::int64_t units, Random& random) {
    const bool all = is_k_grouped(spec.grouping) || random.up_to(1) == 0;
    const std::int64_t used = all ? units : units - random.up_to(units / 8);
    Sizes cuts{0, used};
    for (std::int64_t i = 1; i < spec.groups; ++i) cuts.push_back(random.up_to(used));
    std::sort(cuts.begin(), cuts.end());
    Sizes sizes;
    for (std::size_t i = 1; i < cuts.size(); ++i) sizes.push_back(cuts[i] - cuts[i - 1]);
    force_none_and_one(sizes, random);
    return sizes;
}

Sizes masked_sizes(const CaseSpec& spec, Random& random) {
    Sizes sizes;
    for (std::int64_t i = 0; i < spec.groups; ++i) sizes.push_back(random.up_to(spec.m));
    if (spec.groups >= 3) {
        const std::int64_t none = random.up_to(spec.groups - 1);
        sizes[none] = 0;
        sizes[(none + 1) % spec.groups] = std::min<std::int64_t>(1, spec.m);
        sizes[(none + 2) % spec.groups] = spec.m;
    }
    return sizes;
}

/// Aligned starts: each group fills its units except a random rest; the group of one unit keeps one row.
Sizes aligned_sizes(const CaseSpec& spec, Random& random) {
    const std::int64_t unit = alignment(spec);
    const std::int64_t end = total(spec), units = ceil_div(end, unit);
    Sizes sizes = split_units(spec, units, random);
    std::int64_t begin = 0;
    bool single = false;
    for (std::int64_t& size : sizes) {
        const std::int64_t room = std::min(size * unit, end - begin);
        begin += size * unit;
        if (size == 1 && !single && spec.groups >= 3) {
            size = std::min<std::int64_t>(1, room);
            single = true;
        } else {
            size = std::max<std::int64_t>(0, room - random.up_to(std::min(room, unit) - 1));
        }
    }
    return sizes;
}

Sizes seeded_sizes(const CaseSpec& spec, Random& random) {
    if (spec.grouping == Grouping::m_grouped_masked) return masked_sizes(spec, random);
    if (alignment(spec) > 0) return aligned_sizes(spec, random);
    Sizes sizes = split_units(spec, total(spec) / spec.size_multiple, random);
    for (std::int64_t& size : sizes) size *= spec.size_multiple;
    if (is_k_grouped(spec.grouping)) sizes.back() += total(spec) % spec.size_multiple;
    return sizes;
}

/// Where the group after one that ends at `end` begins.
std::int64_t next_begin(const CaseSpec& spec, std::int64_t end) {
    const std::int64_t unit = alignment(spec);
    return unit == 0 ? end : std::min(round_up(end, unit), total(spec));
}

void check_fit(const CaseSpec& spec, const Sizes& sizes) {
    if (static_cast<std::int64_t>(sizes.size()) != spec.groups) {
        throw std::invalid_argument("group_sizes: one for each group expected");
    }
    std::int64_t end = 0;
    for (std::int64_t size : sizes) {
        if (spec.grouping == Grouping::m_grouped_masked) {
            end = std::max(end, size);
        } else {
            end = next_begin(spec, end) + size;
        }
    }
    if (end > total(spec)) throw std::invalid_argument("group_sizes: they need more room than the case has");
}

/// The group of each row, in blocks of rows: any row but a block's first may have none instead of the block's group.
Sizes block_entries(const CaseSpec& spec, const Sizes& sizes, Random& random) {
    Sizes entries;
    const auto rows = [&] { return static_cast<std::int64_t>(entries.size()); };
    const auto none = [&] { return random.up_to(3) == 0 ? spec.groups : -1; };
    for (std::int64_t group = 0; group < spec.groups; ++group) {
        const std::int64_t end = rows() + sizes[group], padded = next_begin(spec, end);
        while (rows() < padded) {
            const bool may_be_none = rows() % spec.index_alignment != 0;
            const bool is_none = may_be_none && random.up_to(rows() < end ? 7 : 1) == 0;
            entries.push_back(is_none ? none() : group);
        }
    }
    while (rows() < spec.m) entries.push_back(none());
    return entries;
}

/// The group of each row. Seeded: runs of rows of no group anywhere between, marked by any index out of range.
Sizes index_entries(const CaseSpec& spec, const Sizes& sizes, Random& random) {
    Sizes entries;
    std::int64_t free_rows = spec.m;
    for (std::int64_t size : sizes) free_rows -= size;
    const auto skip = [&](std::int64_t rows) {
        for (std::int64_t i = 0; i < rows; ++i) entries.push_back(random.up_to(3) == 0 ? spec.groups : -1);
        free_rows -= rows;
    };
    const bool seeded = spec.group_sizes.empty();
    for (std::int64_t group = 0; group < spec.groups; ++group) {
        if (seeded) skip(random.up_to(std::min<std::int64_t>(free_rows, 3)));
        entries.insert(entries.end(), sizes[group], group);
    }
    skip(free_rows);
    return entries;
}

Sizes end_entries(const CaseSpec& spec, const Sizes& sizes) {
    Sizes entries;
    std::int64_t end = 0;
    for (std::int64_t size : sizes) {
        end = next_begin(spec, end) + size;
        entries.push_back(end);
    }
    return entries;
}

}  // namespace

std::int64_t group_alignment(const CaseSpec& spec) {
    if (spec.grouping != Grouping::k_grouped_aligned_offsets) return spec.alignment;
    // 16, 32 and 128 divide each other.
    const int block = std::max({1, k_block(spec.recipe.a.granularity), k_block(spec.recipe.b.granularity)});
    return round_up<std::int64_t>(spec.alignment, block);
}

std::vector<std::int64_t> size_entries(const CaseSpec& spec) {
    if (spec.grouping == Grouping::dense || spec.grouping == Grouping::batched) return {};
    if (!spec.size_entries.empty()) return spec.size_entries;
    Random random(spec.seed ^ size_stream);
    Sizes sizes = spec.group_sizes.empty() ? seeded_sizes(spec, random) : spec.group_sizes;
    check_fit(spec, sizes);
    switch (spec.grouping) {
        case Grouping::m_grouped_masked:
        case Grouping::k_grouped_flat: return sizes;
        case Grouping::m_grouped_indices:
            return spec.index_alignment > 1 ? block_entries(spec, sizes, random) : index_entries(spec, sizes, random);
        default: return end_entries(spec, sizes);
    }
}

}  // namespace tilewright::check
