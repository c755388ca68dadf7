#include "emulator/kernels.h"
#include "plan/pack.h"

#include <array>
#include <utility>

namespace tilewright::tests {

namespace {

using hopper::Scaling;

constexpr std::array scalings{std::pair{Scaling::block_1x128, Scaling::block_128x128},
                              std::pair{Scaling::block_1x128, Scaling::block_1x128},
                              std::pair{Scaling::epilogue, Scaling::epilogue}};

}  // namespace

std::vector<hopper::Tile> emulated_tiles() {
    using hopper::share_b;
    using hopper::split_k;
    using hopper::Storage;
    using hopper::Variant;
    std::vector<hopper::Tile> tiles = planner::pack();
    const hopper::Tile small{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 2};
    const hopper::Tile pair{.shape = {.m = 128, .n = 32}, .stages = 3, .cluster = share_b(2), .variant = Variant::fast};
    const auto with = [](hopper::Tile tile, Storage a, Storage b, Scaling a_scaling, Scaling b_scaling) {
        tile.a.storage = a;
        tile.b.storage = b;
        tile.a.scaling = a_scaling;
        tile.b.scaling = b_scaling;
        return tile;
    };
    for (const auto& [a, b] : {std::pair{Storage::e4m3, Storage::e5m2}, std::pair{Storage::e5m2, Storage::e4m3},
                               std::pair{Storage::e5m2, Storage::e5m2}}) {
        tiles.push_back(with(small, a, b, Scaling::block_1x128, Scaling::block_128x128));
        tiles.push_back(with(pair, a, b, Scaling::epilogue, Scaling::epilogue));
    }
    // Widths whose scales and stores do not fill 128 bytes.
    for (int n : {16, 48, 112}) {
        hopper::Tile uneven{.shape = {.m = 128, .n = n}, .stages = 3};
        for (Scaling b : {Scaling::block_1x128, Scaling::block_128x128}) {
            uneven = with(uneven, Storage::e4m3, Storage::e4m3, Scaling::block_1x128, b);
            for (const Variant variant : {Variant::general, Variant::fast}) {
                uneven.variant = variant;
                tiles.push_back(uneven);
            }
        }
    }
    // Swapped, for few tokens: an odd eight of them, several 128-row blocks of B, pairs.
    for (hopper::Tile swapped :
         {hopper::Tile{.shape = {.m = 64, .n = 8, .warpgroups = 1}, .stages = 4, .swap_ab = true},
          hopper::Tile{.shape = {.m = 64, .n = 24, .warpgroups = 1}, .stages = 4, .swap_ab = true},
          hopper::Tile{.shape = {.m = 128, .n = 16}, .stages = 4, .swap_ab = true},
          hopper::Tile{.shape = {.m = 128, .n = 64}, .stages = 4, .swap_ab = true},
          hopper::Tile{.shape = {.m = 256, .n = 32}, .stages = 3, .swap_ab = true},
          hopper::Tile{.shape = {.m = 192, .n = 40, .warpgroups = 3}, .stages = 3, .swap_ab = true}}) {
        for (const auto& [a, b] : scalings) {
            tiles.push_back(with(swapped, Storage::e4m3, Storage::e5m2, a, b));
        }
        swapped.family = hopper::Family::m_grouped;
        tiles.push_back(with(swapped, Storage::e4m3, Storage::e4m3, Scaling::block_1x128, Scaling::block_128x128));
    }
    for (const auto& [a, b] : scalings) {
        hopper::Tile checked = with(pair, Storage::e4m3, Storage::e4m3, a, b);
        checked.cluster = {};
        checked.variant = Variant::general;
        checked.debug.every_lane_arrives = true;
        tiles.push_back(checked);
        checked.family = hopper::Family::m_grouped;
        tiles.push_back(checked);
    }
    // Slices of k, swapped or not, with more slices than a small k has blocks.
    for (hopper::Tile split :
         {hopper::Tile{
              .shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 4, .swap_ab = true, .cluster = split_k(4)},
          hopper::Tile{.shape = {.m = 128, .n = 64}, .stages = 4, .swap_ab = true, .cluster = split_k(2)},
          hopper::Tile{.shape = {.m = 64, .n = 48, .warpgroups = 1}, .stages = 3, .cluster = split_k(8)},
          hopper::Tile{.shape = {.m = 128, .n = 128}, .stages = 3, .cluster = split_k(2)}}) {
        for (const auto& [a, b] : scalings) {
            tiles.push_back(with(split, Storage::e4m3, Storage::e4m3, a, b));
        }
        split.family = hopper::Family::m_grouped;
        tiles.push_back(with(split, Storage::e4m3, Storage::e4m3, Scaling::block_1x128, Scaling::block_128x128));
    }
    std::vector<hopper::Tile> some;
    for (std::size_t i = 0; i < tiles.size(); i += kernel_step) some.push_back(tiles[i]);
    return some;
}

}  // namespace tilewright::tests
