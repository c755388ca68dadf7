// The description of a kernel: the one template parameter of `gemm`. Its fields are chosen in four places. The recipes
// of the operands decide the order and the sides. The grouping and layout of the call decide the groups, and which
// operands lie along their rows. The planner chooses the shape. The addresses and strides of the call decide the output
// and the order of scales. design.h computes everything that follows from it. C++20 without standard headers, because
// NVRTC and the host compile it.
#pragma once

#include "formats/order.h"

namespace tilewright::hopper {

inline constexpr int warp_threads = 32;
inline constexpr int warpgroup_threads = 128;
inline constexpr int warpgroup_warps = 4;
inline constexpr int step_k = 32;  // k-elements per scale of 1x32: a step

/// A format that the tensor core multiplies.
enum class ValueFormat : unsigned char { e4m3, e5m2, bf16 };

/// How the values of an operand lie in memory.
enum class Form : unsigned char {
    rows,     // Contiguous along k.
    columns,  // Contiguous along the operand's rows (m of A, n of B): MN-major.
    // FP4 weights: tiles of e2m1 values and scales (src/formats/packed_layout.h), which the kernel decodes.
    tiles,
    // FP4 weights that are read in place: values in rows along k, and tiles with only the data that follow the values.
    rows_and_tiles,
};

/// One operand. Its scales have one value per `scale_rows` rows and `scale_k` k-elements. `Kernel::order` says when
/// they multiply the sums.
struct Side {
    ValueFormat values = ValueFormat::e4m3;  // of FP4 weights: what they are decoded to
    Form form = Form::rows;
    /// 1 or 128; 0: no scales. Scales of a tensor count as scales of its rows.
    int scale_rows = 1;
    /// 128 or 32; 16: NVFP4, whose scales are decoded with the values, so that only the tensor's scale is left. 0: all
    /// of k, or, if sums are scaled per 32 k-elements, any multiple of 32, which the strides of the scales tell.
    int scale_k = 0;

    constexpr bool is_packed() const { return form == Form::tiles || form == Form::rows_and_tiles; }
    constexpr bool is_nvfp4() const { return scale_k == 16; }
    constexpr bool operator==(const Side&) const = default;
};

/// The groups of a product, whose sizes only the device knows.
enum class Groups : unsigned char {
    none,        // One product, or a batch.
    rows,        // Groups of rows of A and D: m-grouped and masked.
    k_aligned,   // k-grouped; groups begin at multiples of 128.
    k_anywhere,  // k-grouped; groups begin anywhere, or are one matrix after another; each has its own tensor maps.
};

/// The outputs that a kernel can write. Code for calls that a kernel does not serve costs time even if it never runs
/// (docs/hopper_lessons.md).
enum class Output : unsigned char {
    any,          // Every format, alpha, C and address; also k = 0.
    bf16_by_tma,  // bf16 by TMA; alpha 1, no C, k > 0.
    f32_by_tma,   // f32 by TMA, C too, any alpha; k > 0.
};

/// The dimensions of the tensor core: m counts rows of mma A (64 per wgmma), n counts rows of mma B (8 to 256).
struct Shape {
    int m = 128;
    int n = 128;
    int warpgroups = 2;  // warpgroups that multiply, m / warpgroups rows each

    constexpr bool operator==(const Shape&) const = default;
};

/// The blocks of a cluster, which share an operand or split k: at most one of the numbers is not 1.
struct Cluster {
    int rows = 1;     // neighbours along D's rows, to which B's tile is multicast
    int columns = 1;  // neighbours along D's columns, to which A's tile is multicast
    /// Blocks of one tile of D: each multiplies a slice of k, and the slices are added in ascending order.
    int k_slices = 1;

    constexpr int size() const { return rows * columns * k_slices; }
    constexpr bool shares_operand() const { return rows * columns > 1; }
    constexpr bool operator==(const Cluster&) const = default;
};

/// For tests.
struct Debug {
    /// Every lane arrives on mbarriers, because compute-sanitizer's racecheck does not follow __syncwarp to the
    /// electing lane (172 false reports on the shipped kernels). Only without a cluster.
    bool every_lane_arrives = false;
    /// Warps write their events and the SM's clock to memory after the report (block/stamps.h). Do not time calls with
    /// it.
    bool stamps = false;

    constexpr bool operator==(const Debug&) const = default;
};

struct Kernel {
    Shape shape{};
    int stages = 4;
    /// mma A is the weights (B) and mma B the tokens (A), for few tokens: n has steps of 8, m of 64.
    bool swap_ab = false;
    Cluster cluster{};
    /// The order that the CPU executes for the same recipes.
    CanonicalOrder order{.chain = 128, .a = ScaleUse::end, .b = ScaleUse::end};
    Side a{};
    Side b{};
    /// Rows of packed weights may be wide, and then have `wide_order` (docs/numerics.md).
    bool wide_rows = false;
    Groups groups = Groups::none;
    Output output = Output::any;
    /// A kernel for D of bf16 loads 1x128 scales that are adjacent along rows, by TMA. Or it loads those along k: of A
    /// by TMA, four k-blocks at a time, and f32 scales in any strides by copies. Other kernels load both.
    bool scales_along_k = false;
    Debug debug{};

    constexpr bool is_k_grouped() const { return groups == Groups::k_aligned || groups == Groups::k_anywhere; }
    constexpr bool operator==(const Kernel&) const = default;
};

/// Calls visit.group(name, fields) for each nested struct, where fields() visits its members, and
/// visit.field(name, value) for each member, in order of declaration. The kernel's name for NVRTC is made of this list.
template <class Visitor>
constexpr void visit_fields(const Kernel& kernel, Visitor& visit) {
    const auto side = [&](const char* name, const Side& of) {
        visit.group(name, [&] {
            visit.field("values", of.values);
            visit.field("form", of.form);
            visit.field("scale_rows", of.scale_rows);
            visit.field("scale_k", of.scale_k);
        });
    };
    visit.group("shape", [&] {
        visit.field("m", kernel.shape.m);
        visit.field("n", kernel.shape.n);
        visit.field("warpgroups", kernel.shape.warpgroups);
    });
    visit.field("stages", kernel.stages);
    visit.field("swap_ab", kernel.swap_ab);
    visit.group("cluster", [&] {
        visit.field("rows", kernel.cluster.rows);
        visit.field("columns", kernel.cluster.columns);
        visit.field("k_slices", kernel.cluster.k_slices);
    });
    visit.group("order", [&] {
        visit.field("step", kernel.order.step);
        visit.field("chain", kernel.order.chain);
        visit.field("a", kernel.order.a);
        visit.field("b", kernel.order.b);
        visit.field("folded", kernel.order.folded);
        visit.field("defers", kernel.order.defers);
    });
    side("a", kernel.a);
    side("b", kernel.b);
    visit.field("wide_rows", kernel.wide_rows);
    visit.field("groups", kernel.groups);
    visit.field("output", kernel.output);
    visit.field("scales_along_k", kernel.scales_along_k);
    if (kernel.debug == Debug{}) return;  // for tests only: not part of the names of kernels that ship
    visit.group("debug", [&] {
        visit.field("every_lane_arrives", kernel.debug.every_lane_arrives);
        visit.field("stamps", kernel.debug.stamps);
    });
}

}  // namespace tilewright::hopper
