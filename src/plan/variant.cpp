#include "plan/variant.h"

#include <tilewright/plan.h>

#include <array>

#include "hopper/tile/operands.h"
#include "hopper/tile/stage_layout.h"
#include "plan/pack.h"
#include "plan/tma.h"
#include "plan/workload.h"

namespace tilewright::planner {
namespace {

/// The conditions of the fast variant, whatever the order of its scales.
bool is_common(const Geometry& g, const hopper::Tile& tile) {
    const bool writes = stores_f32(tile) ? g.output == Format::f32 : g.output == Format::bf16 && g.alpha == 1;
    return g.k > 0 && writes && stores_by_tma(g, tile);
}

/// Whether the kernel can do without TMA for scales: there are none in the main loop, or it has ordinary loads too.
bool needs_no_tma_for_scales(const hopper::Tile& tile) { return !has_row_scales(tile) || fast_loads_row_scales(tile); }

/// Whether all 1x128 scales are f32: kernels of K-major scales copy what TMA cannot load, in any strides.
bool copies_row_scales(const Geometry& g, const hopper::Tile& tile) {
    const auto copied = [](const hopper::OperandSpec& spec, const OperandGeometry& operand) {
        return spec.scaling != hopper::Scaling::block_1x128 || operand.recipe.scales == Format::f32;
    };
    return hopper::copies_row_scales(tile) && copied(tile.a, g.a) && copied(tile.b, g.b);
}

hopper::Tile with_variant(hopper::Tile tile, hopper::Variant variant) {
    tile.variant = variant;
    return tile;
}

hopper::Tile without_cluster(hopper::Tile tile) {
    tile.cluster = {};
    return tile;
}

}  // namespace

bool serves(const Geometry& g, const hopper::Tile& tile) {
    if (g.b.packed.given && has_windows(tile) != (g.b.packed.windows != 0)) return false;
    if (g.b.packed.given && has_raw_codes(tile) != g.b.packed.raw) return false;
    if (g.b.packed.given && has_wide_rows(tile) != (g.b.packed.wide_row >= 0)) return false;
    if (!is_fast(tile)) return true;
    if (!is_consistent(tile) || !is_common(g, tile)) return false;
    if (needs_no_tma_for_scales(tile)) return true;
    // K-major scales may be loaded for four k-blocks at a time, and then need four times the shared memory.
    if (shared_bytes(tile) > hopper::shared_bytes_limit) return false;
    return loads_scales_by_tma(g, tile) || copies_row_scales(g, tile);
}

hopper::Tile variant(const Geometry& g, const hopper::Tile& wanted) {
    hopper::Tile tile = wanted;
    if (has_packed_weights(tile) && !multiplies_bf16(tile)) {
        const bool windows = g.b.packed.windows != 0;
        tile.b.storage = g.b.packed.raw ? hopper::Storage::raw_e2m1
                         : windows      ? hopper::Storage::windowed_e2m1
                                        : hopper::Storage::packed_e2m1;
    } else if (has_packed_weights(tile) && tile.b.storage != hopper::Storage::packed_nvfp4_bf16) {
        const bool wide = g.b.packed.wide_row >= 0;
        tile.b.storage = wide ? hopper::Storage::wide_mxfp4_bf16 : hopper::Storage::packed_mxfp4_bf16;
    }
    if (has_f32_kernel(tile) && serves(g, f32_kernel(tile))) return f32_kernel(tile);
    const hopper::Tile fast = with_variant(tile, hopper::Variant::fast);
    const hopper::Tile k_major = with_variant(tile, hopper::Variant::fast_k_major_scales);
    // Copies arrive sooner than the loads through registers of the fast kernels of swapped and split-k tiles.
    const bool by_tma = !has_row_scales(tile) || loads_scales_by_tma(g, fast);
    if (serves(g, fast) && (by_tma || !serves(g, k_major))) return fast;
    if (serves(g, k_major)) return k_major;
    return with_variant(shares_operand(tile) ? without_cluster(tile) : tile, hopper::Variant::general);
}

std::string_view name(KernelVariant variant) {
    constexpr std::array names{"general", "fast", "fast, k-major scales", "fast, f32"};
    return names[static_cast<std::size_t>(variant)];
}

KernelVariant variant_of(const hopper::Tile& tile) { return static_cast<KernelVariant>(tile.variant); }

static_assert(static_cast<int>(KernelVariant::general) == static_cast<int>(hopper::Variant::general));
static_assert(static_cast<int>(KernelVariant::fast) == static_cast<int>(hopper::Variant::fast));
static_assert(static_cast<int>(KernelVariant::fast_k_major_scales) ==
              static_cast<int>(hopper::Variant::fast_k_major_scales));
static_assert(static_cast<int>(KernelVariant::fast_f32) == static_cast<int>(hopper::Variant::fast_f32));

}  // namespace tilewright::planner

namespace tilewright {

ScalesToCopy scales_to_copy(const Problem& problem) {
    using namespace planner;
    const Geometry g = geometry(problem);
    const Granularity row_scales = Granularity::block_1x128;
    const bool of_both = g.a.recipe.granularity == row_scales && g.b.recipe.granularity == row_scales;
    if (!of_both || g.a.recipe.scales != Format::f32 || g.b.recipe.scales != Format::f32 || g.k == 0) return {};
    const hopper::Tile tile = family_tile(describe(problem, g));
    const bool k_major = is_common(g, tile) && loads_k_major_scales(g.a, sizes_of_a(g));
    if (!k_major && !tiles_begin_aligned(g, tile)) return {};  // ordinary loads, whatever is copied
    return {.a = !k_major && !loads_m_major_scales(g.a, sizes_of_a(g)), .b = !loads_m_major_scales(g.b, sizes_of_b(g))};
}

}  // namespace tilewright
