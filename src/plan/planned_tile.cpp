#include "plan/planned_tile.h"

#include <fmt/format.h>

#include <charconv>

#include "hopper/description/design.h"
#include "plan/tsv.h"

namespace tilewright::planner {
namespace {

bool parse_positive(std::string_view text, int& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() && value > 0;
}

bool parse_block(std::string_view text, PlannedTile& tile) {
    const std::vector<std::string_view> sizes = split(text, 'x');
    return sizes.size() == 3 && parse_positive(sizes[0], tile.shape.m) && parse_positive(sizes[1], tile.shape.n) &&
           parse_positive(sizes[2], tile.k);
}

/// The words about blocks of a cluster, which may be in any order.
struct ClusterWords {
    int blocks = 1;
    int slices = 1;
    std::string_view multicast;

    /// Blocks have one use. A split implies its number of blocks.
    std::optional<hopper::Cluster> cluster() const {
        if (multicast.empty() && (blocks == 1 || blocks == slices)) return hopper::Cluster{.k_slices = slices};
        if (slices > 1 || blocks == 1) return std::nullopt;
        if (multicast == "a") return hopper::Cluster{.columns = blocks};
        return multicast == "b" ? std::optional(hopper::Cluster{.rows = blocks}) : std::nullopt;
    }
};

bool parse_value(std::string_view word, std::string_view value, PlannedTile& tile, ClusterWords& of_cluster) {
    if (word == "stages") return parse_positive(value, tile.stages);
    if (word == "warpgroups") return parse_positive(value, tile.shape.warpgroups);
    if (word == "cluster") return parse_positive(value, of_cluster.blocks);
    if (word == "split") return parse_positive(value, of_cluster.slices);
    const bool is_first = of_cluster.multicast.empty();
    of_cluster.multicast = value;
    return word == "multicast" && is_first;
}

}  // namespace

std::string name(const PlannedTile& tile) {
    const auto& [shape, k, stages, cluster, swap_ab] = tile;
    std::string text = fmt::format("{}x{}x{} stages={}", shape.m, shape.n, k, stages);
    if (shape.warpgroups != hopper::Shape{}.warpgroups) text += fmt::format(" warpgroups={}", shape.warpgroups);
    if (cluster.shares_operand()) {
        text += fmt::format(" cluster={} multicast={}", cluster.size(), cluster.columns > 1 ? "a" : "b");
    }
    if (swap_ab) text += " swap";
    if (cluster.k_slices > 1) text += fmt::format(" split={}", cluster.k_slices);
    return text;
}

std::optional<PlannedTile> parse_tile(std::string_view text) {
    PlannedTile tile;
    ClusterWords of_cluster;
    bool block_given = false;
    for (const std::string_view word : split(text, ' ')) {
        const std::size_t equals = word.find('=');
        if (word == "swap") {
            tile.swap_ab = true;
        } else if (equals == std::string_view::npos) {
            if (!parse_block(word, tile)) return std::nullopt;
            block_given = true;
        } else if (!parse_value(word.substr(0, equals), word.substr(equals + 1), tile, of_cluster)) {
            return std::nullopt;
        }
    }
    const std::optional<hopper::Cluster> cluster = of_cluster.cluster();
    if (!block_given || !cluster) return std::nullopt;
    tile.cluster = *cluster;
    return tile;
}

PlannedTile planned_tile(const Plan& plan) { return parse_tile(plan.tile).value(); }

PlannedTile planned_tile(const hopper::Kernel& tile) {
    return {.shape = tile.shape,
            .k = hopper::Design(tile).stage_k,
            .stages = tile.stages,
            .cluster = tile.cluster,
            .swap_ab = tile.swap_ab};
}

}  // namespace tilewright::planner
