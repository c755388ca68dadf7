// Kernels as C++ source: the names by which they are compiled and found. No CUDA.
//
// Products are hopper::Kernel. The others are quantizers, writers of workspaces, weight packers, and the kernels around
// the products of a layer of experts. They take no tensor maps and leave no report. Their launches are here too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "hopper/description/kernel.h"
#include "hopper/moe/arguments.h"
#include "hopper/moe/spec.h"
#include "hopper/quantize/arguments.h"
#include "hopper/quantize/quantizer.h"

namespace tilewright::launch {

// The programs of which the kernels are instantiations; first that of products.
inline constexpr const char* kernel_source = "#include \"hopper/gemm.h\"\n#include \"hopper/ptx/ptx_sm90.h\"\n";
inline constexpr char quantize_source[] =
    "#include \"hopper/quantize/quantize.h\"\n#include \"hopper/prepare/transpose.h\"\n"
    "#include \"hopper/prepare/decode.h\"\n#include \"hopper/prepare/expand.h\"\n"
    "#include \"hopper/quantize/short_blocks.h\"\n#include \"hopper/quantize/finish_groups.h\"\n"
    "#include \"hopper/ptx/ptx_numbers_sm90.h\"\n";
inline constexpr char pack_source[] =
    "#include \"hopper/pack/pack_rest.h\"\n#include \"hopper/pack/pack_scales.h\"\n#include "
    "\"hopper/ptx/ptx_numbers_sm90.h\"\n";
inline constexpr char moe_source[] =
    "#include \"hopper/moe/permute.h\"\n#include \"hopper/moe/copy_rows.h\"\n#include \"hopper/moe/activate.h\"\n"
    "#include \"hopper/moe/combine.h\"\n#include \"hopper/moe/unit_gradient.h\"\n"
    "#include \"hopper/moe/weight_gradient.h\"\n#include \"hopper/moe/exchange.h\"\n#include "
    "\"hopper/ptx/ptx_numbers_sm90.h\"\n";

/// A function's name as a template parameter.
template <std::size_t size>
struct FunctionName {
    constexpr FunctionName(const char (&name)[size]) { std::copy(name, name + size, text); }
    char text[size] = {};
};

/// The parameter of functions that take only the threads of a block.
template <int count>
struct Threads {
    bool operator==(const Threads&) const = default;
};

/// A function of a program with its template parameter. The function takes `Arguments`.
template <const char* program, FunctionName name, class Spec, class ArgumentsOfFunction>
struct KernelOf {
    static constexpr const char* source = program;
    static constexpr const char* function = name.text;
    using Arguments = ArgumentsOfFunction;

    Spec spec{};

