#include "emulator/other_kernels.h"
#include "hopper/moe/activate.h"
#include "hopper/moe/combine.h"
#include "hopper/moe/copy_rows.h"
#include "hopper/moe/exchange.h"
#include "hopper/moe/permute.h"
#include "hopper/moe/unit_gradient.h"
#include "hopper/moe/weight_gradient.h"

#include "emulator/primitives.h"

#include <array>
#include <utility>

namespace tilewright::tests {
namespace {

using namespace hopper;
using Functions = OtherFunctions;

constexpr std::array all_outputs{
    RowSpec{.output = RowOutput::bf16},
    RowSpec{.output = RowOutput::f16},
    RowSpec{.output = RowOutput::f32},
    RowSpec{.output = RowOutput::scaled_rows},
    RowSpec{.output = RowOutput::scaled_rows, .storage = ValueFormat::e5m2, .rounds_up = true},
    RowSpec{.output = RowOutput::scaled_blocks},
    RowSpec{.output = RowOutput::scaled_blocks, .rounds_up = true},
    RowSpec{.output = RowOutput::scaled_blocks, .storage = ValueFormat::e5m2},
    RowSpec{.output = RowOutput::mx},
    RowSpec{.output = RowOutput::mx, .storage = ValueFormat::e5m2, .rounds_up = true}};
constexpr std::array few_outputs{RowSpec{.output = RowOutput::bf16}, RowSpec{.output = RowOutput::scaled_rows},
                                 RowSpec{.output = RowOutput::scaled_blocks}, RowSpec{.output = RowOutput::mx}};

template <RowSpec spec>
void add_permute(Functions& all) {
    add(all, launch::Permute{spec}, permute<spec>);
}

template <RowSpec spec>
void add_activate(Functions& all) {
    add(all, launch::Activate{spec}, activate<spec>);
}

template <CombineSpec spec>
void add_combine(Functions& all) {
    add(all, launch::Combine{spec}, combine<spec>);
}

template <CopyRowsSpec spec>
void add_copy(Functions& all) {
    add(all, launch::CopyRows{spec}, copy_rows<spec>);
}

constexpr RowSpec with_output(RowSpec spec, const RowSpec& output) {
    spec.output = output.output;
    spec.storage = output.storage;
    spec.rounds_up = output.rounds_up;
    return spec;
}

/// Calls add.operator()<spec>() for each output, with the other fields of `like`.
template <const auto& outputs, RowSpec like, class Add>
void for_each_output(Add add) {
    [&]<std::size_t... i>(std::index_sequence<i...>) {
        (add.template operator()<with_output(like, outputs[i])>(), ...);
    }
    (std::make_index_sequence<outputs.size()>());
}

template <const auto& outputs, RowSpec like>
void add_permutes(Functions& all) {
    for_each_output<outputs, like>([&]<RowSpec spec>() { add_permute<spec>(all); });
}

template <const auto& outputs, RowSpec like>
void add_activations(Functions& all) {
    for_each_output<outputs, like>([&]<RowSpec spec>() { add_activate<spec>(all); });
}

void add_permutes(Functions& all) {
    add_permutes<all_outputs, RowSpec{}>(all);
    add_permutes<all_outputs, RowSpec{.vectors = false}>(all);
    add_permutes<all_outputs, RowSpec{.source = Number::f32}>(all);
    add_permutes<few_outputs, RowSpec{.source = Number::f16}>(all);
    add_permutes<few_outputs, RowSpec{.source = Number::f32, .vectors = false}>(all);
    add_permutes<few_outputs, RowSpec{.has_factors = true}>(all);
    add_permutes<few_outputs, RowSpec{.source = Number::f16, .has_factors = true, .vectors = false}>(all);
    add_permutes<few_outputs, RowSpec{.routes = true}>(all);
    add_permutes<few_outputs, RowSpec{.source = Number::f16, .has_factors = true, .routes = true, .vectors = false}>(
        all);
    add_permute<RowSpec{.output = RowOutput::bf16, .from_ranks = true}>(all);
    add_permute<RowSpec{.output = RowOutput::bf16, .routes = true, .from_ranks = true}>(all);
    add_permute<RowSpec{.output = RowOutput::bf16, .routes = true, .from_ranks = true, .meets = true}>(all);
    add_permute<RowSpec{.output = RowOutput::bf16, .announces = true}>(all);
    add_permute<RowSpec{.output = RowOutput::scaled_blocks, .has_factors = true, .from_ranks = true}>(all);
}

void add_activations(Functions& all) {
    add_activations<all_outputs, RowSpec{.activates = true}>(all);
    add_activations<few_outputs, RowSpec{.activates = true, .vectors = false}>(all);
    add_activate<RowSpec{.activates = true, .output = RowOutput::f32, .vectors = false}>(all);
    add_activations<few_outputs, RowSpec{.activates = true, .interleaved = true}>(all);
    add_activations<few_outputs, RowSpec{.activates = true, .interleaved = true, .vectors = false}>(all);
    add_activations<few_outputs, RowSpec{.activates = true, .unit = Unit::situ}>(all);
    add_activations<few_outputs, RowSpec{.activates = true, .unit = Unit::geglu}>(all);
    add_activations<few_outputs, RowSpec{.activates = true, .unit = Unit::geglu, .interleaved = true}>(all);
    add_activations<few_outputs, RowSpec{.activates = true, .unit = Unit::relu_squared}>(all);
    add_activations<few_outputs, RowSpec{.activates = true, .unit = Unit::relu_squared, .vectors = false}>(all);
    // Training quantizes after them.
    add_activate<RowSpec{.activates = true, .unit = Unit::situ, .output = RowOutput::f32}>(all);
    add_activate<RowSpec{.activates = true, .unit = Unit::situ, .output = RowOutput::f32, .vectors = false}>(all);
    add_activate<RowSpec{.activates = true, .unit = Unit::situ, .interleaved = true, .output = RowOutput::f32}>(all);
    add_activate<RowSpec{.activates = true, .unit = Unit::geglu, .output = RowOutput::f32}>(all);
    add_activate<RowSpec{.activates = true, .unit = Unit::relu_squared, .output = RowOutput::f32}>(all);
}

}  // namespace

void add_kernels_of_layers(Functions& all) {
    add_permutes(all);
    add_activations(all);
    add_combine<CombineSpec{.out = Number::bf16}>(all);
    add_combine<CombineSpec{.out = Number::f16}>(all);
    add_combine<CombineSpec{.out = Number::f32}>(all);
    add_combine<CombineSpec{.out = Number::bf16, .vectors = false}>(all);
    add_combine<CombineSpec{.out = Number::f32, .vectors = false}>(all);
    add_copy<CopyRowsSpec{.routes = false}>(all);
    add_copy<CopyRowsSpec{.routes = true}>(all);
    add_copy<CopyRowsSpec{.routes = false, .from_ranks = true}>(all);
    add_copy<CopyRowsSpec{.routes = true, .from_ranks = true}>(all);
    add_copy<CopyRowsSpec{.announces = true}>(all);
    add_copy<CopyRowsSpec{.routes = true, .from_ranks = true, .meets = true}>(all);
    add_combine<CombineSpec{.from_ranks = true}>(all);
    add_combine<CombineSpec{.from_ranks = true, .meets = true}>(all);
    add_combine<CombineSpec{.meets = true}>(all);
    add_combine<CombineSpec{.out = Number::f32, .vectors = false, .from_ranks = true}>(all);
    add_combine<CombineSpec{.to_ranks = true}>(all);
    add_combine<CombineSpec{.out = Number::f32, .to_ranks = true}>(all);
    add_combine<CombineSpec{.rows = Number::f32}>(all);
    add_combine<CombineSpec{.rows = Number::f32, .meets = true}>(all);
    add_combine<CombineSpec{.rows = Number::f32, .vectors = false}>(all);
    add_combine<CombineSpec{.rows = Number::f32, .out = Number::f32}>(all);
    add_combine<CombineSpec{.rows = Number::f32, .out = Number::f32, .vectors = false}>(all);
    add(all, launch::Announce{}, announce<announce_threads>);
    add(all, launch::Meet{}, meet<meet_threads>);
    add(all, launch::Route{}, route<route_threads>);
    add(all, launch::UnitGradient{}, unit_gradient<unit_threads>);
    add(all, launch::WeightGradient{}, weight_gradient<unit_threads>);
    add(all, launch::MeetAndRoute{}, meet_and_route<route_threads>);
}

}  // namespace tilewright::tests
