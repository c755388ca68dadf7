#include "plan/variant.h"

#include <tilewright/plan.h>

#include <stdexcept>

#include "plan/kernel_class.h"
#include "plan/planned_tile.h"
#include "plan/shipped_kernels.h"
#include "plan/tma.h"
#include "plan/workload.h"

namespace tilewright::planner {
namespace {

/// The conditions of kernels for one output, whatever the order of scales.
bool is_common(const Geometry& g, const hopper::Design& tile) {
    const bool f32 = tile.output == hopper::Output::f32_by_tma;
    const bool writes = f32 ? g.output == Format::f32 : g.output == Format::bf16 && g.alpha == 1;
    return g.k > 0 && writes && stores_by_tma(g, tile);
}

/// Whether all 1x128 scales are f32: kernels that copy scales copy what TMA cannot load, in any strides.
bool copies_row_scales(const Geometry& g, const hopper::Design& tile) {
    const auto copied = [&](const hopper::Side& side, ScaleUse use, const OperandGeometry& operand) {
        return !has_1x128_scales(side, use) || operand.recipe.scales == Format::f32;
    };
    return tile.scale_route.copies && copied(tile.a, tile.order.a, g.a) && copied(tile.b, tile.order.b, g.b);
}

hopper::Kernel with_output(hopper::Kernel kernel, hopper::Output output, bool scales_along_k = false) {
    kernel.output = output;
    kernel.scales_along_k = scales_along_k;
    return kernel;
}

hopper::Kernel for_weights(hopper::Kernel kernel, hopper::Form form, bool wide_rows) {
    kernel.b.form = form;
    kernel.wide_rows = wide_rows;
    return kernel;
}

/// The kernel for the packed weights of this call.
hopper::Kernel for_weights_of(const Geometry& g, const hopper::Kernel& kernel) {
    const PackedGeometry& packed = g.b.packed;
    if (!kernel.b.is_packed()) return kernel;
    if (packed.raw) return for_weights(kernel, hopper::Form::rows_and_tiles, true);
    return for_weights(kernel, hopper::Form::tiles, packed.windows != 0 || packed.wide_row >= 0);
}

KernelPlan with_tma(const Geometry& product, const hopper::Design& kernel) {
    return {.tile = kernel,
            .stores_by_tma = stores_by_tma(product, kernel),
            .scales_by_tma = loads_scales_by_tma(product, kernel)};
}

}  // namespace

std::vector<hopper::Kernel> wide_kernels(const hopper::Kernel& tile) {
    if (!tile.b.is_packed() || tile.order.folded != Folded::b) return {};
    const hopper::Kernel packed = for_weights(tile, hopper::Form::tiles, true);
    const hopper::Kernel in_place = for_weights(tile, hopper::Form::rows_and_tiles, true);
    return contradiction(in_place) == nullptr ? std::vector{packed, in_place} : std::vector{packed};
}

bool can_run(const Geometry& g, const hopper::Kernel& kernel) { return can_run(g, hopper::Design(kernel)); }

bool can_run(const Geometry& g, const hopper::Design& tile) {
    if (g.b.packed.given && (tile.b.form == hopper::Form::rows_and_tiles) != g.b.packed.raw) return false;
    const bool wide = g.b.packed.windows != 0 || g.b.packed.wide_row >= 0;  // fp8, bf16
    if (g.b.packed.given && tile.wide_rows != wide) return false;
    if (tile.output == hopper::Output::any) return true;
    if (contradiction(tile) != nullptr || !is_common(g, tile)) return false;
    if (!tile.order.has(ScaleUse::chains) || tile.scale_route.loads) return true;
    // K-major scales may be loaded for four k-blocks at a time, and then need four times the shared memory.
    if (tile.shared_bytes > hopper::shared_bytes_limit) return false;
    return loads_scales_by_tma(g, tile) || copies_row_scales(g, tile);
}

hopper::Design variant(const Geometry& g, const hopper::Kernel& wanted) {
    const hopper::Kernel kernel = for_weights_of(g, wanted);
    if (g.output == Format::f32 && has_f32_kernel(kernel)) {
        if (const hopper::Design f32 = hopper::Design(f32_kernel(kernel)); can_run(g, f32)) return f32;
    } else if (g.output == Format::bf16) {
        const hopper::Design usual = hopper::Design(with_output(kernel, hopper::Output::bf16_by_tma));
        const bool runs = can_run(g, usual);
        if (runs && (!usual.order.has(ScaleUse::chains) || loads_scales_by_tma(g, usual))) return usual;
        // Copies arrive sooner than the loads through registers of the kernels of swapped and split-k tiles.
        const hopper::Design along_k = hopper::Design(with_output(kernel, hopper::Output::bf16_by_tma, true));
        if (can_run(g, along_k)) return along_k;
        if (runs) return usual;
    }
    return hopper::Design(general_kernel(kernel));
}

hopper::Kernel tile_of(const TileChoice& choice, const Geometry& g) {
    return variant(g, choice.usual).output == hopper::Output::any ? choice.general : choice.usual;
}

KernelPlan kernel_plan(const Geometry& product, const hopper::Kernel& tile) {
    return with_tma(product, variant(product, tile));
}

KernelPlan kernel_plan(const Geometry& product, const TileChoice& choice) {
    const hopper::Design usual = variant(product, choice.usual);
    return with_tma(product, usual.output == hopper::Output::any ? variant(product, choice.general) : usual);
}

KernelPlan given_kernel(const Geometry& product, const hopper::Kernel& kernel) {
    const hopper::Design design = hopper::Design(kernel);
    if (!can_run(product, design))
        throw std::logic_error("another variant of " + name(planned_tile(kernel)) + " serves");
    return with_tma(product, design);
}

std::string_view variant_name(const hopper::Kernel& kernel) {
    switch (kernel.output) {
        case hopper::Output::any: return "general";
        case hopper::Output::f32_by_tma: return "fast, f32";
        case hopper::Output::bf16_by_tma: break;
    }
    return kernel.scales_along_k ? "fast, k-major scales" : "fast";
}

}  // namespace tilewright::planner

namespace tilewright {

ScalesToCopy scales_to_copy(const Problem& problem) {
    using namespace planner;
    const GpuCall call = gpu_call(problem);
    const Geometry& g = call.geometry;
    const Granularity row_scales = Granularity::block_1x128;
    const bool of_both = g.a.recipe.granularity == row_scales && g.b.recipe.granularity == row_scales;
    if (!of_both || g.a.recipe.scales != Format::f32 || g.b.recipe.scales != Format::f32 || g.k == 0) return {};
    const hopper::Design tile = hopper::Design(shapeless_kernel(workload(problem, call)));
    const bool k_major = is_common(g, tile) && loads_k_major_scales(g.a, sizes_of_a(g));
    if (!k_major && !tiles_begin_aligned(g, tile)) return {};  // ordinary loads, whatever is copied
    return {.a = !k_major && !loads_m_major_scales(g.a, sizes_of_a(g)), .b = !loads_m_major_scales(g.b, sizes_of_b(g))};
}

}  // namespace tilewright
