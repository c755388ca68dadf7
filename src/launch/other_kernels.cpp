// The names of other kernels, and those that ship.
#include "launch/other_kernels.h"

#include "launch/initializers.h"
#include "launch/preparation.h"

namespace tilewright::launch {
namespace {

using namespace hopper;

constexpr const char* room = "tilewright::hopper::";

constexpr const char* type_name(const Quantizer&) { return "Quantizer"; }
constexpr const char* type_name(const CopySpec&) { return "CopySpec"; }
constexpr const char* type_name(const TransposeSpec&) { return "TransposeSpec"; }
constexpr const char* type_name(const DecodeSpec&) { return "DecodeSpec"; }
constexpr const char* type_name(const BlockSpec&) { return "BlockSpec"; }
constexpr const char* type_name(const PackSpec&) { return "PackSpec"; }
constexpr const char* type_name(const RowSpec&) { return "RowSpec"; }
constexpr const char* type_name(const CopyRowsSpec&) { return "CopyRowsSpec"; }
constexpr const char* type_name(const CombineSpec&) { return "CombineSpec"; }

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
    return fmt::format("{}{}{{{}}}", room, type_name(spec), all.text());
}

template <int count>
std::string parameters(const Threads<count>&) {
    return std::to_string(count);
}

std::string parameters(Expansion weights) {
    return fmt::format("{}Expansion({}), {}", room, static_cast<int>(weights), expand_run_tiles);
}

struct MostSharedBytes {
    template <class Kernel>
    int operator()(const Kernel&) const {
        return 0;
    }
    int operator()(const Measure& kernel) const { return of_tiles(kernel.spec); }
    int operator()(const Quantize& kernel) const { return of_tiles(kernel.spec); }
    int operator()(const TransposeCodes&) const { return quantize_shared_bytes; }
    int operator()(const ExpandWeights& kernel) const { return expand_shared_bytes(kernel.spec); }
    int operator()(const PackTiles&) const { return most_pack_shared; }
    int operator()(const PackScales&) const { return most_pack_shared; }
    int operator()(const Route&) const { return most_route_shared; }
    int operator()(const MeetAndRoute&) const { return most_route_shared; }
    int operator()(const Permute& kernel) const { return hopper::shared_bytes(kernel.spec); }
    int operator()(const CopyRows& kernel) const { return hopper::shared_bytes(kernel.spec); }
    int operator()(const Activate& kernel) const { return hopper::shared_bytes(kernel.spec); }

private:
    static int of_tiles(const Quantizer& quantizer) {
        return quantize_shared_bytes + (quantizer.paired ? ups_bytes : 0);
    }
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

}  // namespace

std::string kernel_expression(const OtherKernel& kernel) {
    return std::visit(
        [](const auto& each) { return fmt::format("{}{}<{}>", room, each.function, parameters(each.spec)); }, kernel);
}

std::string source_of(const OtherKernel& kernel) {
    return std::visit([](const auto& each) { return each.source; }, kernel);
}

int most_shared_bytes(const OtherKernel& kernel) { return std::visit(MostSharedBytes{}, kernel); }

int most_cluster(const OtherKernel& kernel) {
    const bool routes = std::holds_alternative<Route>(kernel) || std::holds_alternative<MeetAndRoute>(kernel);
    return routes ? most_route_blocks : 1;
}

std::vector<OtherKernel> shipped_other_kernels() {
    Kernels list;
    add_quantizers(list);
    list.insert(list.end(), {PackTiles{}, PackHeads{}, PackRest{}});
    add_layers(list);
    add_layers_of_ranks(list);
    return list;
}

}  // namespace tilewright::launch
