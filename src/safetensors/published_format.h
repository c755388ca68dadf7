// Formats that inference engines load: the names of a matrix X's tensors and the description in config.json.
//
// - fp8 is DeepSeek-V3's: X e4m3 [n, k], X_scale_inv f32 [n / 128, k / 128].
// - mxfp4 is gpt-oss's: X_blocks U8 [g, n, k / 32, 16], X_scales U8 [g, n, k / 32].
//
// One description holds for all matrices of a checkpoint. So no quantized matrix may stay in another format, and
// modules that are not quantized are listed. The fields are those that transformers 5.24.0 (FineGrainedFP8Config,
// Mxfp4Config), vLLM 0.33.0 and SGLang 0.5.23 (Fp8Config) read. Scales of a matrix's activations are not written.
#pragma once

#include <string>
#include <vector>

#include "safetensors/conversion.h"

namespace tilewright::safetensors {

std::string name(PublishedFormat format);

/// The recipe of every matrix.
OperandRecipe recipe_of(PublishedFormat format);

/// The tensors that are written for a matrix: values, then scales.
std::vector<StoredTensor> published_tensors(PublishedFormat format, const StoredMatrix& matrix);

/// The contents of `quantization_config`.
struct PublishedDescription {
    PublishedFormat format{};
    std::vector<std::string> unquantised{};  // modules with weights that are not quantized
};
PublishedDescription published_description(const Conversion& conversion);

/// Throws std::runtime_error where engines would read a matrix in another way than it is written. Then some tensors
/// stay quantized, experts are [g, k, n], or a matrix of mxfp4 is not of gpt-oss's form. Nothing has been written yet.
void refuse_unpublishable(const Conversion& conversion);

}  // namespace tilewright::safetensors
