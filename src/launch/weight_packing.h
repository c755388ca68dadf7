// The launches that pack FP4 weights on a GPU. The first kernel judges rows and writes their tiles. The host then
// computes the length of the packed weights, and a second kernel writes the rest. No CUDA.
#pragma once

#include <tilewright/packed.h>
#include <tilewright/problem.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/packed_layout.h"
#include "launch/kernels.h"

namespace tilewright::launch {

/// The host's knowledge about the weights after the first kernel.
struct PackedPlan {
    formats::PackedSections sections{};
    std::vector<std::int64_t> kept_rows{};
    std::int64_t bytes = 0;
};

/// For weights without findings of `check_packable`: the reason that kernels do not serve them, in words; empty if they
/// do.
std::string unserved_by_packing(const Operand& weights);

/// Judges rows: `judgements` has a byte per row of all groups, in memory of the GPU. Unless `out` is null, writes rows
/// and tiles to the places in `sections`, with memory for its windows.
std::vector<OtherLaunch> lower_tiles(const Operand& weights, PackedFor activations,
                                     const formats::PackedSections& sections, void* judgements, void* out);

/// Writes the rows, and the data that follow the values in tiles, with memory for the most windows. For MXFP4 weights
/// for fp8 that are read in place.
OtherLaunch lower_scales(const Operand& weights, const formats::PackedSections& sections, void* out);

PackedPlan packed_plan(const Operand& weights, PackedFor activations, std::span<const std::uint8_t> judgements);

/// Writes everything except rows and tiles. `kept_rows`: the plan's, in memory of the GPU.
OtherLaunch lower_rest(const Operand& weights, PackedFor activations, const PackedPlan& plan,
                       const std::int64_t* kept_rows, void* out);

}  // namespace tilewright::launch