    bool operator==(const KernelOf&) const = default;
};

// Each kernel: its function, the type of its template parameter, and the type of its arguments.
template <FunctionName name, class Spec, class Arguments>
using QuantizeKernel = KernelOf<quantize_source, name, Spec, Arguments>;
using ClearScales = QuantizeKernel<"clear_scales", hopper::CopySpec, hopper::MeasuredScales>;
using Measure = QuantizeKernel<"measure", hopper::Quantizer, hopper::QuantizeArguments>;
using FinishScales = QuantizeKernel<"finish_scales", hopper::CopySpec, hopper::MeasuredScales>;
using Quantize = QuantizeKernel<"quantize", hopper::Quantizer, hopper::QuantizeArguments>;
using TransposeCodes = QuantizeKernel<"transpose_codes", hopper::TransposeSpec, hopper::TransposeArguments>;
using DecodeCodes = QuantizeKernel<"decode_codes", hopper::DecodeSpec, hopper::DecodeArguments>;
using ExpandWeights = QuantizeKernel<"expand_weights", hopper::Expansion, hopper::ExpandArguments>;
using QuantizeBlocks = QuantizeKernel<"quantize_blocks", hopper::BlockSpec, hopper::BlockArguments>;
using FinishTensorScales = QuantizeKernel<"finish_tensor_scales", hopper::BlockSpec, hopper::MeasuredScales>;
using FinishGroups = QuantizeKernel<"finish_groups", Threads<hopper::quantize_threads>, hopper::GroupArguments>;

template <FunctionName name>
using PackKernel = KernelOf<pack_source, name, hopper::PackSpec, hopper::PackArguments>;
using PackTiles = PackKernel<"pack_tiles">;
using PackHeads = PackKernel<"pack_heads">;
using PackRest = PackKernel<"pack_rest">;
using PackScales = PackKernel<"pack_scales">;

template <FunctionName name, class Spec, class Arguments>
using MoeKernel = KernelOf<moe_source, name, Spec, Arguments>;
using Route = MoeKernel<"route", Threads<hopper::route_threads>, hopper::RouteArguments>;
using Permute = MoeKernel<"permute", hopper::RowSpec, hopper::PermuteArguments>;
using CopyRows = MoeKernel<"copy_rows", hopper::CopyRowsSpec, hopper::CopyRowsArguments>;
using Activate = MoeKernel<"activate", hopper::RowSpec, hopper::ActivateArguments>;
using Combine = MoeKernel<"combine", hopper::CombineSpec, hopper::CombineArguments>;
using UnitGradient = MoeKernel<"unit_gradient", Threads<hopper::unit_threads>, hopper::UnitGradientArguments>;
using WeightGradient = MoeKernel<"weight_gradient", Threads<hopper::unit_threads>, hopper::WeightGradientArguments>;
using Announce = MoeKernel<"announce", Threads<hopper::announce_threads>, hopper::AnnounceArguments>;
using Meet = MoeKernel<"meet", Threads<hopper::meet_threads>, hopper::MeetArguments>;
using MeetAndRoute = MoeKernel<"meet_and_route", Threads<hopper::route_threads>, hopper::MeetAndRouteArguments>;

/// A kernel with its arguments.
template <class Kernel>
struct CallOf {
    Kernel kernel{};
    typename Kernel::Arguments arguments{};
};

template <class... Kernels>
struct AnyOf {
    using Kernel = std::variant<Kernels...>;
    using Call = std::variant<CallOf<Kernels>...>;
};
using AnyOther =
    AnyOf<ClearScales, Measure, FinishScales, Quantize, TransposeCodes, DecodeCodes, ExpandWeights, QuantizeBlocks,
          FinishTensorScales, FinishGroups, PackTiles, PackHeads, PackRest, PackScales, Route, Permute, CopyRows,
          Activate, Combine, UnitGradient, WeightGradient, Announce, Meet, MeetAndRoute>;

using OtherKernel = AnyOther::Kernel;

struct OtherLaunch {
    AnyOther::Call call{};
    int blocks = 0;
    int threads = 0;
    int cluster = 1;
    int shared_bytes = 0;

    OtherKernel kernel() const {
        return std::visit([](const auto& each) -> OtherKernel { return each.kernel; }, call);
    }
    /// Throws std::bad_variant_access if the launch is of another function.
    template <class Kernel>
    const CallOf<Kernel>& of() const {
        return std::get<CallOf<Kernel>>(call);
    }
};

/// Whether the kernel waits for earlier kernels of its stream by itself, so that its launch may overlap them.
template <class Kernel>
inline constexpr bool waits_for_earlier = Kernel::source == moe_source && !std::is_same_v<Kernel, WeightGradient>;

/// "tilewright::hopper::gemm<tilewright::hopper::Kernel{.shape = {.m = 128, ...}, ...}>", with every field.
std::string kernel_expression(const hopper::Kernel& tile);
/// For people: "256x128x128 stages=4, e4m3 with 1x128 in the loop x e4m3 with 128x128 in the loop, D of bf16 by TMA".
std::string describe(const hopper::Kernel& tile);

/// "tilewright::hopper::quantize<tilewright::hopper::Quantizer{...}>"
std::string kernel_expression(const OtherKernel& kernel);
/// The program of which the expression is an instantiation.
std::string source_of(const OtherKernel& kernel);
/// The most shared memory of any launch of the kernel.
int most_shared_bytes(const OtherKernel& kernel);
/// The kernels of the pack, so that common calls do not wait for a compiler. They serve bf16 with aligned rows, and
/// MXFP4 weights for fp8.
std::vector<OtherKernel> shipped_other_kernels();

/// With the most shared memory of the kernel's launches.
template <class Kernel>
OtherLaunch launch_of(const Kernel& kernel, const typename Kernel::Arguments& arguments, int blocks,
                      int threads = hopper::quantize_threads) {
    return {.call = CallOf<Kernel>{kernel, arguments},
            .blocks = blocks,
            .threads = threads,
            .shared_bytes = most_shared_bytes(kernel)};
}

/// The launches that have anything to write.
inline std::vector<OtherLaunch> without_empty(std::vector<OtherLaunch> launches) {
    std::erase_if(launches, [](const OtherLaunch& launch) { return launch.blocks == 0; });
    return launches;
}

}  // namespace tilewright::launch
