#include "launch/tile_code.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string>

#include "hopper/description/kernel.h"
#include "launch/initializers.h"
#include "plan/planned_tile.h"

namespace tilewright::launch {
using namespace hopper;

std::string kernel_expression(const Kernel& kernel) {
    Initializers all;
    visit_fields(kernel, all);
    return "tilewright::hopper::gemm<tilewright::hopper::Kernel{" + all.text() + "}>";
}

namespace {

std::string side_text(const Side& side, ScaleUse use, bool folded) {
    constexpr std::array values{"e4m3", "e5m2", "bf16"};
    constexpr std::array forms{"", " along rows", " packed", " in place"};
    constexpr std::array uses{"", " in the loop", " at the end"};
    std::string text = side.is_packed() ? "e2m1" : values[static_cast<std::size_t>(side.values)];
    text += forms[static_cast<std::size_t>(side.form)];
    if (side.scale_rows == 0) return text;
    const std::string k = side.scale_k == 0 ? "any" : std::to_string(side.scale_k);
    text += fmt::format(" with {}x{}{}", side.scale_rows, k, uses[static_cast<std::size_t>(use)]);
    return text + (folded ? " folded" : "");
}

}  // namespace

std::string describe(const Kernel& kernel) {
    constexpr std::array groups{"", ", groups of rows", ", groups of k", ", groups of k anywhere"};
    constexpr std::array outputs{"any output", "D of bf16 by TMA", "D of f32 by TMA"};
    const CanonicalOrder& order = kernel.order;
    std::string text = name(planner::planned_tile(kernel));
    text += fmt::format(", {} x {}", side_text(kernel.a, order.a, order.folded == Folded::a),
                        side_text(kernel.b, order.b, order.folded == Folded::b));
    if (kernel.wide_rows) text += ", wide rows";
    if (order.chain == 0) text += ", unpromoted";
    text += groups[static_cast<std::size_t>(kernel.groups)];
    text += fmt::format(", {}", outputs[static_cast<std::size_t>(kernel.output)]);
    if (kernel.scales_along_k) text += ", scales along k";
    if (kernel.debug.every_lane_arrives) text += ", every lane arrives";
    if (kernel.debug.stamps) text += ", stamps";
    return text;
}

}  // namespace tilewright::launch
