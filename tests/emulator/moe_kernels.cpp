#include "emulator/moe_kernels.h"

#include "emulator/emulator.h"
#include "hopper/moe/activate.h"
#include "hopper/moe/combine.h"
#include "hopper/moe/copy_rows.h"
#include "hopper/moe/exchange.h"
#include "hopper/moe/permute.h"
#include "hopper/moe/weight_gradient.h"

#include "emulator/primitives.h"

#include <array>
#include <map>
#include <string>
#include <utility>

namespace tilewright::tests {
namespace {

using namespace hopper;
using launch::MoeFunction;
using launch::MoeKernel;
using launch::MoeLaunch;
using Function = void (*)(const MoeLaunch&);
using Kernels = std::map<std::string, Function>;

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
void add_permute(Kernels& kernels) {
    kernels[kernel_expression(MoeKernel{.function = MoeFunction::permute, .rows = spec})] =
        [](const MoeLaunch& launch) { permute<spec>(std::get<PermuteArguments>(launch.arguments)); };
}

template <RowSpec spec>
void add_activate(Kernels& kernels) {
    kernels[kernel_expression(MoeKernel{.function = MoeFunction::activate, .rows = spec})] =
        [](const MoeLaunch& launch) { activate<spec>(std::get<ActivateArguments>(launch.arguments)); };
}

template <CombineSpec spec>
void add_combine(Kernels& kernels) {
    kernels[kernel_expression(MoeKernel{.function = MoeFunction::combine, .sums = spec})] =
        [](const MoeLaunch& launch) { combine<spec>(std::get<CombineArguments>(launch.arguments)); };
}

template <CopyRowsSpec spec>
void add_copy(Kernels& kernels) {
    kernels[kernel_expression(MoeKernel{.function = MoeFunction::copy_rows, .copies = spec})] =
        [](const MoeLaunch& launch) { copy_rows<spec>(std::get<CopyRowsArguments>(launch.arguments)); };
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
void add_permutes(Kernels& kernels) {
    for_each_output<outputs, like>([&]<RowSpec spec>() { add_permute<spec>(kernels); });
}

template <const auto& outputs, RowSpec like>
void add_activations(Kernels& kernels) {
    for_each_output<outputs, like>([&]<RowSpec spec>() { add_activate<spec>(kernels); });
}

void add_permutes(Kernels& all) {
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

void add_activations(Kernels& all) {
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
}

const Kernels& moe_kernels() {
    static const Kernels all = [] {
        Kernels kernels;
        add_permutes(kernels);
        add_activations(kernels);
        add_combine<CombineSpec{.out = Number::bf16}>(kernels);
        add_combine<CombineSpec{.out = Number::f16}>(kernels);
        add_combine<CombineSpec{.out = Number::f32}>(kernels);
        add_combine<CombineSpec{.out = Number::bf16, .vectors = false}>(kernels);
        add_combine<CombineSpec{.out = Number::f32, .vectors = false}>(kernels);
        add_copy<CopyRowsSpec{.routes = false}>(kernels);
        add_copy<CopyRowsSpec{.routes = true}>(kernels);
        add_copy<CopyRowsSpec{.routes = false, .from_ranks = true}>(kernels);
        add_copy<CopyRowsSpec{.routes = true, .from_ranks = true}>(kernels);
        add_copy<CopyRowsSpec{.announces = true}>(kernels);
        add_copy<CopyRowsSpec{.routes = true, .from_ranks = true, .meets = true}>(kernels);
        add_combine<CombineSpec{.from_ranks = true}>(kernels);
        add_combine<CombineSpec{.from_ranks = true, .meets = true}>(kernels);
        add_combine<CombineSpec{.meets = true}>(kernels);
        add_combine<CombineSpec{.out = Number::f32, .vectors = false, .from_ranks = true}>(kernels);
        add_combine<CombineSpec{.to_ranks = true}>(kernels);
        kernels[kernel_expression(MoeKernel{.function = MoeFunction::announce})] = [](const MoeLaunch& launch) {
            announce<announce_threads>(std::get<AnnounceArguments>(launch.arguments));
        };
        kernels[kernel_expression(MoeKernel{.function = MoeFunction::meet})] = [](const MoeLaunch& launch) {
            meet<meet_threads>(std::get<MeetArguments>(launch.arguments));
        };
        kernels[kernel_expression(MoeKernel{.function = MoeFunction::route})] = [](const MoeLaunch& launch) {
            route<route_threads>(std::get<RouteArguments>(launch.arguments));
        };
        kernels[kernel_expression(MoeKernel{.function = MoeFunction::weight_gradient})] = [](const MoeLaunch& launch) {
            weight_gradient<dot_threads>(std::get<WeightGradientArguments>(launch.arguments));
        };
        kernels[kernel_expression(MoeKernel{.function = MoeFunction::meet_and_route})] = [](const MoeLaunch& launch) {
            meet_and_route<route_threads>(std::get<MeetAndRouteArguments>(launch.arguments));
        };
        return kernels;
    }();
    return all;
}

}  // namespace

void run_on_emulator(const std::vector<MoeLaunch>& launches, std::uint64_t seed) {
    for (const MoeLaunch& launch : launches) {
        const auto found = moe_kernels().find(kernel_expression(launch.kernel));
        if (found == moe_kernels().end()) {
            throw emulator::Error("moe_kernels.cpp lacks " + kernel_expression(launch.kernel));
        }
        emulator::launch({.blocks = launch.blocks,
                          .cluster = launch.cluster,
                          .threads = launch.threads,
                          .shared_bytes = launch.shared_bytes,
                          .seed = seed},
                         [&] { found->second(launch); });
    }
}

}  // namespace tilewright::tests
