// Compiles kernels for the emulator; the generated files are made of calls of `add`.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "emulator/kernels.h"
#include "hopper/gemm.h"

#include "emulator/primitives.h"

namespace tilewright::tests {

template <hopper::Tile tile>
void add(std::vector<Kernel>& list) {
    list.push_back({.tile = tile, .run = &hopper::gemm<tile>});
}

/// The elements of all these arrays of tiles.
template <std::size_t... sizes>
constexpr auto joined(const std::array<hopper::Tile, sizes>&... lists) {
    std::array<hopper::Tile, (sizes + ...)> all{};
    auto at = all.begin();
    ((at = std::copy(lists.begin(), lists.end(), at)), ...);
    return all;
}

/// The kernels of an array of tiles, of which every step-th is compiled; the others cannot run.
template <int step, const auto& tiles>
std::vector<Kernel> every() {
    std::vector<Kernel> list;
    [&]<std::size_t... i>(std::index_sequence<i...>) {
        (
            [&] {
                if constexpr (i % step == 0) {
                    add<tiles[i]>(list);
                } else {
                    list.push_back({.tile = tiles[i], .run = nullptr});
                }
            }(),
            ...);
    }
    (std::make_index_sequence<tiles.size()>());
    return list;
}

}  // namespace tilewright::tests
