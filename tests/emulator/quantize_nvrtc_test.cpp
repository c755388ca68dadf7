// The quantizers' kernels compiled for a GPU where there is none: those with the most in registers keep it there.
#include "emulator/nvrtc_objections.h"

#include <gtest/gtest.h>

#include <vector>

namespace tilewright::tests {
namespace {

using namespace hopper;
using launch::DecodeCodes, launch::ExpandWeights, launch::Quantize;

constexpr CopySpec rows{.scaled = ScaledBy::token_block, .feature_factors = true};
constexpr CopySpec columns{.scaled = ScaledBy::feature_block, .transposed = true, .token_factors = true};
constexpr CopySpec token_blocks{.scaled = ScaledBy::token_block};
constexpr CopySpec feature_blocks{.scaled = ScaledBy::feature_block, .transposed = true};
constexpr CopySpec token{.scaled = ScaledBy::token, .feature_factors = true};
constexpr CopySpec feature{.scaled = ScaledBy::feature, .transposed = true, .token_factors = true};

TEST(QuantizeNvrtc, TheLargestKernelsDoNotSpill) {
    expect_no_spills(
        {Quantize{{.source = Number::f32, .grouped = true, .rows = rows, .columns = columns}},
         Quantize{{.formula = Formula::swiglu_gradient, .grouped = true, .rows = rows, .columns = columns}},
         Quantize{{.formula = Formula::swiglu_gradient,
                   .paired = true,
                   .grouped = true,
                   .rows = token_blocks,
                   .columns = feature_blocks}},
         Quantize{{.grouped = true, .rows = token_blocks, .columns = feature_blocks}},
         launch::Measure{{.grouped = true, .rows = token, .columns = feature}},
         launch::FinishScales{{.scaled = ScaledBy::all}}, launch::TransposeCodes{{.grouped = true, .vectors = false}},
         launch::FinishGroups{}, ExpandWeights{}, ExpandWeights{Expansion::mxfp4_to_bf16},
         ExpandWeights{Expansion::nvfp4_to_bf16}, DecodeCodes{},
         DecodeCodes{{.codes = Decoding::mxfp4_to_e4m3, .vectors = false}},
         DecodeCodes{{.codes = Decoding::e4m3_to_bf16}},
         DecodeCodes{{.codes = Decoding::e5m2_to_bf16, .vectors = false}}});
}

TEST(QuantizeNvrtc, KernelsOfShortBlocksDoNotSpill) {
    std::vector<launch::OtherKernel> kernels{launch::FinishTensorScales{}};
    for (const BlockFormat format :
         {BlockFormat::mxfp8_e4m3, BlockFormat::mxfp8_e5m2, BlockFormat::mxfp4, BlockFormat::nvfp4}) {
        for (const Number source : {Number::bf16, Number::f32}) {
            for (const bool vectors : {true, false}) {
                kernels.emplace_back(launch::QuantizeBlocks{{.source = source, .format = format, .vectors = vectors}});
            }
        }
    }
    expect_no_spills(kernels);
}

}  // namespace
}  // namespace tilewright::tests
