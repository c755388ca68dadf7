// The kernels around the products of a layer of experts: their names, and the kernels that ship.
#include "launch/initializers.h"
#include "launch/moe.h"

namespace tilewright::launch {

using namespace hopper;

namespace {

/// The recipes of layers that ship, for numbers in bf16.
constexpr RowSpec shipped_outputs[] = {
    {.output = RowOutput::scaled_blocks},
    {.output = RowOutput::scaled_blocks, .rounds_up = true},
    {.output = RowOutput::scaled_rows},
    {.output = RowOutput::bf16},
    {.output = RowOutput::mx},
};

template <class Spec>
std::string expression_of(const char* function, const char* type, const Spec& spec) {
    const std::string room = "tilewright::hopper::";
    Initializers all;
    visit_fields(spec, all);
    return room + function + "<" + room + type + "{" + all.text() + "}>";
}

}  // namespace

std::vector<MoeKernel> shipped_moe_kernels() {
    std::vector<MoeKernel> list{{.function = MoeFunction::route}};
    for (const bool routes : {false, true}) {
        list.push_back({.function = MoeFunction::copy_rows, .copies = {.routes = routes}});
        for (RowSpec rows : shipped_outputs) {
            rows.routes = routes;
            list.push_back({.function = MoeFunction::permute, .rows = rows});
        }
    }
    const auto add_activation = [&](RowSpec rows, Unit unit, bool interleaved) {
        rows.activates = true;
        rows.unit = unit;
        rows.interleaved = interleaved;
        list.push_back({.function = MoeFunction::activate, .rows = rows});
    };
    for (const RowSpec& rows : shipped_outputs) add_activation(rows, Unit::swiglu, false);
    for (const RowOutput output : {RowOutput::scaled_blocks, RowOutput::bf16}) {
        add_activation({.output = output}, Unit::swiglu, true);
    }
    for (const Unit unit : {Unit::situ, Unit::geglu, Unit::relu_squared}) add_activation({}, unit, false);
    list.push_back({.function = MoeFunction::combine});
    // A layer of several ranks: tokens come quantized by blocks or as bf16.
    list.push_back({.function = MoeFunction::announce});
    list.push_back({.function = MoeFunction::meet});
    list.push_back({.function = MoeFunction::meet_and_route});
    list.push_back({.function = MoeFunction::copy_rows, .copies = {.announces = true}});
    for (RowSpec rows : shipped_outputs) {
        rows.announces = true;
        list.push_back({.function = MoeFunction::permute, .rows = rows});
    }
    for (const bool routes : {false, true}) {
        const RowSpec rows{.output = RowOutput::bf16, .routes = routes, .from_ranks = true, .meets = routes};
        list.push_back({.function = MoeFunction::permute, .rows = rows});
        const CopyRowsSpec copies{.routes = routes, .from_ranks = true, .meets = routes};
        list.push_back({.function = MoeFunction::copy_rows, .copies = copies});
    }
    for (const bool meets : {false, true}) {
        list.push_back({.function = MoeFunction::combine, .sums = {.from_ranks = true, .meets = meets}});
    }
    list.push_back({.function = MoeFunction::combine, .sums = {.to_ranks = true}});
    list.push_back({.function = MoeFunction::combine, .sums = {.meets = true}});
    return list;
}

std::string kernel_expression(const MoeKernel& kernel) {
    switch (kernel.function) {
        case MoeFunction::permute: return expression_of("permute", "RowSpec", kernel.rows);
        case MoeFunction::activate: return expression_of("activate", "RowSpec", kernel.rows);
        case MoeFunction::copy_rows: return expression_of("copy_rows", "CopyRowsSpec", kernel.copies);
        case MoeFunction::combine: return expression_of("combine", "CombineSpec", kernel.sums);
        case MoeFunction::weight_gradient:
            return "tilewright::hopper::weight_gradient<" + std::to_string(dot_threads) + ">";
        case MoeFunction::announce: return "tilewright::hopper::announce<" + std::to_string(announce_threads) + ">";
        case MoeFunction::meet: return "tilewright::hopper::meet<" + std::to_string(meet_threads) + ">";
        case MoeFunction::meet_and_route:
            return "tilewright::hopper::meet_and_route<" + std::to_string(route_threads) + ">";
        case MoeFunction::route: break;
    }
    return "tilewright::hopper::route<" + std::to_string(route_threads) + ">";
}

int most_shared_bytes(const MoeKernel& kernel) {
    switch (kernel.function) {
        case MoeFunction::route:
        case MoeFunction::meet_and_route: return most_route_shared;
        case MoeFunction::copy_rows: return hopper::shared_bytes(kernel.copies);
        case MoeFunction::combine:
        case MoeFunction::weight_gradient:
        case MoeFunction::announce:
        case MoeFunction::meet: return 0;
        default: return hopper::shared_bytes(kernel.rows);
    }
}

}  // namespace tilewright::launch
