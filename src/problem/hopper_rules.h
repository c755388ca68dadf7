// What Hopper kernels ask of a call beyond what every backend does: said once, for validation and for the planner.
#pragma once

#include <tilewright/problem.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "problem/geometry.h"

namespace tilewright {

/// Ends of what findings expect and advise.
inline constexpr const char* for_a_gpu = " on a Hopper GPU";
inline constexpr const char* run_on_cpu = "copy the tensors to the host and use the CPU backend";

/// Which operands a kernel reads along their rows (m of A, n of B) in memory; the others along k.
struct MnMajor {
    bool a = false;
    bool b = false;
};

/// Follows from strides: layout nn, or nt with a transposed view of B, are the same to a kernel. Where TMA could load
/// either way, along k.
MnMajor mn_major(const Geometry& geometry);

/// Whether TMA loads values that are contiguous along their rows with these strides: k and matrices say which of them
/// mean something.
bool loads_along_rows(const Strides& strides, std::int64_t k, std::int64_t matrices, Format format);

/// Whether e2m1 weights, which are packed along one dimension, are so along k.
bool has_codes_along_k(const Geometry& geometry);

/// How b is given.
enum class WeightKind : std::uint8_t {
    ordinary,
    packed,
};
WeightKind weight_kind(const PackedGeometry& packed);

/// Whether kernels multiply weights that are packed for fp8 with these: fp8 scaled by tensor, row, 1x128 or 1x32, and
/// MXFP4, which is decoded to fp8.
bool goes_with_packed(const OperandRecipe& activations);

/// bf16, and what becomes bf16 next to FP4 weights.
bool is_multiplied_as_bf16(const OperandRecipe& activations);

/// Whether kernels multiply FP4 weights with these activations: MXFP4 with all of both kinds above, NVFP4 with bf16,
/// NVFP4, and fp8 scaled by tensor, row, 1x128 or 1x32, which is decoded to bf16.
bool goes_with_fp4(const OperandRecipe& activations, const OperandRecipe& weights);

/// What kernels multiply where both sides of a recipe are given so.
struct HopperCall {
    Recipe recipe{};
    Grouping grouping = Grouping::dense;
    WeightKind weights = WeightKind::ordinary;
    bool codes_along_k = true;  // of e2m1 weights that are not packed
    bool a_along_m = false;     // a is contiguous along m
};

/// Recipes and groupings that no Hopper kernel serves, whatever the sizes: one finding for each
/// obstacle.
std::vector<Finding> hopper_obstacles(const HopperCall& call);

/// bf16 activations are read along k alone.
Finding bf16_along_m();

/// The same of calls with FP4 weights; nothing for all others.
std::optional<std::vector<Finding>> fp4_obstacles(const HopperCall& call);

/// Packed weights are loaded in runs of bytes from multiples of this on.
inline constexpr std::int64_t hopper_packed_alignment = 128;

/// Largest m, n, k and count of groups: kernels count rows, columns and k in 32 bits, up to a tile beyond the end.
inline constexpr std::int64_t hopper_size_limit = (std::int64_t{1} << 31) - 1024;

/// Groups of k begin at multiples of this: a k-block.
inline constexpr int hopper_k_alignment = 128;

/// Addresses and strides of A and B in bytes are multiples of this, strides below the limit (CUDA driver API,
/// cuTensorMapEncodeTiled).
inline constexpr std::int64_t hopper_alignment = 16;
inline constexpr std::int64_t hopper_stride_limit = std::int64_t{1} << 40;

}  // namespace tilewright
