// The epilogue's second phase, number by number: D = C + alpha * sum, rounded once. The files that store D, or stage
// it, call this and compute nothing themselves.
#pragma once

#include "formats/codec.h"
#include "hopper/block/scale_view.h"
#include "hopper/epilogue/accumulators.h"
#include "hopper/schedule/work_tile.h"

namespace tilewright::hopper {

/// The scales of NVFP4's tensors: of either side, or their product.
template <Tile tile>
TILEWRIGHT_DEVICE float tensor_scales(const Arguments& arguments, const WorkTile& work) {
    const auto of_group = [&](const ScaleView& scales) { return scale_at(scales, work.group, 0, 0); };
    if constexpr (!is_nvfp4_a(tile)) return of_group(arguments.scales_b);
    if constexpr (!is_nvfp4_b(tile)) return of_group(arguments.scales_a);
    return of_group(arguments.scales_a) * of_group(arguments.scales_b);
}

/// What NVFP4's values are too small by, on both sides.
template <Tile tile>
TILEWRIGHT_DEVICE float nvfp4_factor() {
    constexpr float one = formats::nvfp4_tensor_factor();
    return is_nvfp4_a(tile) && is_nvfp4_b(tile) ? one * one : one;
}

/// What multiplies a tile's sums. Those of a group without k nothing does: D is C, or zeros.
template <Tile tile>
TILEWRIGHT_DEVICE float alpha_of(const Arguments& arguments, const WorkTile& work) {
    if constexpr (scales_alpha(tile)) {
        const float scales = tensor_scales<tile>(arguments, work);
        return arguments.alpha * (formats::is_large_tensor_scale(scales) ? scales : scales * nvfp4_factor<tile>());
    }
    return is_k_grouped(tile) && k_of(work) == 0 ? 1 : arguments.alpha;
}

/// What multiplies them before, which `alpha_of` leaves out of a large one.
template <Tile tile>
TILEWRIGHT_DEVICE float before_alpha(const Arguments& arguments, const WorkTile& work) {
    if constexpr (!scales_alpha(tile)) return 1;
    const float scales = tensor_scales<tile>(arguments, work);
    return formats::is_large_tensor_scale(scales) ? nvfp4_factor<tile>() : 1;
}

/// An element of C or of the bias. Without groups of k, whose matrices of C are those of D, and which have no bias,
/// they are those of B: C of a matrix of D that groups share has a batch stride of 0.
template <Tile tile>
TILEWRIGHT_DEVICE float load_addend(const Arguments& arguments, const WorkTile& work, int row, int column) {
    const OutputView& c = arguments.addend;
    const int matrix = is_k_grouped(tile) ? work.batch : work.group;
    const i64 from = matrix * c.batch_stride + row * c.row_stride + column * c.column_stride;
    if (arguments.addend_format == OutputFormat::f32) return load_global(static_cast<const float*>(c.data) + from);
    const u16 code = load_global(static_cast<const u16*>(c.data) + from);
    return arguments.addend_format == OutputFormat::bf16 ? from_bf16(code) : from_f16(code);
}

/// alpha * sum, and what is added to it.
template <Tile tile>
TILEWRIGHT_DEVICE float number_of(const Arguments& arguments, const WorkTile& work, int row, int column, float sum) {
    const bool adds = arguments.addend.data != nullptr;
    const float alpha = alpha_of<tile>(arguments, work);
    if constexpr (scales_alpha(tile)) sum *= before_alpha<tile>(arguments, work);
    if constexpr (is_k_grouped(tile)) sum = k_of(work) == 0 && adds ? -0.0F : sum;  // C keeps the sign of its zeros
    return adds ? fma(alpha, sum, load_addend<tile>(arguments, work, row, column)) : alpha * sum;
}

/// alpha times all accumulators, where D is staged without C.
template <Tile tile>
TILEWRIGHT_DEVICE void multiply_by_alpha(Accumulators<tile>& accumulators, const Arguments& arguments,
                                         const WorkTile& work) {
    const auto multiply = [&](float factor) {
#pragma unroll
        for (int subtile = 0; subtile < subtiles<tile>; ++subtile) {
#pragma unroll
            for (int i = 0; i < subtile_registers<tile>; ++i) accumulators[subtile][i] *= factor;
        }
    };
    const float before = before_alpha<tile>(arguments, work), alpha = alpha_of<tile>(arguments, work);
    if (scales_alpha(tile) && before != 1) multiply(before);
    if (alpha != 1) multiply(scales_alpha(tile) ? alpha : arguments.alpha);
}

/// What multiplies the sums of a tile. Those of a group without k are 0, and -1 * 0 + C is C to the sign of its zeros.
template <Tile tile>
TILEWRIGHT_DEVICE float f32_alpha_of(const Arguments& arguments, const WorkTile& work) {
    if (!is_k_grouped(tile) || k_of(work) != 0) return arguments.alpha;
    return arguments.addend.data == nullptr ? 1.0F : -1.0F;
}

/// Two neighbours of D of f32.
TILEWRIGHT_DEVICE Pair f32_pair(const float* sums, const Pair& addend, float alpha, bool adds) {
    return adds ? Pair{fma(alpha, sums[0], addend.x), fma(alpha, sums[1], addend.y)}
                : Pair{alpha * sums[0], alpha * sums[1]};
}

/// A 16-bit code of D.
TILEWRIGHT_DEVICE u16 code_of(float number, OutputFormat format) {
    return format == OutputFormat::bf16 ? to_bf16(number) : to_f16(number);
}

/// Those of two numbers that are neighbours in D.
TILEWRIGHT_DEVICE u32 pack_16_bit(float low, float high, bool as_bf16) {
    return as_bf16 ? pack_bf16(low, high) : pack_f16(low, high);
}

/// The same for two accumulators.
TILEWRIGHT_DEVICE u32 pack_16_bit(const float* pair, bool as_bf16) {
    return as_bf16 ? pack_bf16(pair[0], pair[1]) : pack_f16(pair[0], pair[1]);
}

}  // namespace tilewright::hopper
