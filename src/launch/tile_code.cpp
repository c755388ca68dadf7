#include "launch/tile_code.h"

#include <fmt/format.h>

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
        ".b_scaling = {}, .promoted = {}, .family = {}}}>",
        tile.m, tile.n, tile.k, tile.stages, tile.cluster, enumerator("Multicast", tile.multicast), tile.swap_ab,
        tile.split_k, tile.warpgroups, enumerator("Storage", tile.a), enumerator("Storage", tile.b),
        enumerator("Scaling", tile.a_scaling), enumerator("Scaling", tile.b_scaling), tile.promoted,
        enumerator("Family", tile.family));
}

}  // namespace tilewright::launch
