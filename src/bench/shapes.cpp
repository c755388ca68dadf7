#include "bench/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/math.h"
#include "bench/python_random.h"
#include "check/random.h"
#include "plan/tuned.h"

namespace tilewright::bench {
namespace {

struct Weight {
    std::int64_t n;
    std::int64_t k;
    bool expert;
};

struct Suite {
    const char* name;
    std::vector<Weight> weights;
};

/// From the models' published configurations: hidden size, heads, intermediate sizes.
const std::vector<Suite>& suites() {
    static const std::vector<Suite> list{{"deepseek-v3",
                                          {{2112, 7168, false},   // attention: latents of q, k and v
                                           {24576, 1536, false},  // q from its latent
                                           {32768, 512, false},   // k and v from theirs
                                           {7168, 16384, false},  // output of attention
                                           {4096, 7168, true},    // expert: gate and up
                                           {7168, 2048, true}}},  // expert: down
                                         {"qwen3-235b",
                                          {{9216, 4096, false},   // q, k, v
                                           {4096, 8192, false},   // output of attention
                                           {3072, 4096, true},    // expert: gate and up
                                           {4096, 1536, true}}},  // expert: down
                                         {"gpt-oss",
                                          {{5120, 2880, false},   // q, k, v
                                           {2880, 4096, false},   // output of attention
                                           {5760, 2880, true},    // expert: gate and up
                                           {2880, 2880, true}}},  // expert: down
                                         {"llama-70b",
                                          {{10240, 8192, false},     // q, k, v
                                           {8192, 8192, false},      // output of attention
                                           {57344, 8192, false},     // gate and up
                                           {8192, 28672, false}}}};  // down
    return list;
}

BenchShape layer(const Weight& weight, Grouping grouping, std::int64_t rows, std::int64_t groups) {
    BenchShape shape{.grouping = grouping, .groups = groups, .m = rows, .n = weight.n, .k = weight.k};
    if (grouping == Grouping::dense) shape.groups = 1;
    if (grouping == Grouping::m_grouped_masked) shape.max_m = 2 * rows;
    if (is_k_grouped(grouping)) {  // the gradient of the weight, over `rows` tokens
        shape.m = weight.n;
        shape.n = weight.k;
        shape.k = rows;
    }
    return shape;
}

}  // namespace

std::vector<std::string> suite_names() {
    std::vector<std::string> names;
    for (const Suite& suite : suites()) names.emplace_back(suite.name);
    return names;
}

std::vector<BenchShape> suite_shapes(const std::string& suite_name, const std::vector<Grouping>& groupings,
                                     const std::vector<std::int64_t>& rows, std::int64_t groups) {
    std::vector<BenchShape> shapes;
    for (const Suite& suite : suites()) {
        if (suite.name != suite_name) continue;
        for (Grouping grouping : groupings) {
            for (const Weight& weight : suite.weights) {
                if (grouping != Grouping::dense && !weight.expert) continue;
                for (std::int64_t m : rows) shapes.push_back(layer(weight, grouping, m, groups));
            }
        }
    }
    return shapes;
}

BenchShape user_shape(Grouping grouping, check::UserSizes sizes) {
    return {.grouping = grouping,
            .groups = sizes.groups,
            .m = sizes.m,
            .n = sizes.n,
            .k = sizes.k,
            .max_m = sizes.max_m,
            .sizes = std::move(sizes.group_sizes)};
}

std::vector<BenchShape> random_shapes(int count, std::uint64_t seed, const std::vector<Grouping>& groupings) {
    std::vector<BenchShape> shapes;
    for (const Grouping grouping : groupings) {
        check::Random random(seed);
        for (int i = 0; i < count; ++i) shapes.push_back(user_shape(grouping, check::user_sizes(grouping, random)));
    }
    return shapes;
}

std::int64_t BenchShape::expected_m() const {
    if (grouping != Grouping::m_grouped_masked) return 0;
    return static_cast<std::int64_t>(planner::hint_over_mean * static_cast<double>(m));
}

std::vector<std::int64_t> group_sizes(const BenchShape& shape) {
    if (shape.grouping == Grouping::dense || shape.grouping == Grouping::batched) return {};
    if (!shape.sizes.empty()) return shape.sizes;
    const bool along_k = is_k_grouped(shape.grouping);
    const std::int64_t mean = along_k ? shape.k : shape.m;
    const bool masked = shape.grouping == Grouping::m_grouped_masked;
    PythonRandom random(masked ? 2 : along_k ? 3 : 1);
    constexpr double least = 0.7, most = 1.3;
    std::vector<std::int64_t> sizes;
    for (std::int64_t group = 0; group < shape.groups; ++group) {
        const double factor = least + (most - least) * random.next();
        auto size = static_cast<std::int64_t>(static_cast<double>(mean) * factor);
        if (along_k) size = (size + 127) / 128 * 128;
        if (masked) size = std::min(size, shape.max_m);
        sizes.push_back(size);
    }
    return sizes;
}

BenchShape with_hot_group(BenchShape shape, std::int64_t times) {
    constexpr std::int64_t step_of_k = 128;
    const bool along_k = is_k_grouped(shape.grouping);
    const std::int64_t sum = shape.groups * (along_k ? shape.k : shape.m);
    std::int64_t other = sum / (times + shape.groups - 1);
    if (along_k) other = other / step_of_k * step_of_k;
    shape.sizes.assign(static_cast<std::size_t>(shape.groups), other);
    shape.sizes.front() = sum - other * (shape.groups - 1);
    return shape;
}

/// With each group's size rounded up to the alignment.
std::int64_t aligned_sum(const check::CaseSpec& spec) {
    std::int64_t sum = 0;
    for (const std::int64_t size : spec.group_sizes) sum += round_up(size, spec.alignment);
    return sum;
}

check::CaseSpec grouped_case(const BenchShape& shape) {
    check::CaseSpec spec{.grouping = shape.grouping,
                         .m = shape.m,
                         .n = shape.n,
                         .k = shape.k,
                         .groups = shape.groups,
                         .group_sizes = group_sizes(shape)};
    const std::int64_t sum = std::accumulate(spec.group_sizes.begin(), spec.group_sizes.end(), std::int64_t{0});
    switch (shape.grouping) {
        case Grouping::m_grouped_indices:
        case Grouping::m_grouped_offsets: spec.m = sum; break;
        case Grouping::m_grouped_aligned_offsets: spec.m = aligned_sum(spec); break;
        case Grouping::m_grouped_masked: spec.m = shape.max_m; break;
        case Grouping::k_grouped:
        case Grouping::k_grouped_flat: spec.k = sum; break;
        case Grouping::k_grouped_aligned_offsets: spec.k = aligned_sum(spec); break;
        case Grouping::dense:
        case Grouping::batched: break;
    }
    return spec;
}

std::string operation_name(Grouping grouping) {
    switch (grouping) {
        case Grouping::m_grouped_indices:
        case Grouping::m_grouped_offsets:
        case Grouping::m_grouped_aligned_offsets: return "m_grouped_contiguous";
        default: return std::string(name(grouping));
    }
}

std::vector<std::int64_t> shape_key(const BenchShape& shape) {
    switch (shape.grouping) {
        case Grouping::dense: return {shape.m, shape.n, shape.k};
        case Grouping::m_grouped_masked: return {shape.groups, shape.max_m, shape.m, shape.n, shape.k};
        default: return {shape.groups, shape.m, shape.n, shape.k};
    }
}

std::string shape_text(const BenchShape& shape) { return fmt::format("[{}]", fmt::join(shape_key(shape), ", ")); }

std::optional<BenchShape> shape_of_key(Grouping grouping, const std::vector<std::int64_t>& key) {
    if (key.size() != shape_key({.grouping = grouping}).size()) return std::nullopt;
    const std::size_t last = key.size() - 1;
    BenchShape shape{.grouping = grouping, .m = key[last - 2], .n = key[last - 1], .k = key[last]};
    if (grouping != Grouping::dense) shape.groups = key[0];
    if (grouping == Grouping::m_grouped_masked) shape.max_m = key[1];
    return shape;
}

}  // namespace tilewright::bench
