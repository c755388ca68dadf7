#include "launch/tile_code.h"

#include <fmt/format.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <utility>

#include "hopper/tile/fields.h"
#include "plan/planned_tile.h"

namespace tilewright::launch {
namespace {

using namespace hopper;

constexpr const char* type_name(Storage) { return "Storage"; }
constexpr const char* type_name(Scaling) { return "Scaling"; }
constexpr const char* type_name(ClusterUse) { return "ClusterUse"; }
constexpr const char* type_name(Family) { return "Family"; }
constexpr const char* type_name(Variant) { return "Variant"; }

/// A tile as designated initializers. Enumerators by value: their order is part of tile.h, which every compiled
/// kernel's key covers.
class Initializers {
public:
    void field(const char* name, std::integral auto value) { add(name, fmt::format("{}", value)); }
    template <class Enumeration>
    void field(const char* name, Enumeration value) {
        add(name, fmt::format("tilewright::hopper::{}({})", type_name(value), static_cast<int>(value)));
    }
    template <class Fields>
    void group(const char* name, Fields fields) {
        std::string outer = std::exchange(text_, {});
        fields();
        outer.swap(text_);
        add(name, "{" + outer + "}");
    }
    const std::string& text() const { return text_; }

private:
    void add(const char* name, std::string_view value) {
        text_ += fmt::format("{}.{} = {}", text_.empty() ? "" : ", ", name, value);
    }

    std::string text_;
};

}  // namespace

std::string kernel_expression(const Tile& tile) {
    Initializers all;
    visit_fields(tile, all);
    return "tilewright::hopper::gemm<tilewright::hopper::Tile{" + all.text() + "}>";
}

std::string describe(const Tile& tile) {
    constexpr std::array storages{"e4m3", "e5m2"};
    constexpr std::array scalings{"none", "epilogue", "1x128", "128x128"};
    constexpr std::array variants{"general", "fast", "fast, K-major scales"};
    const auto word = [](const auto& words, auto value) { return words[static_cast<std::size_t>(value)]; };
    std::string text = name(planner::planned_tile(tile));
    text += fmt::format(", {} x {}, {} x {}", word(storages, tile.a.storage), word(storages, tile.b.storage),
                        word(scalings, tile.a.scaling), word(scalings, tile.b.scaling));
    if (!tile.mma.promoted) text += ", unpromoted";
    if (is_grouped(tile)) text += ", grouped";
    text += fmt::format(", {}", word(variants, tile.variant));
    if (tile.debug.every_lane_arrives) text += ", every lane arrives";
    return text;
}

}  // namespace tilewright::launch
