// The epilogue's second phase, element by element: D = C + alpha * sum, rounded once. The files that store or stage D
// call these functions and compute nothing themselves.
#pragma once

#include "formats/codec.h"
#include "hopper/block/ring.h"
#include "hopper/block/scale_view.h"
#include "hopper/schedule/work_tile.h"

namespace tilewright::hopper {

/// The NVFP4 tensor scales: that of one side, or the product of both.
template <Design design>
TILEWRIGHT_DEVICE float tensor_scales(const Arguments& arguments, const WorkTileOf<design>& work) {
    const auto of_group = [&](const ScaleView& scales) { return scale_at(scales, work.scales_of_b(), 0, 0); };
    if constexpr (!design.a.is_nvfp4()) return of_group(arguments.scales_b);
    if constexpr (!design.b.is_nvfp4()) return of_group(arguments.scales_a);
    return of_group(arguments.scales_a) * of_group(arguments.scales_b);
}

/// The factor that NVFP4's values lack; 1 without NVFP4.
template <Design design>
constexpr float nvfp4_factor() {
    constexpr float of_side = formats::nvfp4_tensor_factor();
    return (design.a.is_nvfp4() ? of_side : 1) * (design.b.is_nvfp4() ? of_side : 1);
}

/// The scales of NVFP4 tensors are a part of alpha, unless they are epilogue scales.
template <Design design>
constexpr bool scales_alpha() {
    return nvfp4_factor<design>() != 1 && !design.has_epilogue_scales;
}

/// The factor of a tile's sums. For a group without k, D is C, or zeros.
template <Design design>
TILEWRIGHT_DEVICE float alpha_of(const Arguments& arguments, const WorkTileOf<design>& work) {
    if constexpr (scales_alpha<design>()) {
        const float scales = tensor_scales<design>(arguments, work);
        return arguments.alpha * (formats::is_large_tensor_scale(scales) ? scales : scales * nvfp4_factor<design>());
    }
    return work.lacks_k() ? 1 : arguments.alpha;
}

/// NVFP4's factor if the tensor scales are large: it multiplies the sums first, and `alpha_of` leaves it out.
/// Otherwise 1.
template <Design design>
TILEWRIGHT_DEVICE float before_alpha(const Arguments& arguments, const WorkTileOf<design>& work) {
    if constexpr (!scales_alpha<design>()) return 1;
    const float scales = tensor_scales<design>(arguments, work);
    return formats::is_large_tensor_scale(scales) ? nvfp4_factor<design>() : 1;
}

/// An element of C or of the bias. k-grouped: C has one matrix per matrix of D, and a bias is not supported. Otherwise
/// C has one matrix per matrix of B; if groups share a matrix of D, its C has a batch stride of 0.
template <Design design>
TILEWRIGHT_DEVICE float load_addend(const Arguments& arguments, const WorkTileOf<design>& work, int row, int column) {
    const OutputView& c = arguments.addend;
    const int matrix = work.scales_of_b();
    const i64 from = matrix * c.batch_stride + row * c.row_stride + column * c.column_stride;
    if (arguments.addend_format == OutputFormat::f32) return load_global(static_cast<const float*>(c.data) + from);
    const u16 code = load_global(static_cast<const u16*>(c.data) + from);
    return arguments.addend_format == OutputFormat::bf16 ? from_bf16(code) : from_f16(code);
}

/// alpha * sum, plus C or the bias.
template <Design design>
TILEWRIGHT_DEVICE float number_of(const Arguments& arguments, const WorkTileOf<design>& work, int row, int column,
                                  float sum) {
    const bool adds = arguments.addend.data != nullptr;
    const float alpha = alpha_of<design>(arguments, work);
    if constexpr (scales_alpha<design>()) sum *= before_alpha<design>(arguments, work);
    if constexpr (design.is_k_grouped()) sum = work.lacks_k() && adds ? -0.0F : sum;  // C keeps the sign of its zeros
    return adds ? fma(alpha, sum, load_addend<design>(arguments, work, row, column)) : alpha * sum;
}

/// Multiplies all accumulators by alpha, if D is staged without C.
template <Design design>
TILEWRIGHT_DEVICE void multiply_by_alpha(Accumulators<design>& accumulators, const Arguments& arguments,
                                         const WorkTileOf<design>& work) {
    const auto multiply = [&](float factor) {
#pragma unroll
        for (int subtile = 0; subtile < design.subtiles; ++subtile) {
#pragma unroll
            for (int i = 0; i < (design.wgmma_n / 2); ++i) accumulators[subtile][i] *= factor;
        }
    };
    const float before = before_alpha<design>(arguments, work), alpha = alpha_of<design>(arguments, work);
    if (scales_alpha<design>() && before != 1) multiply(before);
    if (alpha != 1) multiply(scales_alpha<design>() ? alpha : arguments.alpha);
}

/// alpha times the sums, plus the bias, if D is staged: the numbers of `number_of`.
template <Design design>
TILEWRIGHT_DEVICE void add_bias(const Consumer<design>& c, Accumulators<design>& accumulators,
                                const WorkTileOf<design>& work) {
    const float before = before_alpha<design>(c.arguments, work), alpha = alpha_of<design>(c.arguments, work);
    const auto bias = [&](int column) {
        return column < c.arguments.n ? load_addend<design>(c.arguments, work, 0, column) : 0.0F;
    };
    const int lane = lane_index();
#pragma unroll
    for (int half = 0; half < design.rows_per_warpgroup / wgmma_m; ++half) {
        float of_rows[2] = {};  // Swap-AB: the lane's rows of the accumulators are columns of D.
        if constexpr (design.swap_ab) {
            const int first = c.first_row() + half * wgmma_m + c.warp * warp_rows + fragment_row(design, lane);
#pragma unroll
            for (int i = 0; i < 2; ++i) of_rows[i] = bias(work.column + first + i * fragment_row_step(design));
        }
#pragma unroll
        for (int column = 0; column < design.shape.n; column += 8) {
            float of_columns[2] = {};
            if constexpr (!design.swap_ab) {
#pragma unroll
                for (int i = 0; i < 2; ++i) of_columns[i] = bias(work.column + column + lane % 4 * 2 + i);
            }
            float* const value = fragment<design>(accumulators, half, column);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if constexpr (scales_alpha<design>()) value[i] *= before;
                value[i] = fma(alpha, value[i], design.swap_ab ? of_rows[i / 2] : of_columns[i % 2]);
            }
        }
    }
}

/// The factor of a tile's sums. The sums of a group without k are 0, and -1 * 0 + C is C including the sign of its
/// zeros.
template <Design design>
TILEWRIGHT_DEVICE float f32_alpha_of(const Arguments& arguments, const WorkTileOf<design>& work) {
    if (!work.lacks_k()) return arguments.alpha;
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
