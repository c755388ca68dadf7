// The names of kernels, and the other kernels that ship.
#include "launch/kernels.h"

#include <fmt/format.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <utility>

#include "launch/preparation.h"
#include "plan/planned_tile.h"

namespace tilewright::launch {
namespace {

using namespace hopper;

/// "tilewright::hopper::Quantizer", as the compiler writes it into this function's name.
template <class Type>
constexpr std::string_view type_name() {
    const std::string_view function = __PRETTY_FUNCTION__, before = "Type = ";
    const std::size_t begin = function.find(before) + before.size();
    return function.substr(begin, function.find_first_of(";]", begin) - begin);
}
/// The compiler sees through this alias, by which packs find their kernels.
template <>
constexpr std::string_view type_name<Unit>() {
    return "tilewright::hopper::Unit";
}

/// Enumerators are written as numbers: their order is part of the headers, which every compiled kernel's key covers.
template <class Enumeration>
std::string enumerator(Enumeration value) {
    return fmt::format("{}({})", type_name<Enumeration>(), static_cast<int>(value));
}

/// Designated initializers, from the fields that a visitor receives.
class Initializers {
public:
    void field(const char* name, std::integral auto value) { add(name, fmt::format("{}", value)); }
    template <class Enumeration>
    void field(const char* name, Enumeration value) {
        add(name, enumerator(value));
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

/// The fields that matter to kernels of scales.
void visit_fields(const CopySpec& spec, Initializers& all) {
    all.field("scaled", spec.scaled);
    all.field("storage", spec.storage);
    all.field("powers", spec.powers);
}

template <class Spec>
std::string parameters(const Spec& spec) {
    Initializers all;
    visit_fields(spec, all);
    return fmt::format("{}{{{}}}", type_name<Spec>(), all.text());
}

template <int count>
std::string parameters(const Threads<count>&) {
    return std::to_string(count);
}

std::string parameters(Expansion weights) { return fmt::format("{}, {}", enumerator(weights), expand_run_tiles); }

template <class Spec>
std::string expression(std::string_view function, const Spec& spec) {
    return fmt::format("tilewright::hopper::{}<{}>", function, parameters(spec));
}

struct MostSharedBytes {
    template <class Kernel>
    int operator()(const Kernel& kernel) const {
        if constexpr (requires { hopper::shared_bytes(kernel.spec); }) return hopper::shared_bytes(kernel.spec);
        return 0;
    }
    int operator()(const PackTiles&) const { return most_pack_shared; }
    int operator()(const PackScales&) const { return most_pack_shared; }
    int operator()(const Route&) const { return most_route_shared; }
    int operator()(const MeetAndRoute&) const { return most_route_shared; }
};

using Kernels = std::vector<OtherKernel>;

CopySpec rows(ScaledBy scaled) { return {.scaled = scaled}; }

CopySpec rows_of_powers(ScaledBy scaled, bool ue8m0 = false) {
    return {.scaled = scaled, .powers = true, .ue8m0 = ue8m0};
}

CopySpec columns(ScaledBy scaled) { return {.scaled = scaled, .transposed = true}; }

/// Adds the kernel that writes the operands, and the kernel that measures their scales first, if they need one.
void add(Kernels& list, const Quantizer& quantizer) {
    if (is_measured(quantizer.rows) || is_measured(quantizer.columns)) list.emplace_back(Measure{quantizer});
    list.emplace_back(Quantize{quantizer});
}

void add_quantizers(Kernels& list) {
    // With the names that `lower` gives. All kernels of clear_scales are alike; for finish_scales the value format
    // matters.
    list.emplace_back(ClearScales{});
    list.emplace_back(FinishScales{rows(ScaledBy::all)});
    // Activations and weights, one matrix at a time.
    for (const CopySpec& copy : {rows(ScaledBy::token_block), rows_of_powers(ScaledBy::token_block),
                                 rows_of_powers(ScaledBy::token_block, true), rows(ScaledBy::square),
                                 rows_of_powers(ScaledBy::square), rows(ScaledBy::token), rows(ScaledBy::all)}) {
        add(list, {.rows = copy});
    }
    // Both operands of a training step, of one matrix and of groups; SwiGLU precedes the second product, its gradient
    // follows.
    for (const bool grouped : {false, true}) {
        add(list,
            {.grouped = grouped, .rows = rows(ScaledBy::token_block), .columns = columns(ScaledBy::feature_block)});
        add(list, {.grouped = grouped, .rows = rows(ScaledBy::token), .columns = columns(ScaledBy::feature)});
        add(list, {.formula = Formula::swiglu, .grouped = grouped, .rows = rows(ScaledBy::token_block)});
    }
    list.emplace_back(TransposeCodes{copy_spec});
    list.emplace_back(ExpandWeights{});
    list.emplace_back(FinishGroups{});
}

/// The recipes of layers that ship, for numbers in bf16.
constexpr RowSpec shipped_outputs[] = {
    {.output = RowOutput::scaled_blocks},
    {.output = RowOutput::scaled_blocks, .rounds_up = true},
    {.output = RowOutput::scaled_rows},
    {.output = RowOutput::bf16},
    {.output = RowOutput::mx},
};

void add_layers(Kernels& list) {
    list.emplace_back(Route{});
    for (const bool routes : {false, true}) {
        list.emplace_back(CopyRows{{.routes = routes}});
        for (RowSpec spec : shipped_outputs) {
            spec.routes = routes;
            list.emplace_back(Permute{spec});
        }
    }
    const auto add_activation = [&](RowSpec spec, Unit unit, bool interleaved) {
        spec.activates = true;
        spec.unit = unit;
        spec.interleaved = interleaved;
        list.emplace_back(Activate{spec});
    };
    for (const RowSpec& spec : shipped_outputs) add_activation(spec, Unit::swiglu, false);
    for (const RowOutput output : {RowOutput::scaled_blocks, RowOutput::bf16}) {
        add_activation({.output = output}, Unit::swiglu, true);
    }
    for (const Unit unit : {Unit::situ, Unit::geglu, Unit::relu_squared}) add_activation({}, unit, false);
    list.emplace_back(Combine{});
}

/// A layer of several ranks: tokens come quantized by blocks or as bf16.
void add_layers_of_ranks(Kernels& list) {
    list.emplace_back(Announce{});
    list.emplace_back(Meet{});
    list.emplace_back(MeetAndRoute{});
    list.emplace_back(CopyRows{{.announces = true}});
    for (RowSpec spec : shipped_outputs) {
        spec.announces = true;
        list.emplace_back(Permute{spec});
    }
    for (const bool routes : {false, true}) {
        list.emplace_back(Permute{{.output = RowOutput::bf16, .routes = routes, .from_ranks = true, .meets = routes}});
        list.emplace_back(CopyRows{{.routes = routes, .from_ranks = true, .meets = routes}});
    }
    for (const bool meets : {false, true}) list.emplace_back(Combine{{.from_ranks = true, .meets = meets}});
    list.emplace_back(Combine{{.to_ranks = true}});
    list.emplace_back(Combine{{.meets = true}});
}

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

std::string kernel_expression(const Kernel& tile) { return expression("gemm", tile); }

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

std::string kernel_expression(const OtherKernel& kernel) {
    return std::visit([](const auto& each) { return expression(each.function, each.spec); }, kernel);
}

std::string source_of(const OtherKernel& kernel) {
    return std::visit([](const auto& each) { return each.source; }, kernel);
}

int most_shared_bytes(const OtherKernel& kernel) { return std::visit(MostSharedBytes{}, kernel); }

std::vector<OtherKernel> shipped_other_kernels() {
    Kernels list;
    add_quantizers(list);
    list.insert(list.end(), {PackTiles{}, PackHeads{}, PackRest{}});
    add_layers(list);
    add_layers_of_ranks(list);
    return list;
}

}  // namespace tilewright::launch
