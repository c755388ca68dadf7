// Decides whether two calls are equal, and whether they can share a tile.
#pragma once

#include <tilewright/problem.h>

#include <cstddef>

namespace tilewright::cuda {

/// The index of the GPU that holds the problem's tensors.
inline int device_of(const Problem& problem) { return problem.d.device.index; }

inline bool same_kind(const Tensor& x, const Tensor& y) {
    return x.format == y.format && x.shape == y.shape && x.strides == y.strides && x.device == y.device;
}

inline bool same_kind(const PackedWeights& x, const PackedWeights& y) {
    return x.version == y.version && x.bytes == y.bytes && x.device == y.device && x.recipe == y.recipe &&
           x.activations == y.activations && x.grouped == y.grouped && x.groups == y.groups && x.n == y.n &&
           x.k == y.k && x.tensor_scales == y.tensor_scales && x.internal == y.internal;
}

inline bool same_kind(const Operand& x, const Operand& y) {
    return x.granularity == y.granularity && same_kind(x.values, y.values) && same_kind(x.scales, y.scales) &&
           same_kind(x.tensor_scale, y.tensor_scale) && same_kind(x.packed, y.packed);
}

/// Everything except the addresses and alpha.
inline bool same_kind(const Problem& x, const Problem& y) {
    return same_kind(x.a, y.a) && same_kind(x.b, y.b) && same_kind(x.d, y.d) && same_kind(x.c, y.c) &&
           same_kind(x.bias, y.bias) && x.layout == y.layout && x.groups.grouping == y.groups.grouping &&
           same_kind(x.groups.sizes, y.groups.sizes) && x.groups.alignment == y.groups.alignment &&
           x.groups.index_alignment == y.groups.index_alignment && x.accumulation == y.accumulation &&
           x.arithmetic == y.arithmetic && x.reproducibility == y.reproducibility && x.sm_limit == y.sm_limit &&
           x.expected_m == y.expected_m;
}

/// Equal for problems of the same kind.
inline std::size_t kind_hash(const Problem& problem) {
    std::size_t hash = static_cast<std::size_t>(problem.sm_limit);
    for (const Tensor* tensor : {&problem.a.values, &problem.b.values, &problem.d}) {
        for (const Dims* dims : {&tensor->shape, &tensor->strides}) {
            for (const std::int64_t value : *dims) hash = hash * 0x9E3779B97F4A7C15U + static_cast<std::size_t>(value);
        }
    }
    return hash;
}

inline bool same_addresses(const Problem& x, const Problem& y) {
    return x.d.data == y.d.data && x.a.values.data == y.a.values.data && x.b.values.data == y.b.values.data &&
           x.a.scales.data == y.a.scales.data && x.b.scales.data == y.b.scales.data &&
           x.a.tensor_scale.data == y.a.tensor_scale.data && x.b.tensor_scale.data == y.b.tensor_scale.data &&
           x.c.data == y.c.data && x.bias.data == y.bias.data && x.b.packed.data == y.b.packed.data &&
           x.groups.sizes.data == y.groups.sizes.data;
}

}  // namespace tilewright::cuda
