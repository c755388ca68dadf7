// The quantizers' kernels compiled for a GPU where there is none: those with the most in registers keep it there.
#include "cuda/compiler.h"
#include "emulator/nvrtc_objections.h"
#include "launch/quantize.h"

#include <gtest/gtest.h>

#include <vector>

namespace tilewright::tests {
namespace {

using namespace hopper;
using launch::QuantizeKernel;
using launch::QuantizeStep;

constexpr CopySpec rows{.scaled = ScaledBy::token_block, .feature_factors = true};
constexpr CopySpec columns{.scaled = ScaledBy::feature_block, .transposed = true, .token_factors = true};
constexpr CopySpec token_blocks{.scaled = ScaledBy::token_block};
constexpr CopySpec feature_blocks{.scaled = ScaledBy::feature_block, .transposed = true};
constexpr CopySpec token{.scaled = ScaledBy::token, .feature_factors = true};
constexpr CopySpec feature{.scaled = ScaledBy::feature, .transposed = true, .token_factors = true};

void expect_no_spills(const std::vector<QuantizeKernel>& kernels) {
    if (TILEWRIGHT_SAMPLES != 0) GTEST_SKIP() << "NVRTC is the same under sanitizers";
    const cuda::OpenLibrary found(cuda::nvrtc_candidates());
    if (!found.is_open()) GTEST_SKIP() << "NVRTC was not found";
    const cuda::Compiler compiler(cuda::nvrtc_candidates());
    for (const QuantizeKernel& kernel : kernels) {
        const std::string expression = launch::kernel_expression(kernel);
        expect_ptxas_accepts(compiler, {.text = launch::quantize_source, .expression = expression}, expression);
    }
}

TEST(QuantizeNvrtc, TheLargestKernelsDoNotSpill) {
    expect_no_spills(
        {{.quantizer = {.source = Number::f32, .grouped = true, .rows = rows, .columns = columns}},
         {.quantizer = {.formula = Formula::swiglu_gradient, .grouped = true, .rows = rows, .columns = columns}},
         {.quantizer = {.formula = Formula::swiglu_gradient,
                        .paired = true,
                        .grouped = true,
                        .rows = token_blocks,
                        .columns = feature_blocks}},
         {.quantizer = {.grouped = true, .rows = token_blocks, .columns = feature_blocks}},
         {.step = QuantizeStep::measure, .quantizer = {.grouped = true, .rows = token, .columns = feature}},
         {.step = QuantizeStep::finish_scales, .copy = {.scaled = ScaledBy::all}},
         {.step = QuantizeStep::transpose_codes, .transposition = {.grouped = true, .vectors = false}},
         {.step = QuantizeStep::decode_codes},
         {.step = QuantizeStep::finish_groups},
         {.step = QuantizeStep::expand_weights},
         {.step = QuantizeStep::expand_weights, .weights = Expansion::mxfp4_to_bf16},
         {.step = QuantizeStep::expand_weights, .weights = Expansion::nvfp4_to_bf16},
         {.step = QuantizeStep::decode_codes, .decoding = {.codes = Decoding::mxfp4_to_e4m3, .vectors = false}},
         {.step = QuantizeStep::decode_codes, .decoding = {.codes = Decoding::e4m3_to_bf16}},
         {.step = QuantizeStep::decode_codes, .decoding = {.codes = Decoding::e5m2_to_bf16, .vectors = false}}});
}

TEST(QuantizeNvrtc, KernelsOfShortBlocksDoNotSpill) {
    std::vector<QuantizeKernel> kernels{{.step = QuantizeStep::finish_tensor_scales}};
    for (const BlockFormat format :
         {BlockFormat::mxfp8_e4m3, BlockFormat::mxfp8_e5m2, BlockFormat::mxfp4, BlockFormat::nvfp4}) {
        for (const Number source : {Number::bf16, Number::f32}) {
            for (const bool vectors : {true, false}) {
                kernels.push_back({.step = QuantizeStep::quantize_blocks,
                                   .blocks = {.source = source, .format = format, .vectors = vectors}});
            }
        }
    }
    expect_no_spills(kernels);
}

}  // namespace
}  // namespace tilewright::tests
