#include "check/user_sizes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/math.h"

namespace tilewright::check {
namespace {

constexpr std::int64_t even_step = 64;

/// From `least` to `most` in steps, each order of magnitude as likely as any other.
std::int64_t any_size(Random& random, double least, double most, std::int64_t step) {
    const double value = least * std::pow(most / least, random.unit());
    return std::max<std::int64_t>(1, std::llround(value / static_cast<double>(step))) * step;
}

/// The same, but no multiple of 64.
std::int64_t odd_size(Random& random, double least, double most, std::int64_t step) {
    while (true) {
        const std::int64_t size = any_size(random, least, most, step);
        if (size % even_step != 0) return size;
    }
}

struct Ranges {
    double most_n = 32768;
    double most_k = 16384;
};

void draw_weight(UserSizes& sizes, bool odd, const Ranges& ranges, Random& random) {
    constexpr double least = 512;
    constexpr std::int64_t n_step = 8;
    constexpr std::int64_t k_step = 16;
    sizes.n = odd ? odd_size(random, least, ranges.most_n, n_step) : any_size(random, least, ranges.most_n, even_step);
    sizes.k = odd ? odd_size(random, least, ranges.most_k, k_step) : any_size(random, least, ranges.most_k, even_step);
}

std::int64_t draw_rows(bool odd, Random& random) {
    constexpr double most = 4096;
    return odd ? odd_size(random, 1, most, 1) : any_size(random, 1, most, 1);
}

double normal(Random& random) {
    const double radius = std::sqrt(-2 * std::log(1 - random.unit()));
    return radius * std::cos(2 * std::numbers::pi * random.unit());
}

/// Rows (k-grouped: k) of each group; their mean, and where rows of A and D are.
void draw_groups(UserSizes& sizes, Grouping grouping, Random& random) {
    constexpr std::array<std::int64_t, 5> choices{1, 2, 4, 6, 8};
    constexpr double most_tokens = 16384;
    constexpr double most_skew = 1.5;
    constexpr std::int64_t k_step = 128;
    const auto chosen = std::min(choices[static_cast<std::size_t>(random.up_to(choices.size() - 1))], sizes.groups);
    const std::int64_t tokens = any_size(random, 1, most_tokens, 1);
    sizes.group_sizes = routed_rows(sizes.groups, tokens, chosen, most_skew * random.unit(), random);
    std::vector<std::int64_t>& all = sizes.group_sizes;
    if (is_k_grouped(grouping)) {
        for (std::int64_t& size : all) size = round_up(size, k_step);
    }
    const std::int64_t mean = std::accumulate(all.begin(), all.end(), std::int64_t{0}) / sizes.groups;
    (is_k_grouped(grouping) ? sizes.k : sizes.m) = std::max<std::int64_t>(1, mean);
    if (grouping != Grouping::m_grouped_masked) return;
    constexpr std::uint64_t least_room = 64;
    const auto largest = static_cast<std::uint64_t>(*std::max_element(all.begin(), all.end()));
    sizes.max_m = static_cast<std::int64_t>(std::max(least_room, std::bit_ceil(largest)));
}

/// The bytes of the values of A and B, and of D in bf16.
double bytes(const UserSizes& sizes, Grouping grouping) {
    const auto of = [](std::int64_t x, std::int64_t y) { return static_cast<double>(x) * static_cast<double>(y); };
    const bool masked = grouping == Grouping::m_grouped_masked;
    const std::int64_t rows = (masked ? sizes.max_m : sizes.m) * sizes.groups;
    if (is_k_grouped(grouping)) {
        return of(sizes.m + sizes.n, sizes.k * sizes.groups) + 4 * of(sizes.groups * sizes.m, sizes.n);
    }
    return of(rows, sizes.k + 2 * sizes.n) + of(sizes.groups * sizes.n, sizes.k);
}

UserSizes drawn(Grouping grouping, Random& random) {
    constexpr double least_groups = 2, most_groups = 128, widest = 8192;
    const bool odd = random.up_to(3) == 0;
    UserSizes sizes;
    if (grouping == Grouping::dense) {
        sizes.m = draw_rows(odd, random);
        draw_weight(sizes, odd, {}, random);
        return sizes;
    }
    sizes.groups = any_size(random, least_groups, most_groups, 1);
    draw_weight(sizes, odd, {.most_n = widest, .most_k = widest}, random);
    if (is_k_grouped(grouping)) {  // the gradient of a weight: its sides are m and n
        sizes.m = sizes.n;
        sizes.n = sizes.k;
    }
    if (grouping == Grouping::batched) {
        sizes.m = draw_rows(odd, random);
    } else {
        draw_groups(sizes, grouping, random);
    }
    return sizes;
}

}  // namespace

std::vector<std::int64_t> routed_rows(std::int64_t groups, std::int64_t tokens, std::int64_t choices, double skew,
                                      Random& random) {
    const auto count = static_cast<std::size_t>(groups);
    if (choices >= groups) return std::vector<std::int64_t>(count, tokens);
    std::vector<double> ends;  // of each group's share of the popularity
    double all = 0;
    while (ends.size() < count) ends.push_back(all += std::exp(skew * normal(random)));
    std::vector<std::int64_t> rows(count, 0);
    std::vector<std::int64_t> last_token(count, -1);  // that took the group
    for (std::int64_t token = 0; token < tokens; ++token) {
        for (std::int64_t taken = 0; taken < choices;) {
            const auto end = std::upper_bound(ends.begin(), ends.end() - 1, all * random.unit());
            const auto group = static_cast<std::size_t>(end - ends.begin());
            if (last_token[group] == token) continue;  // draws again
            last_token[group] = token;
            ++rows[group];
            ++taken;
        }
    }
    return rows;
}

UserSizes user_sizes(Grouping grouping, Random& random) {
    while (true) {
        UserSizes sizes = drawn(grouping, random);
        if (bytes(sizes, grouping) <= most_bytes) return sizes;
    }
}

}  // namespace tilewright::check
