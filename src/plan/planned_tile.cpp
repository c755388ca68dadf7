#include "plan/planned_tile.h"

#include <fmt/format.h>

#include <charconv>

#include "hopper/description/design.h"
#include "plan/tsv.h"

namespace tilewright::planner {
namespace {

using hopper::ClusterUse;

bool parse_positive(std::string_view text, int& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() && value > 0;
}

bool parse_block(std::string_view text, PlannedTile& tile) {
    const std::vector<std::string_view> sizes = split(text, 'x');
    return sizes.size() == 3 && parse_positive(sizes[0], tile.shape.m) && parse_positive(sizes[1], tile.shape.n) &&
           parse_positive(sizes[2], tile.k);
}

/// A cluster has one use.
bool take_use(hopper::Cluster& cluster, ClusterUse use) {
    const bool is_first = cluster.use == ClusterUse::none;
    cluster.use = use;
    return is_first;
}

bool parse_value(std::string_view word, std::string_view value, PlannedTile& tile) {
    if (word == "stages") return parse_positive(value, tile.stages);
    if (word == "warpgroups") return parse_positive(value, tile.shape.warpgroups);
    if (word == "cluster") return parse_positive(value, tile.cluster.size);
    if (word == "multicast" && value == "a") return take_use(tile.cluster, ClusterUse::share_a);
    if (word == "multicast" && value == "b") return take_use(tile.cluster, ClusterUse::share_b);
    if (word != "split" || !take_use(tile.cluster, ClusterUse::split_k)) return false;
    const int blocks = tile.cluster.size;  // one for each slice, which need not be said
    return parse_positive(value, tile.cluster.size) && (blocks == 1 || blocks == tile.cluster.size);
}

}  // namespace

std::string name(const PlannedTile& tile) {
    const auto& [shape, k, stages, cluster, swap_ab] = tile;
    std::string text = fmt::format("{}x{}x{} stages={}", shape.m, shape.n, k, stages);
    if (shape.warpgroups != hopper::Shape{}.warpgroups) text += fmt::format(" warpgroups={}", shape.warpgroups);
    const bool splits = cluster.use == ClusterUse::split_k;
    if (cluster.size > 1 && !splits) text += fmt::format(" cluster={}", cluster.size);
    if (cluster.shares_operand()) text += cluster.use == ClusterUse::share_a ? " multicast=a" : " multicast=b";
    if (swap_ab) text += " swap";
    if (splits) text += fmt::format(" split={}", cluster.size);
    return text;
}

std::optional<PlannedTile> parse_tile(std::string_view text) {
    PlannedTile tile;
    bool block_given = false;
    for (const std::string_view word : split(text, ' ')) {
        const std::size_t equals = word.find('=');
        if (word == "swap") {
            tile.swap_ab = true;
        } else if (equals == std::string_view::npos) {
            if (!parse_block(word, tile)) return std::nullopt;
            block_given = true;
        } else if (!parse_value(word.substr(0, equals), word.substr(equals + 1), tile)) {
            return std::nullopt;
        }
    }
    if (tile.cluster == hopper::Cluster{ClusterUse::split_k, 1}) tile.cluster = {};
    return block_given ? std::optional(tile) : std::nullopt;
}

PlannedTile planned_tile(const Plan& plan) { return parse_tile(plan.tile).value(); }

PlannedTile planned_tile(const hopper::Kernel& tile) {
    return {.shape = tile.shape,
            .k = design_of(tile).stage_k,
            .stages = tile.stages,
            .cluster = tile.cluster,
            .swap_ab = tile.swap_ab};
}

}  // namespace tilewright::planner
