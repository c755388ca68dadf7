#include "emulator/quantize_kernels.h"

#include "emulator/emulator.h"
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
using launch::QuantizeKernel;
using launch::QuantizeLaunch;
using launch::QuantizeStep;
using Kernels = std::map<std::string, QuantizeFunction>;

template <Quantizer q>
void add(Kernels& kernels) {
    kernels[kernel_expression(QuantizeKernel{.quantizer = q})] = [](const QuantizeLaunch& launch) {
        quantize<q>(launch.arguments);
    };
}

template <Quantizer q>
void add_measure(Kernels& kernels) {
    kernels[kernel_expression(QuantizeKernel{.step = QuantizeStep::measure, .quantizer = q})] =
        [](const QuantizeLaunch& launch) { measure<q>(launch.arguments); };
}

template <CopySpec copy>
void add_scales(Kernels& kernels) {
    kernels[kernel_expression(QuantizeKernel{.step = QuantizeStep::finish_scales, .copy = copy})] =
        [](const QuantizeLaunch& launch) { finish_scales<copy>(launch.scales); };
    kernels[kernel_expression(QuantizeKernel{.step = QuantizeStep::clear_scales, .copy = copy})] =
        [](const QuantizeLaunch& launch) { clear_scales<copy>(launch.scales); };
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
void add_transpose(Kernels& kernels) {
    kernels[kernel_expression(QuantizeKernel{.step = QuantizeStep::transpose_codes, .transposition = spec})] =
        [](const QuantizeLaunch& launch) { transpose_codes<spec>(launch.transposition); };
}

template <DecodeSpec spec>
void add_decoding(Kernels& kernels) {
    kernels[kernel_expression(QuantizeKernel{.step = QuantizeStep::decode_codes, .decoding = spec})] =
        [](const QuantizeLaunch& launch) { decode_codes<spec>(launch.decoding); };
}

template <Decoding codes>
void add_decodings(Kernels& kernels) {
    add_decoding<DecodeSpec{.codes = codes}>(kernels);
    add_decoding<DecodeSpec{.codes = codes, .vectors = false}>(kernels);
}

template <BlockSpec spec>
void add_blocks(Kernels& kernels) {
    kernels[kernel_expression(QuantizeKernel{.step = QuantizeStep::quantize_blocks, .blocks = spec})] =
        [](const QuantizeLaunch& launch) { quantize_blocks<spec>(launch.short_blocks); };
}

template <BlockFormat format, Number source>
void add_blocks_from(Kernels& kernels) {
    add_blocks<BlockSpec{.source = source, .format = format}>(kernels);
    add_blocks<BlockSpec{.source = source, .format = format, .vectors = false}>(kernels);
    add_blocks<BlockSpec{.source = source, .format = format, .round_up = true}>(kernels);
}

template <BlockFormat format>
void add_blocks_of(Kernels& kernels) {
    add_blocks_from<format, Number::bf16>(kernels);
    add_blocks_from<format, Number::f32>(kernels);
    add_blocks_from<format, Number::f16>(kernels);
}

template <Number source>
void add_measured_tensors(Kernels& kernels) {
    add_measure<Quantizer{.source = source, .rows = scaled_by(ScaledBy::all)}>(kernels);
    add_measure<Quantizer{.source = source, .vectors = false, .rows = scaled_by(ScaledBy::all)}>(kernels);
}

template <BlockSpec spec>
void add_tensor_scales(Kernels& kernels) {
    kernels[kernel_expression(QuantizeKernel{.step = QuantizeStep::finish_tensor_scales, .blocks = spec})] =
        [](const QuantizeLaunch& launch) { finish_tensor_scales<spec>(launch.scales); };
}

/// Those of MXFP8, MXFP4 and NVFP4.
void add_short_blocks(Kernels& all) {
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
void add_matrices(Kernels& all) {
    add<Quantizer{.rows = token_blocks}>(all);
    add<Quantizer{.rows = squares}>(all);
    add<Quantizer{.source = Number::f32, .rows = token_blocks}>(all);
    add<Quantizer{.source = Number::f32, .rows = e5m2_bytes(token_blocks)}>(all);
    add<Quantizer{.source = Number::f32, .vectors = false, .rows = token_blocks}>(all);
    add<Quantizer{.source = Number::f16, .vectors = false, .rows = squares}>(all);
    add<Quantizer{.rows = {.scaled = ScaledBy::feature_block}}>(all);
    add<Quantizer{.rows = feature_blocks}>(all);
    add<Quantizer{.rows = scaled_by(ScaledBy::token)}>(all);
    add<Quantizer{.rows = scaled_by(ScaledBy::all)}>(all);
    add<Quantizer{.rows = scaled_by(ScaledBy::token_block, true)}>(all);
    add_measure<Quantizer{.rows = scaled_by(ScaledBy::token)}>(all);
    add_measure<Quantizer{.rows = scaled_by(ScaledBy::all)}>(all);
    add_scales<CopySpec{.scaled = ScaledBy::all}>(all);
    add_scales<CopySpec{}>(all);
    add_scales<CopySpec{.scaled = ScaledBy::all, .storage = ValueFormat::e5m2}>(all);
}

/// Both operands of quantize_tokens with factors and measured scales, and that measures them.
template <Number source, Formula formula, ScaledBy row, ScaledBy column>
void add_measured(Kernels& all) {
    constexpr Quantizer both{.source = source,
                             .formula = formula,
                             .grouped = true,
                             .rows = with_factors(scaled_by(row)),
                             .columns = with_factors(scaled_by(column, true))};
    add<both>(all);
    add_measure<both>(all);
}

/// quantize_tokens.
void add_tokens(Kernels& all) {
    constexpr CopySpec row_of_f3{.scaled = ScaledBy::token_block, .feature_factors = true};
    constexpr CopySpec column_of_f3{.scaled = ScaledBy::square, .transposed = true, .token_factors = true};
    add<Quantizer{.grouped = true, .rows = token_blocks, .columns = feature_blocks}>(all);
    add<Quantizer{.grouped = true, .vectors = false, .rows = token_blocks, .columns = feature_blocks}>(all);
    add<Quantizer{.grouped = true, .rows = row_of_f3, .columns = column_of_f3}>(all);
    add<Quantizer{.grouped = true, .rows = with_factors(token_blocks), .columns = with_factors(feature_blocks)}>(all);
    add<Quantizer{.source = Number::f32,
                  .grouped = true,
                  .rows = with_factors(token_blocks),
                  .columns = with_factors(feature_blocks)}>(all);
    add<Quantizer{.rows = squares, .columns = squares_turned}>(all);
    add<Quantizer{.formula = Formula::swiglu, .interleaved = true, .rows = token_blocks, .columns = feature_blocks}>(
        all);
    add<Quantizer{.formula = Formula::swiglu, .rows = with_powers(token_blocks)}>(all);
    add<Quantizer{.formula = Formula::swiglu_gradient, .rows = token_blocks, .columns = feature_blocks}>(all);
    add<Quantizer{
        .formula = Formula::swiglu_gradient, .paired = true, .rows = token_blocks, .columns = feature_blocks}>(all);
    add<Quantizer{.formula = Formula::swiglu_gradient,
                  .interleaved = true,
                  .vectors = false,
                  .rows = token_blocks,
                  .columns = feature_blocks}>(all);
    add<Quantizer{.formula = Formula::swiglu_gradient,
                  .paired = true,
                  .grouped = true,
                  .rows = token_blocks,
                  .columns = feature_blocks}>(all);
    constexpr Quantizer of_rows{.formula = Formula::swiglu,
                                .grouped = true,
                                .rows = scaled_by(ScaledBy::token),
                                .columns = scaled_by(ScaledBy::feature, true)};
    add<of_rows>(all);
    add_measure<of_rows>(all);
    constexpr CopySpec token{.scaled = ScaledBy::token, .storage = ValueFormat::e5m2};
    constexpr CopySpec feature{.scaled = ScaledBy::feature, .storage = ValueFormat::e5m2, .transposed = true};
    add<Quantizer{.grouped = true, .rows = token, .columns = feature}>(all);
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
void add_expansion(Kernels& kernels) {
    kernels[kernel_expression(QuantizeKernel{.step = QuantizeStep::expand_weights, .weights = weights})] =
        [](const QuantizeLaunch& launch) { expand_weights<weights, expand_run_tiles>(launch.expansion); };
}

}  // namespace

const Kernels& quantize_kernels() {
    static const Kernels all = [] {
        Kernels kernels;
        add_matrices(kernels);
        add_tokens(kernels);
        add_short_blocks(kernels);
        add_transpose<TransposeSpec{.ue8m0 = true, .stores_ue8m0 = true, .grouped = true}>(kernels);
        add_transpose<TransposeSpec{.storage = ValueFormat::e5m2, .squares = true}>(kernels);
        add_transpose<TransposeSpec{.grouped = true, .vectors = false}>(kernels);
        add_transpose<launch::copy_spec>(kernels);
        add_transpose<TransposeSpec{.shifted = false, .vectors = false}>(kernels);
        add_transpose<TransposeSpec{.shifted = false, .grouped = true}>(kernels);
        add_decodings<Decoding::nvfp4_to_bf16>(kernels);
        add_decodings<Decoding::mxfp4_to_e4m3>(kernels);
        add_decodings<Decoding::e4m3_to_bf16>(kernels);
        add_decodings<Decoding::e5m2_to_bf16>(kernels);
        kernels[kernel_expression(QuantizeKernel{.step = QuantizeStep::finish_groups})] =
            [](const QuantizeLaunch& launch) { finish_groups<quantize_threads>(launch.groups); };
        add_expansion<Expansion::mxfp4_to_e4m3>(kernels);
        add_expansion<Expansion::mxfp4_to_bf16>(kernels);
        add_expansion<Expansion::nvfp4_to_bf16>(kernels);
        return kernels;
    }();
    return all;
}

void run_on_emulator(const std::vector<QuantizeLaunch>& launches, std::uint64_t seed) {
    for (const QuantizeLaunch& launch : launches) run_on_emulator(launch, seed);
}

void run_on_emulator(const QuantizeLaunch& launch, std::uint64_t seed) {
    const auto found = quantize_kernels().find(kernel_expression(launch.kernel));
    if (found == quantize_kernels().end()) {
        throw emulator::Error("quantize_kernels.cpp lacks " + kernel_expression(launch.kernel));
    }
    emulator::launch({.blocks = launch.blocks,
                      .threads = quantize_threads,
                      .shared_bytes = shared_bytes(launch.kernel),
                      .seed = seed,
                      .registers = 128},
                     [&] { found->second(launch); });
}

}  // namespace tilewright::tests
