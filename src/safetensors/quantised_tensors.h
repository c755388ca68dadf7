// Which tensors are quantised, and which ones scale them, as far as dtypes and names tell, whoever wrote them: so that
// no scale is taken for a matrix, and what is copied as it is is said. stored_matrix.h says which of them can be read.
//
// Quantised is what has a dtype of less than 16 bits and a fraction (F8_E4M3, F4, ...), and integers with scales of
// their own. Scales are known by the last part of their names, and belong to the tensor whose name theirs begins with,
// or to the weight of their module:
//
//     P.weight_scale, P.weight_scale_inv, P.weight_scale_2, P.scale, P.input_scale, P.SCB    P.weight
//     P.weight_scale, P.weight_global_scale, P.weight_zero_point                             P.weight_packed
//     P_scales, P_scale_inv, P_weight_scale                                                  P_blocks, P
//     P.scales, P.qzeros, P.g_idx                                                            P.qweight
//     X.scales, X.tensor_scale, X.absmax, X.quant_map                                        X
//     P.k_scale, P.v_scale                                                                   none: of a cache
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "safetensors/safetensors.h"

namespace tilewright::safetensors {

struct QuantisedTensor {
    const StoredTensor* values = nullptr;  // null: scales whose values are not quantised or not there
    std::vector<const StoredTensor*> scales{};
};

/// Each tensor is in one of them at most, in the order of names.
std::vector<QuantisedTensor> quantised_tensors(const std::vector<const StoredTensor*>& tensors);

/// Named as what scales activations or a cache of keys and values; other lone scales may be those of a norm.
bool scales_activations(std::string_view name);

/// "F8_E4M3 [8, 64, 128]"
std::string dtype_and_shape(const StoredTensor& tensor);

}  // namespace tilewright::safetensors
