#include "plan/candidates.h"

#include <array>
#include <span>
#include <utility>

namespace tilewright::planner {
namespace {

// Rows of a tile and its warpgroups. One or two warpgroups own 64 or 128 rows each; 192 rows take three (third best of
// the promoted loops). Packed weights take four, each of which decodes 64 rows while the others multiply.
constexpr std::array row_choices{std::pair{64, 1}, std::pair{128, 2}, std::pair{192, 3}, std::pair{256, 2}};
constexpr std::pair packed_rows_choice{256, 4};
constexpr std::array wide_columns{16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256};
// Tokens on the tensor core's n: few of them, in steps that waste little.
constexpr std::array token_columns{8, 16, 24, 32, 40, 48, 64, 72, 80, 88, 96, 104, 112, 128, 136, 160, 192};
constexpr std::array stage_choices{3, 4, 5, 6, 7, 8, 9, 10, 12, 16};
using enum hopper::ClusterUse;
constexpr hopper::Cluster cluster_choices[] = {{},           {share_a, 2}, {share_b, 2},
                                               {split_k, 2}, {split_k, 4}, {split_k, 8}};

void add_variants(hopper::Kernel tile, std::vector<hopper::Kernel>& list) {
    for (const hopper::Cluster& cluster : cluster_choices) {
        for (const int stages : stage_choices) {
            tile.cluster = cluster;
            tile.stages = stages;
            list.push_back(tile);
        }
    }
}

}  // namespace

std::vector<hopper::Kernel> candidates(const hopper::Kernel& shapeless) {
    std::vector<hopper::Kernel> list;
    hopper::Kernel tile = shapeless;
    std::vector rows(row_choices.begin(), row_choices.end());
    if (shapeless.b.is_packed()) rows.push_back(packed_rows_choice);
    for (const bool swap : {false, true}) {
        tile.swap_ab = swap;
        for (const auto& [m, warpgroups] : rows) {
            for (const int n : swap ? std::span<const int>(token_columns) : wide_columns) {
                tile.shape = {.m = m, .n = n, .warpgroups = warpgroups};
                add_variants(tile, list);
            }
        }
    }
    return list;
}

}  // namespace tilewright::planner
