// The template parameters of the kernels around the two products of a layer of experts.
//
// Each computes a row at a time: a token's copies, h, or a token's sum. A block has a row, or a part of it.
#pragma once

#include "base/math.h"
#include "formats/gated_unit.h"
#include "hopper/quantize/quantizer.h"

namespace tilewright::hopper {

using formats::Unit;  // expressions of kernels name it

/// How a row is stored.
enum class RowOutput : unsigned char {
    // Rounded, without scales.
    bf16,
    f16,
    f32,
    // fp8 with f32 or ue8m0 scales: one per row, or one per 128 features.
    scaled_rows,
    scaled_blocks,
    mx,  // fp8 with a ue8m0 scale per 32 features
};

/// The rows that `permute` and `activate` write.
struct RowSpec {
    Number source = Number::bf16;
    bool activates = false;  // h of gate and up; otherwise x
    Unit unit = Unit::swiglu;
    bool interleaved = false;  // gate and up alternate
    RowOutput output = RowOutput::scaled_blocks;
    ValueFormat storage = ValueFormat::e4m3;  // The code of fp8.
    bool rounds_up = false;                   // Scales are rounded up to powers of two.
    bool has_factors = false;  // x is multiplied ahead of its quantization. h has its factors at run time.
    bool routes = false;       // The kernel finds the rows of the tokens by itself (route.h).
    bool from_ranks = false;   // Rows of x are those of all ranks of a group.
    bool announces = false;    // The kernel announces the choices too (exchange.h). Without places.
    bool meets = false;        // It routes after a barrier of the ranks, which have announced their choices.
    bool vectors = true;       // 16 bytes at a time; otherwise element by element.

    constexpr bool operator==(const RowSpec&) const = default;
};

/// Copies of codes and scales (copy_rows.h).
struct CopyRowsSpec {
    bool routes = false;
    bool from_ranks = false;
    bool announces = false;
    bool meets = false;

    constexpr bool operator==(const CopyRowsSpec&) const = default;
};

struct CombineSpec {
    Number rows = Number::bf16;  // of y; f32: sums of ranks
    Number out = Number::bf16;
    bool vectors = true;
    bool from_ranks = false;  // rows of y are those of all ranks of a group
    bool to_ranks = false;    // rows of the result are
    bool meets = false;       // the kernel is a barrier of the ranks, and finds the rows of y after it

