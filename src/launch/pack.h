// What packing FP4 weights on a GPU launches: a kernel that judges rows and writes their tiles, then, when the host
// knows how long the packed weights are, one that writes the rest. No CUDA.
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

/// What names a kernel.
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

/// What the host has learnt of the weights.
struct PackedPlan {
    formats::PackedSections sections{};
    std::vector<std::int64_t> kept_rows{};
    std::int64_t bytes = 0;
};

/// Whether kernels serve the weights, in which `check_packable` finds nothing: what they do not serve in words.
std::string unserved_by_packing(const Operand& weights);

/// Judges rows: `judgements` is a byte for each row of all groups, in memory of the GPU. Writes rows and tiles where
/// `sections` has them, with room for its windows, unless `out` is null.
std::vector<PackLaunch> lower_tiles(const Operand& weights, PackedFor activations,
                                    const formats::PackedSections& sections, void* judgements, void* out);

/// What follows the codes in tiles, of MXFP4 weights for fp8 whose codes stay where they are, and the rows, with room
/// for the most windows.
PackLaunch lower_scales(const Operand& weights, const formats::PackedSections& sections, void* out);

PackedPlan packed_plan(const Operand& weights, PackedFor activations, std::span<const std::uint8_t> judgements);

/// What neither rows nor tiles are. `kept_rows`: the plan's, in memory of the GPU.
PackLaunch lower_rest(const Operand& weights, PackedFor activations, const PackedPlan& plan,
                      const std::int64_t* kept_rows, void* out);

/// "tilewright::hopper::pack_tiles<tilewright::hopper::PackSpec{...}>"
std::string kernel_expression(const PackKernel& kernel);
/// The most that a launch gives it.
int most_shared_bytes(const PackKernel& kernel);
/// What the kernel pack holds: MXFP4 for fp8.
std::vector<PackKernel> shipped_packers();

/// The program that these expressions are instantiations of.
inline constexpr const char* pack_source =
    "#include \"hopper/quantize/pack_rest.h\"\n#include \"hopper/quantize/pack_scales.h\"\n#include "
    "\"hopper/ptx/ptx_numbers_sm90.h\"\n";

}  // namespace tilewright::launch
