#include "launch/tile_code.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "hopper/tile/fields.h"
#include "hopper/tile/mma_tiling.h"
#include "launch/initializers.h"
#include "plan/planned_tile.h"

namespace tilewright::launch {
using namespace hopper;

std::string kernel_expression(const Tile& tile) {
    Initializers all;
    visit_fields(tile, all);
    return "tilewright::hopper::gemm<tilewright::hopper::Tile{" + all.text() + "}>";
}

std::string describe(const Tile& tile) {
    constexpr std::array storages{"e4m3",    "e5m2",         "packed e2m1",  "packed e2m1 in windows",
                                  "bf16",    "packed mxfp4", "packed nvfp4", "packed mxfp4 with wide rows",
                                  "raw e2m1"};
    constexpr std::array scalings{"none", "epilogue", "1x128", "128x128", "alpha", "1x32", "factor", "repeated"};
    constexpr std::array variants{"general", "fast", "fast, K-major scales", "fast, f32"};
    const auto word = [](const auto& words, auto value) { return words[static_cast<std::size_t>(value)]; };
    std::string text = name(planner::planned_tile(tile));
    text += fmt::format(", {} x {}, {} x {}", word(storages, tile.a.storage), word(storages, tile.b.storage),
                        word(scalings, tile.a.scaling), word(scalings, tile.b.scaling));
    if (tile.a.major == Major::mn) text += ", a along m";
    if (tile.b.major == Major::mn) text += ", b along n";
    if (promotion_interval(tile) == 0) text += ", unpromoted";
    if (is_grouped(tile)) text += ", grouped";
    if (is_k_grouped(tile)) text += maps_groups(tile) ? ", k-grouped by maps" : ", k-grouped";
    text += fmt::format(", {}", word(variants, tile.variant));
    if (tile.debug.every_lane_arrives) text += ", every lane arrives";
    if (tile.debug.stamps) text += ", stamps";
    return text;
}

}  // namespace tilewright::launch
