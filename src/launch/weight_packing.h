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
#include "hopper/quantize/arguments.h"
#include "hopper/quantize/quantizer.h"

namespace tilewright::launch {

enum class PackStep : std::uint8_t { pack_tiles, pack_heads, pack_rest, pack_scales };

/// The parameters that name a kernel.
struct PackKernel {
    PackStep step = PackStep::pack_tiles;
    hopper::PackSpec spec{};

    bool operator==(const PackKernel&) const = default;
};

struct PackLaunch {
    PackKernel kernel{};
    hopper::PackArguments arguments{};
    int blocks = 0;
    int shared_bytes = 0;
};

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
std::vector<PackLaunch> lower_tiles(const Operand& weights, PackedFor activations,
                                    const formats::PackedSections& sections, void* judgements, void* out);

/// Writes the rows, and the data that follow the values in tiles, with memory for the most windows. For MXFP4 weights
/// for fp8 that are read in place.
PackLaunch lower_scales(const Operand& weights, const formats::PackedSections& sections, void* out);

PackedPlan packed_plan(const Operand& weights, PackedFor activations, std::span<const std::uint8_t> judgements);

/// Writes everything except rows and tiles. `kept_rows`: the plan's, in memory of the GPU.
PackLaunch lower_rest(const Operand& weights, PackedFor activations, const PackedPlan& plan,
                      const std::int64_t* kept_rows, void* out);

/// "tilewright::hopper::pack_tiles<tilewright::hopper::PackSpec{...}>"
std::string kernel_expression(const PackKernel& kernel);
/// The largest shared memory of its launches.
int most_shared_bytes(const PackKernel& kernel);
/// The packing kernels of the kernel pack: MXFP4 for fp8.
std::vector<PackKernel> shipped_packers();

/// The program of which these expressions are instantiations.
inline constexpr const char* pack_source =
    "#include \"hopper/pack/pack_rest.h\"\n#include \"hopper/pack/pack_scales.h\"\n#include "
    "\"hopper/ptx/ptx_numbers_sm90.h\"\n";

}  // namespace tilewright::launch
