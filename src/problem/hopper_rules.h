// The requirements of Hopper kernels beyond those of every backend, in one place for validation and for the planner.
#pragma once

#include <tilewright/problem.h>

#include <cstdint>
#include <vector>

#include "base/math.h"
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

/// Whether TMA can load values that are contiguous along their rows with these strides. `k` and `matrices` decide which
/// strides matter.
bool loads_along_rows(const Strides& strides, std::int64_t k, std::int64_t matrices, Format format);

/// Whether e2m1 weights, which are packed along one dimension, are so along k.
bool has_codes_along_k(const Geometry& geometry);

/// The properties of a call that decide whether kernels exist for it.
struct HopperCall {
    Recipe recipe{};
    Grouping grouping = Grouping::dense;
    bool packed = false;        // b is
    bool codes_along_k = true;  // of e2m1 weights that are not packed
    bool a_along_m = false;     // a is contiguous along m
};

/// The properties of a call as the caller gives it.
HopperCall hopper_call(const Geometry& geometry);

/// Recipes and groupings that no Hopper kernel supports, whatever the sizes: one finding for each mistake. gpu_routes.h
/// has the supported pairs.
std::vector<Finding> without_kernels(const HopperCall& call);

/// The same, and codes that no kernel packs.
std::vector<Finding> unsupported_on_hopper(const HopperCall& call);

/// Largest m, n, k and count of groups: kernels count rows, columns and k in 32 bits, up to a tile beyond the end.
inline constexpr std::int64_t hopper_size_limit = (std::int64_t{1} << 31) - 1024;

/// k groups begin at multiples of this: a k-block.
inline constexpr int hopper_k_alignment = 128;

/// Addresses and strides that TMA is given are multiples of this in bytes, strides below the limit (CUDA driver API,
/// cuTensorMapEncodeTiled). A stride over a single index may be anything.
inline constexpr std::int64_t hopper_alignment = 16;
inline constexpr std::int64_t hopper_stride_limit = std::int64_t{1} << 40;

/// The stride of rows of k elements that begin aligned.
constexpr std::int64_t aligned_row(std::int64_t k, Format format) {
    return round_up<std::int64_t>(k, hopper_alignment * 8 / bits(format));
}

}  // namespace tilewright
