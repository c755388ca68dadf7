// The epilogue's second phase, element by element: D = C + alpha * sum, rounded once. The files that store or stage D
// call these functions and compute nothing themselves.
#pragma once

#include "formats/codec.h"
#include "hopper/block/scale_view.h"
#include "hopper/epilogue/accumulators.h"
#include "hopper/schedule/work_tile.h"

namespace tilewright::hopper {

/// The NVFP4 tensor scales: that of one side, or the product of both.
template <Tile tile>
TILEWRIGHT_DEVICE float tensor_scales(const Arguments& arguments, const WorkTile& work) {
    const auto of_group = [&](const ScaleView& scales) { return scale_at(scales, work.group, 0, 0); };
    if constexpr (!is_nvfp4_a(tile)) return of_group(arguments.scales_b);
    if constexpr (!is_nvfp4_b(tile)) return of_group(arguments.scales_a);
    return of_group(arguments.scales_a) * of_group(arguments.scales_b);
}

/// The factor that NVFP4's values on both sides lack.
template <Tile tile>
TILEWRIGHT_DEVICE float nvfp4_factor() {
    constexpr float one = formats::nvfp4_tensor_factor();
    return is_nvfp4_a(tile) && is_nvfp4_b(tile) ? one * one : one;
}

/// The factor of a tile's sums. For a group without k, D is C, or zeros.
template <Tile tile>
TILEWRIGHT_DEVICE float alpha_of(const Arguments& arguments, const WorkTile& work) {
    if constexpr (scales_alpha(tile)) {
        const float scales = tensor_scales<tile>(arguments, work);
        return arguments.alpha * (formats::is_large_tensor_scale(scales) ? scales : scales * nvfp4_factor<tile>());
    }
    return is_k_grouped(tile) && k_of(work) == 0 ? 1 : arguments.alpha;
}

/// NVFP4's factor if the tensor scales are large: it multiplies the sums first, and `alpha_of` leaves it out.
/// Otherwise 1.
template <Tile tile>
TILEWRIGHT_DEVICE float before_alpha(const Arguments& arguments, const WorkTile& work) {
    if constexpr (!scales_alpha(tile)) return 1;
    const float scales = tensor_scales<tile>(arguments, work);
    return formats::is_large_tensor_scale(scales) ? nvfp4_factor<tile>() : 1;
}

/// An element of C or of the bias. k-grouped: C has one matrix per matrix of D, and a bias is not supported. Otherwise
/// C has one matrix per matrix of B; if groups share a matrix of D, its C has a batch stride of 0.
template <Tile tile>
TILEWRIGHT_DEVICE float load_addend(const Arguments& arguments, const WorkTile& work, int row, int column) {
    const OutputView& c = arguments.addend;
    const int matrix = is_k_grouped(tile) ? work.batch : work.group;
    const i64 from = matrix * c.batch_stride + row * c.row_stride + column * c.column_stride;
    if (arguments.addend_format == OutputFormat::f32) return load_global(static_cast<const float*>(c.data) + from);
    const u16 code = load_global(static_cast<const u16*>(c.data) + from);
    return arguments.addend_format == OutputFormat::bf16 ? from_bf16(code) : from_f16(code);
}

/// alpha * sum, plus C or the bias.
template <Tile tile>
TILEWRIGHT_DEVICE float number_of(const Arguments& arguments, const WorkTile& work, int row, int column, float sum) {
    const bool adds = arguments.addend.data != nullptr;
    const float alpha = alpha_of<tile>(arguments, work);
    if constexpr (scales_alpha(tile)) sum *= before_alpha<tile>(arguments, work);
    if constexpr (is_k_grouped(tile)) sum = k_of(work) == 0 && adds ? -0.0F : sum;  // C keeps the sign of its zeros
    return adds ? fma(alpha, sum, load_addend<tile>(arguments, work, row, column)) : alpha * sum;
}

/// Multiplies all accumulators by alpha, if D is staged without C.
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

/// The factor of a tile's sums. The sums of a group without k are 0, and -1 * 0 + C is C including the sign of its
/// zeros.
template <Tile tile>
TILEWRIGHT_DEVICE float f32_alpha_of(const Arguments& arguments, const WorkTile& work) {
    if (!is_k_grouped(tile) || k_of(work) != 0) return arguments.alpha;
    return arguments.addend.data == nullptr ? 1.0F : -1.0F;
}

/// Two adjacent elements of D of f32.
TILEWRIGHT_DEVICE Pair f32_pair(const float* sums, const Pair& addend, float alpha, bool adds) {
    return adds ? Pair{fma(alpha, sums[0], addend.x), fma(alpha, sums[1], addend.y)}
                : Pair{alpha * sums[0], alpha * sums[1]};
}

/// An element of D in 16 bits.
TILEWRIGHT_DEVICE u16 code_of(float number, OutputFormat format) {
    return format == OutputFormat::bf16 ? to_bf16(number) : to_f16(number);
}

/// Two adjacent elements of D in 16 bits each.
TILEWRIGHT_DEVICE u32 pack_16_bit(float low, float high, bool as_bf16) {
    return as_bf16 ? pack_bf16(low, high) : pack_f16(low, high);
}

/// Two accumulators as 16-bit elements.
TILEWRIGHT_DEVICE u32 pack_16_bit(const float* pair, bool as_bf16) {
    return as_bf16 ? pack_bf16(pair[0], pair[1]) : pack_f16(pair[0], pair[1]);
}

}  // namespace tilewright::hopper