    constexpr bool operator==(const CombineSpec&) const = default;
};

constexpr bool has_scales(RowOutput output) {
    return output != RowOutput::bf16 && output != RowOutput::f16 && output != RowOutput::f32;
}
/// Whether numbers have at most 11 significant bits.
constexpr bool is_short(const RowSpec& spec) {
    return !spec.activates && !spec.has_factors && spec.source != Number::f32;
}
/// The numbers of a lane in registers: x as it is in memory, or h in f32.
constexpr Quantizer held_as(const RowSpec& spec) {
    return {.source = spec.activates ? Number::f32 : spec.source, .vectors = spec.vectors};
}
constexpr CopySpec copy_of(const RowSpec& spec) {
    return {.scaled = spec.output == RowOutput::scaled_rows ? ScaledBy::token : ScaledBy::token_block,
            .storage = spec.storage,
            .powers = spec.rounds_up};
}
constexpr BlockSpec block_of(const RowSpec& spec) {
    return {.source = spec.source,
            .format = spec.storage == ValueFormat::e5m2 ? BlockFormat::mxfp8_e5m2 : BlockFormat::mxfp8_e4m3,
            .round_up = spec.rounds_up,
            .vectors = spec.vectors};
}

// A lane has 16 features: 32 bytes of bf16, and 16 bytes of fp8.
/// Lanes that share a scale; 0: all lanes of the block.
constexpr int scale_lanes(RowOutput output) {
    return output == RowOutput::mx ? 2 : output == RowOutput::scaled_blocks ? row_lanes : 0;
}
/// With a scale per row, a block has the whole row: up to 8192 features in registers.
constexpr int most_threads(const RowSpec& spec) { return spec.output == RowOutput::scaled_rows ? 512 : 256; }
/// Blocks per SM, as far as registers allow: 64 per thread. Addresses of single elements take more.
constexpr int blocks_per_sm(const RowSpec& spec) { return (spec.vectors ? 1024 : 512) / most_threads(spec); }
inline constexpr int part_step = 128;  // features: parts of a row begin at multiples
inline constexpr int copy_threads = 256;
inline constexpr int copy_bytes = 16;  // of a lane
inline constexpr int combine_threads = 256;
inline constexpr int combine_features = 8;  // of a lane
inline constexpr int combine_blocks = 4;    // of an SM at once
/// Rows whose loads are in flight at once, because registers limit them. Rows of f32 are sums of ranks, which are few.
constexpr int combine_rows(const CombineSpec& spec) { return spec.rows == Number::f32 ? 2 : 8; }

inline constexpr int announce_threads = 256;
inline constexpr int meet_threads = 512;
inline constexpr int meet_ahead = 4;               // numbers of a thread whose loads are in flight at once
inline constexpr int found_ahead = 8;              // choices of a token, likewise
inline constexpr int most_barrier_blocks = 32;     // each of them waits
inline constexpr int most_combining_blocks = 128;  // the same, of a kernel that sums after the barrier

inline constexpr int unit_threads = 256;  // of kernels of gradients
inline constexpr int unit_features = 8;   // of a lane at a time

inline constexpr int most_fused_choices = 1024;
inline constexpr int fused_ahead = 8;  // choices of a thread whose loads are in flight at once
inline constexpr int most_routed_experts = 2048;
// `route` is one cluster. Not all GPUs run clusters of more than `portable_cluster` blocks.
inline constexpr int portable_cluster = 8;
inline constexpr int most_route_blocks = 16;
inline constexpr int route_threads = 512;  // of a block
inline constexpr int route_warps = route_threads / warp_threads;
inline constexpr int route_ahead = 4;  // choices of a lane whose loads are in flight at once
inline constexpr int route_thread_experts = most_routed_experts / route_threads;

/// The words per choice that `route` keeps in shared memory.
enum class RouteKeeps : unsigned char {
    nothing,  // warps count twice
    places,   // the expert, and the place among the warp's choices of the expert
    order,    // also the block's choices by expert and their weights: adjacent rows are stored together
};

// Shared memory, in bytes.
inline constexpr int row_shared_bytes = 16 * 4;                                           // RowShared
inline constexpr int fused_shared_bytes = row_shared_bytes + 2 * 4 * most_fused_choices;  // FusedShared
/// Choices of a warp.
constexpr int choices_of_warp(int total, int warps) { return round_up(ceil_div(total, warps), warp_threads); }
constexpr int words_per_choice(RouteKeeps keeps) {
    return keeps == RouteKeeps::order ? 3 : keeps == RouteKeeps::places ? 1 : 0;
}
/// RouteShared, totals and shifts by expert, counts of each warp by expert, and words of each choice.
constexpr long long route_shared_bytes(int experts, int total, RouteKeeps keeps, int blocks) {
    const long long choices = 1LL * route_warps * choices_of_warp(total, blocks * route_warps);
    return 4LL * (2 * warp_threads + 1 + (route_warps + 2) * experts + words_per_choice(keeps) * choices);
}
inline constexpr int most_route_shared = 227 * 1024;
constexpr int shared_bytes(const RowSpec& spec) {
    return spec.routes ? fused_shared_bytes : spec.output == RowOutput::scaled_rows ? row_shared_bytes : 0;
}
constexpr int shared_bytes(const CopyRowsSpec& spec) { return spec.routes ? fused_shared_bytes : 0; }

/// Calls visit.field, like visit_fields of a quantizer.
template <class Visitor>
constexpr void visit_fields(const RowSpec& spec, Visitor& visit) {
    visit.field("source", spec.source);
    visit.field("activates", spec.activates);
    visit.field("unit", spec.unit);
    visit.field("interleaved", spec.interleaved);
    visit.field("output", spec.output);
    visit.field("storage", spec.storage);
    visit.field("rounds_up", spec.rounds_up);
    visit.field("has_factors", spec.has_factors);
    visit.field("routes", spec.routes);
    visit.field("from_ranks", spec.from_ranks);
    visit.field("announces", spec.announces);
    visit.field("meets", spec.meets);
    visit.field("vectors", spec.vectors);
}

template <class Visitor>
constexpr void visit_fields(const CopyRowsSpec& spec, Visitor& visit) {
    visit.field("routes", spec.routes);
    visit.field("from_ranks", spec.from_ranks);
    visit.field("announces", spec.announces);
    visit.field("meets", spec.meets);
}

template <class Visitor>
constexpr void visit_fields(const CombineSpec& spec, Visitor& visit) {
    visit.field("rows", spec.rows);
    visit.field("out", spec.out);
    visit.field("vectors", spec.vectors);
    visit.field("from_ranks", spec.from_ranks);
    visit.field("to_ranks", spec.to_ranks);
    visit.field("meets", spec.meets);
}

}  // namespace tilewright::hopper
