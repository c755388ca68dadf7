#include "emulator/kernels.h"
#include "plan/pack.h"

#include <array>
#include <utility>

namespace tilewright::tests {

namespace {

using hopper::Scaling;

constexpr std::array scalings{std::pair{Scaling::row_128, Scaling::block_128},
                              std::pair{Scaling::row_128, Scaling::row_128}, std::pair{Scaling::after, Scaling::after}};

}  // namespace

std::vector<hopper::Tile> emulated_tiles() {
    using hopper::Multicast;
    using hopper::Storage;
    std::vector<hopper::Tile> tiles = planner::pack();
    const hopper::Tile small{.m = 64, .n = 16, .stages = 2, .warpgroups = 1};
    const hopper::Tile pair{.m = 128, .n = 32, .stages = 3, .cluster = 2, .multicast = Multicast::b, .plain = true};
    const auto with = [](hopper::Tile tile, Storage a, Storage b, Scaling a_scaling, Scaling b_scaling) {
        tile.a = a;
        tile.b = b;
        tile.a_scaling = a_scaling;
        tile.b_scaling = b_scaling;
        return tile;
    };
    for (const auto& [a, b] : {std::pair{Storage::e4m3, Storage::e5m2}, std::pair{Storage::e5m2, Storage::e4m3},
                               std::pair{Storage::e5m2, Storage::e5m2}}) {
        tiles.push_back(with(small, a, b, Scaling::row_128, Scaling::block_128));
        tiles.push_back(with(pair, a, b, Scaling::after, Scaling::after));
    }
    // Widths whose scales and stores do not fill 128 bytes.
    for (int n : {16, 48, 112}) {
        hopper::Tile uneven{.m = 128, .n = n, .stages = 3};
        for (Scaling b : {Scaling::row_128, Scaling::block_128}) {
            uneven = with(uneven, Storage::e4m3, Storage::e4m3, Scaling::row_128, b);
            for (bool plain : {false, true}) {
                uneven.plain = plain;
                tiles.push_back(uneven);
            }
        }
    }
    // Swapped, for few tokens: an odd eight of them, several 128-row blocks of B, pairs.
    for (hopper::Tile swapped : {hopper::Tile{.m = 64, .n = 8, .stages = 4, .swap_ab = true, .warpgroups = 1},
                                 hopper::Tile{.m = 64, .n = 24, .stages = 4, .swap_ab = true, .warpgroups = 1},
                                 hopper::Tile{.m = 128, .n = 16, .stages = 4, .swap_ab = true},
                                 hopper::Tile{.m = 128, .n = 64, .stages = 4, .swap_ab = true},
                                 hopper::Tile{.m = 256, .n = 32, .stages = 3, .swap_ab = true},
                                 hopper::Tile{.m = 192, .n = 40, .stages = 3, .swap_ab = true, .warpgroups = 3}}) {
        for (const auto& [a, b] : scalings) {
            tiles.push_back(with(swapped, Storage::e4m3, Storage::e5m2, a, b));
        }
        swapped.family = hopper::Family::m_grouped;
        tiles.push_back(with(swapped, Storage::e4m3, Storage::e4m3, Scaling::row_128, Scaling::block_128));
    }
    for (const auto& [a, b] : scalings) {
        hopper::Tile checked = with(pair, Storage::e4m3, Storage::e4m3, a, b);
        checked.cluster = 1;
        checked.multicast = Multicast::none;
        checked.plain = false;
        checked.every_lane_arrives = true;
        tiles.push_back(checked);
        checked.family = hopper::Family::m_grouped;
        tiles.push_back(checked);
    }
    // Slices of k, swapped or not, with more slices than a small k has blocks.
    for (hopper::Tile split :
         {hopper::Tile{.m = 64, .n = 16, .stages = 4, .swap_ab = true, .split_k = 4, .warpgroups = 1},
          hopper::Tile{.m = 128, .n = 64, .stages = 4, .swap_ab = true, .split_k = 2},
          hopper::Tile{.m = 64, .n = 48, .stages = 3, .split_k = 8, .warpgroups = 1},
          hopper::Tile{.m = 128, .n = 128, .stages = 3, .split_k = 2}}) {
        split.cluster = split.split_k;
        for (const auto& [a, b] : scalings) {
            tiles.push_back(with(split, Storage::e4m3, Storage::e4m3, a, b));
        }
        split.family = hopper::Family::m_grouped;
        tiles.push_back(with(split, Storage::e4m3, Storage::e4m3, Scaling::row_128, Scaling::block_128));
    }
    std::vector<hopper::Tile> some;
    for (std::size_t i = 0; i < tiles.size(); i += kernel_step) some.push_back(tiles[i]);
    return some;
}

}  // namespace tilewright::tests
