#include "emulator/other_kernels.h"
#include "hopper/prepare/decode.h"
#include "hopper/prepare/expand.h"
#include "hopper/prepare/transpose.h"
#include "hopper/quantize/finish_groups.h"
#include "hopper/quantize/quantize.h"
#include "hopper/quantize/short_blocks.h"
#include "launch/preparation.h"

#include "emulator/primitives.h"

namespace tilewright::tests {
namespace {

using namespace hopper;
using Functions = OtherFunctions;

template <Quantizer q>
void add_quantize(Functions& all) {
    add(all, launch::Quantize{q}, quantize<q>);
}

template <Quantizer q>
void add_measure(Functions& all) {
    add(all, launch::Measure{q}, measure<q>);
}

template <CopySpec copy>
void add_scales(Functions& all) {
    add(all, launch::FinishScales{copy}, finish_scales<copy>);
    add(all, launch::ClearScales{copy}, clear_scales<copy>);
}

constexpr CopySpec token_blocks{.scaled = ScaledBy::token_block};
constexpr CopySpec feature_blocks{.scaled = ScaledBy::feature_block, .transposed = true};
constexpr CopySpec squares{.scaled = ScaledBy::square};
constexpr CopySpec squares_turned{.scaled = ScaledBy::square, .transposed = true};
constexpr CopySpec with_powers(CopySpec copy) {
    copy.powers = true;
    return copy;
}
constexpr CopySpec with_factors(CopySpec copy) {
    copy.token_factors = copy.feature_factors = true;
    return copy;
}
constexpr CopySpec e5m2_bytes(CopySpec copy) {
    copy.storage = ValueFormat::e5m2;
    copy.powers = copy.ue8m0 = true;
    return copy;
}
constexpr CopySpec scaled_by(ScaledBy scaled, bool transposed = false) {
    return {.scaled = scaled, .transposed = transposed};
}

template <TransposeSpec spec>
void add_transpose(Functions& all) {
    add(all, launch::TransposeCodes{spec}, transpose_codes<spec>);
}

template <Decoding codes>
void add_decodings(Functions& all) {
    constexpr DecodeSpec vectors{.codes = codes}, elements{.codes = codes, .vectors = false};
    add(all, launch::DecodeCodes{vectors}, decode_codes<vectors>);
    add(all, launch::DecodeCodes{elements}, decode_codes<elements>);
}

template <BlockSpec spec>
void add_blocks(Functions& all) {
    add(all, launch::QuantizeBlocks{spec}, quantize_blocks<spec>);
}

template <BlockFormat format, Number source>
void add_blocks_from(Functions& all) {
    add_blocks<BlockSpec{.source = source, .format = format}>(all);
    add_blocks<BlockSpec{.source = source, .format = format, .vectors = false}>(all);
    add_blocks<BlockSpec{.source = source, .format = format, .round_up = true}>(all);
}

template <BlockFormat format>
void add_blocks_of(Functions& all) {
    add_blocks_from<format, Number::bf16>(all);
    add_blocks_from<format, Number::f32>(all);
    add_blocks_from<format, Number::f16>(all);
}

template <Number source>
void add_measured_tensors(Functions& all) {
    add_measure<Quantizer{.source = source, .rows = scaled_by(ScaledBy::all)}>(all);
    add_measure<Quantizer{.source = source, .vectors = false, .rows = scaled_by(ScaledBy::all)}>(all);
}

template <BlockSpec spec>
void add_tensor_scales(Functions& all) {
    add(all, launch::FinishTensorScales{spec}, finish_tensor_scales<spec>);
}

/// Those of MXFP8, MXFP4 and NVFP4.
void add_short_blocks(Functions& all) {
    add_blocks_of<BlockFormat::mxfp8_e4m3>(all);
    add_blocks_of<BlockFormat::mxfp8_e5m2>(all);
    add_blocks_of<BlockFormat::mxfp4>(all);
    add_blocks_of<BlockFormat::nvfp4>(all);
    add_measured_tensors<Number::bf16>(all);
    add_measured_tensors<Number::f32>(all);
    add_measured_tensors<Number::f16>(all);
    add_tensor_scales<BlockSpec{.round_up = false}>(all);
    add_tensor_scales<BlockSpec{.round_up = true}>(all);
}

/// quantize of a matrix.
void add_matrices(Functions& all) {
    add_quantize<Quantizer{.rows = token_blocks}>(all);
    add_quantize<Quantizer{.rows = squares}>(all);
    add_quantize<Quantizer{.source = Number::f32, .rows = token_blocks}>(all);
    add_quantize<Quantizer{.source = Number::f32, .rows = e5m2_bytes(token_blocks)}>(all);
    add_quantize<Quantizer{.source = Number::f32, .vectors = false, .rows = token_blocks}>(all);
    add_quantize<Quantizer{.source = Number::f16, .vectors = false, .rows = squares}>(all);
    add_quantize<Quantizer{.rows = {.scaled = ScaledBy::feature_block}}>(all);
    add_quantize<Quantizer{.rows = feature_blocks}>(all);
    add_quantize<Quantizer{.rows = scaled_by(ScaledBy::token)}>(all);
    add_quantize<Quantizer{.rows = scaled_by(ScaledBy::all)}>(all);
    add_quantize<Quantizer{.rows = scaled_by(ScaledBy::token_block, true)}>(all);
    add_measure<Quantizer{.rows = scaled_by(ScaledBy::token)}>(all);
    add_measure<Quantizer{.rows = scaled_by(ScaledBy::all)}>(all);
    add_scales<CopySpec{.scaled = ScaledBy::all}>(all);
    add_scales<CopySpec{}>(all);
    add_scales<CopySpec{.scaled = ScaledBy::all, .storage = ValueFormat::e5m2}>(all);
}

/// Both operands of quantize_tokens with factors and measured scales, and that measures them.
template <Number source, Formula formula, ScaledBy row, ScaledBy column>
void add_measured(Functions& all) {
    constexpr Quantizer both{.source = source,
                             .formula = formula,
                             .grouped = true,
                             .rows = with_factors(scaled_by(row)),
                             .columns = with_factors(scaled_by(column, true))};
    add_quantize<both>(all);
    add_measure<both>(all);
}

/// quantize_tokens.
void add_tokens(Functions& all) {
    constexpr CopySpec row_of_f3{.scaled = ScaledBy::token_block, .feature_factors = true};
    constexpr CopySpec column_of_f3{.scaled = ScaledBy::square, .transposed = true, .token_factors = true};
    add_quantize<Quantizer{.grouped = true, .rows = token_blocks, .columns = feature_blocks}>(all);
    add_quantize<Quantizer{.grouped = true, .vectors = false, .rows = token_blocks, .columns = feature_blocks}>(all);
    add_quantize<Quantizer{.grouped = true, .rows = row_of_f3, .columns = column_of_f3}>(all);
    add_quantize<Quantizer{
        .grouped = true, .rows = with_factors(token_blocks), .columns = with_factors(feature_blocks)}>(all);
    add_quantize<Quantizer{.source = Number::f32,
                           .grouped = true,
                           .rows = with_factors(token_blocks),
                           .columns = with_factors(feature_blocks)}>(all);
    add_quantize<Quantizer{.rows = squares, .columns = squares_turned}>(all);
    add_quantize<Quantizer{
        .formula = Formula::swiglu, .interleaved = true, .rows = token_blocks, .columns = feature_blocks}>(all);
    add_quantize<Quantizer{.formula = Formula::swiglu, .rows = with_powers(token_blocks)}>(all);
    add_quantize<Quantizer{.formula = Formula::swiglu_gradient, .rows = token_blocks, .columns = feature_blocks}>(all);
    add_quantize<Quantizer{
        .formula = Formula::swiglu_gradient, .paired = true, .rows = token_blocks, .columns = feature_blocks}>(all);
    add_quantize<Quantizer{.formula = Formula::swiglu_gradient,
                           .interleaved = true,
                           .vectors = false,
                           .rows = token_blocks,
                           .columns = feature_blocks}>(all);
    add_quantize<Quantizer{.formula = Formula::swiglu_gradient,
                           .paired = true,
                           .grouped = true,
                           .rows = token_blocks,
                           .columns = feature_blocks}>(all);
    constexpr Quantizer of_rows{.formula = Formula::swiglu,
                                .grouped = true,
                                .rows = scaled_by(ScaledBy::token),
                                .columns = scaled_by(ScaledBy::feature, true)};
    add_quantize<of_rows>(all);
    add_measure<of_rows>(all);
    constexpr CopySpec token{.scaled = ScaledBy::token, .storage = ValueFormat::e5m2};
    constexpr CopySpec feature{.scaled = ScaledBy::feature, .storage = ValueFormat::e5m2, .transposed = true};
    add_quantize<Quantizer{.grouped = true, .rows = token, .columns = feature}>(all);
    add_measure<Quantizer{
        .grouped = true, .rows = scaled_by(ScaledBy::token), .columns = scaled_by(ScaledBy::feature, true)}>(all);
    add_measured<Number::bf16, Formula::x, ScaledBy::token, ScaledBy::feature>(all);
    add_measured<Number::f32, Formula::x, ScaledBy::token, ScaledBy::feature>(all);
    add_measured<Number::bf16, Formula::x, ScaledBy::all, ScaledBy::all>(all);
    add_measured<Number::f32, Formula::x, ScaledBy::all, ScaledBy::all>(all);
    add_measured<Number::bf16, Formula::swiglu, ScaledBy::token, ScaledBy::feature>(all);
    add_measured<Number::bf16, Formula::swiglu, ScaledBy::all, ScaledBy::all>(all);
}

template <Expansion weights>
void add_expansion(Functions& all) {
    add(all, launch::ExpandWeights{weights}, expand_weights<weights, expand_run_tiles>);
}

}  // namespace

void add_quantizers(Functions& all) {
    add_matrices(all);
    add_tokens(all);
    add_short_blocks(all);
    add_transpose<TransposeSpec{.ue8m0 = true, .stores_ue8m0 = true, .grouped = true}>(all);
    add_transpose<TransposeSpec{.storage = ValueFormat::e5m2, .squares = true}>(all);
    add_transpose<TransposeSpec{.grouped = true, .vectors = false}>(all);
    add_transpose<launch::copy_spec>(all);
    add_transpose<TransposeSpec{.shifted = false, .vectors = false}>(all);
    add_transpose<TransposeSpec{.shifted = false, .grouped = true}>(all);
    add_decodings<Decoding::nvfp4_to_bf16>(all);
    add_decodings<Decoding::mxfp4_to_e4m3>(all);
    add_decodings<Decoding::e4m3_to_bf16>(all);
    add_decodings<Decoding::e5m2_to_bf16>(all);
    add(all, launch::FinishGroups{}, finish_groups<quantize_threads>);
    add_expansion<Expansion::mxfp4_to_e4m3>(all);
    add_expansion<Expansion::mxfp4_to_bf16>(all);
    add_expansion<Expansion::nvfp4_to_bf16>(all);
}

}  // namespace tilewright::tests
