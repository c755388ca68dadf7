#include "launch/tile_code.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace tilewright::launch {
namespace {

// Enumerators by value: their order is part of tile.h, which every compiled kernel's key covers.
template <class Enumeration>
std::string enumerator(const char* type, Enumeration value) {
    return fmt::format("tilewright::hopper::{}({})", type, static_cast<int>(value));
}

}  // namespace

std::string kernel_expression(const hopper::Tile& tile) {
    return fmt::format(
        "tilewright::hopper::gemm<tilewright::hopper::Tile{{.m = {}, .n = {}, .k = {}, .stages = {}, .cluster = {}, "
        ".multicast = {}, .swap_ab = {}, .split_k = {}, .warpgroups = {}, .a = {}, .b = {}, .a_scaling = {}, "
        ".b_scaling = {}, .promoted = {}, .family = {}, .plain = {}, "
        ".scales_by_row = {}, .every_lane_arrives = {}}}>",
        tile.m, tile.n, tile.k, tile.stages, tile.cluster, enumerator("Multicast", tile.multicast), tile.swap_ab,
        tile.split_k, tile.warpgroups, enumerator("Storage", tile.a), enumerator("Storage", tile.b),
        enumerator("Scaling", tile.a_scaling), enumerator("Scaling", tile.b_scaling), tile.promoted,
        enumerator("Family", tile.family), tile.plain, tile.scales_by_row, tile.every_lane_arrives);
}

std::string describe(const hopper::Tile& tile) {
    constexpr std::array storages{"e4m3", "e5m2", "e2m1", "bf16"};
    constexpr std::array scalings{"none", "after", "row_128", "block_128", "row_32", "decoded"};
    constexpr std::array multicasts{"none", "a", "b"};
    const auto word = [](const auto& words, auto value) { return words[static_cast<std::size_t>(value)]; };
    std::string text =
        fmt::format("{}x{}x{} stages={} warpgroups={}", tile.m, tile.n, tile.k, tile.stages, tile.warpgroups);
    if (tile.cluster > 1)
        text += fmt::format(" cluster={} multicast={}", tile.cluster, word(multicasts, tile.multicast));
    if (tile.swap_ab) text += " swap";
    if (tile.split_k > 1) text += fmt::format(" split={}", tile.split_k);
    text += fmt::format(", {} x {}, {} x {}", word(storages, tile.a), word(storages, tile.b),
                        word(scalings, tile.a_scaling), word(scalings, tile.b_scaling));
    if (!tile.promoted) text += ", unpromoted";
    if (tile.grouped()) text += ", grouped";
    if (tile.plain) text += ", plain";
    if (tile.scales_by_row) text += ", scales by row";
    if (tile.every_lane_arrives) text += ", every lane arrives";
    return text;
}

}  // namespace tilewright::launch
