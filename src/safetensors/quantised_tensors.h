// Which tensors are quantized, and which tensors are their scales, from dtypes and names, whoever wrote them. With this
// no scale is mistaken for a matrix, and messages name what is copied unchanged. stored_matrix.h decides which can be
// read.
//
// Quantized tensors have a dtype of less than 16 bits with a fraction (F8_E4M3, F4, ...), or are integers with their
// own scales. Scales are recognised by the last part of their names. They belong to the tensor that their name begins
// with, or to the weight of their module:
//
//     scales                                                                                | quantized
//     P.weight_scale, P.weight_scale_inv, P.weight_scale_2, P.scale, P.input_scale, P.SCB   | P.weight
//     P.weight_scale, P.weight_global_scale, P.weight_zero_point                            | P.weight_packed
//     P_scales, P_scale_inv, P_weight_scale                                                 | P_blocks, P
//     P.scales, P.qzeros, P.g_idx                                                           | P.qweight
//     X.scales, X.tensor_scale, X.absmax, X.quant_map                                       | X
//     P.k_scale, P.v_scale                                                                  | none: of a cache
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "safetensors/safetensors.h"

namespace tilewright::safetensors {

struct QuantisedTensor {
    const StoredTensor* values = nullptr;  // null: scales whose values are not quantized or not there
    std::vector<const StoredTensor*> scales{};
};

/// Each tensor is in one of them at most, in the order of names.
std::vector<QuantisedTensor> quantised_tensors(const std::vector<const StoredTensor*>& tensors);

/// Whether the name is that of a scale of activations or of a key-value cache; other scales without values may be a
/// norm's.
bool scales_activations(std::string_view name);

/// "F8_E4M3 [8, 64, 128]"
std::string dtype_and_shape(const StoredTensor& tensor);

}  // namespace tilewright::safetensors
