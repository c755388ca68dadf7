// The parameter of a kernel. The GPU, the host that fills it in, and the emulator use this one struct.
#pragma once

#include "base/math.h"
#include "hopper/ptx/types.h"
#include "hopper/schedule/dense.h"

namespace tilewright::hopper {

/// A tensor map before the driver (or the emulator) encodes it. Dimension 0 is the contiguous one.
struct TensorMapDescription {
    const void* base;
    int element_bytes;  // 1, 2 or 4.
    u64 sizes[3];       // Elements.
    u64 strides[2];     // Bytes between consecutive indices of dimensions 1 and 2.
    u32 box[3];         // Elements that one copy moves.
    // The swizzle is as wide as a row of the box. 128 B: byte address bits 4..6 are XORed with bits 7..9. 64 B: bits
    // 4..5 are XORed with bits 7..8.
    bool swizzled;
};

enum class ScaleFormat : u8 { f32, ue8m0 };

/// Scale factors of one operand. The index is (row block, k block); strides count elements.
struct ScaleView {
    const void* data;  // null: every scale is 1
    i64 batch_stride;
    i64 row_stride;
    i64 k_stride;
    int rows;      // row blocks
    int k_blocks;  // along k; 1 if scales do not vary along k
    ScaleFormat format;
};

enum class OutputFormat : u8 { bf16, f16, f32 };
constexpr int element_bytes(OutputFormat format) { return format == OutputFormat::f32 ? 4 : 2; }

struct OutputView {
    void* data;  // null: the call has neither C nor a bias
    i64 batch_stride;
    i64 row_stride;
    i64 column_stride;
};

/// A thread whose waits timed out, packed in one word. A word of zero means no thread.
struct Timeout {
    u64 word;

    /// `budget` is the rest of the thread's wait budget.
    static constexpr u64 pack(u32 block, u32 thread, int budget) {
        return u64(1) << 63 | u64(budget >> 24 & 0x7F) << 48 | u64(block) << 16 | (thread & 0xFFFF);
    }
    constexpr u32 block() const { return u32(word >> 16); }
    constexpr int thread() const { return int(word & 0xFFFF); }
    /// `none` if the wait did not record its barrier.
    constexpr BarrierName barrier() const {
        const u32 recorded = u32(word >> 48 & 0x7F);
        return recorded == 0x7F ? BarrierName::none : BarrierName(recorded);
    }
};

/// A row whose index breaks the promise of GroupSizes::alignment, packed in one word. A word of zero means no row.
struct MixedRow {
    u64 word;

    /// `first_group` is the group of the first row of the block. A group number that does not fit is reported as the
    /// largest number that does.
    static constexpr u64 pack(int row, int group, int first_group) {
        return u64(1) << 63 | u64(row) << 32 | u64(field(group)) << 16 | field(first_group);
    }
    constexpr int row() const { return int(word >> 32 & 0x7FFFFFFF); }
    constexpr int group() const { return int(word >> 16 & 0xFFFF) - 1; }
    /// -1: no group.
    constexpr int first_group() const { return int(word & 0xFFFF) - 1; }

private:
    static constexpr u32 field(int group) { return u32(min(group, 0xFFFE) + 1); }
};

/// The last producer and the last consumer that timed out, and the last bad row index. The report is in host memory, so
/// that the host reads it without a copy.
struct KernelReport {
    Timeout producer;
    Timeout consumer;
    MixedRow mixed;
};

/// An event of a warp, in kernels that record stamps.
enum class Event : u8 {
    none,
    begins,       // Load, scheduler: the role begins.
    passes,       // Scheduler: a work tile is in the ring.
    takes,        // Load: has a work tile.
    waits_empty,  // Load: starts to wait for an empty stage.
    loads,        // Load: has an empty stage.
    waits_full,   // Multiply: starts to wait for a k-block.
    multiplies,   // Multiply: the k-block has arrived.
    released,     // Multiply: the k-block's products are in the partial accumulator; promotion follows.
    epilogue,     // Multiply: starts to store D; one event per separately stored part of D.
    staged,       // Multiply: the part is in shared memory.
};

/// An event and the SM's clock at that event, packed in one word. After the report, each warp of each block has
/// `per_warp` stamps in order of time. The first stamp without an event ends the list.
struct Stamp {
    u64 word;

    /// (A function, because a variable would move the variables of kernels that write tensor maps.)
    static constexpr int per_warp() { return 512; }
    static constexpr Stamp pack(Event event, u64 clock) { return {u64(event) << 56 | (clock & ~u64(0) >> 8)}; }
    constexpr Event event() const { return Event(word >> 56); }
    constexpr u64 clock() const { return word & ~u64(0) >> 8; }
};

/// The meaning of the entries of GroupSizes.
enum class SizeKind : u8 {
    ends,     // The row at which each group ends. The next group begins there, rounded up to the alignment.
    counts,   // Rows of each group; each group has its own matrix.
    indices,  // The group of each row.
};

/// The rows of groups, in the device's memory. Kernels clamp the entries wherever they read them.
struct GroupSizes {
    const void* data;
    i64 stride;      // elements between consecutive sizes; indices: between consecutive blocks of rows
    i64 row_stride;  // indices: elements between consecutive rows
    // Rows, at least 1. Ends: groups begin at multiples of it. Indices: rows of a block, which all have one group.
    int alignment;
    int blocks;  // indices: the number of blocks of rows
    SizeKind kind;
    bool is_64_bit;
};

/// Groups::k_anywhere: an operand whose groups begin at positions that only the device knows.
struct GroupedOperand {
    const u8* values;
    i64 stride;  // bytes between consecutive rows
    // The groups' matrices follow one another in memory; the stride of a group's row is the group's k.
    bool flat;

    /// The address of the first of `rows` rows of a group; the groups before it have `begin` k-elements.
    constexpr const u8* at(i64 begin, int rows) const { return values + (flat ? begin * rows : begin); }
    constexpr i64 stride_of(i64 k) const { return flat ? k : stride; }
};

/// Both operands, from which the kernel makes the maps of groups.
struct GroupValues {
    GroupedOperand a;
    GroupedOperand b;
    // Columns of the operands' scales along k. A group that needs more columns loses the k after the last column.
    int columns;

    constexpr bool any_flat() const { return a.flat || b.flat; }
};

/// The location of the tiles of packed weights.
struct PackedTiles {
    const u8* first;  // the tiles of group 0
    int row_tiles;    // row tiles (64 rows each) per group
    int k_blocks;
    int tile_bytes;  // known to the kernel, except for weights with wide rows

    /// The tile of row tile `row_tile`. The two row tiles of 128 rows are adjacent in memory.
    const u8* at(int group, int row_tile, int k_block, int bytes) const {
        const int pair = row_tile / 2 * 2;
        const i64 tile = (i64(group) * row_tiles + pair) * k_blocks + k_block * together(pair) + row_tile % 2;
        return first + tile * bytes;
    }
    /// Row tiles that are adjacent in memory, counted from an even `row_tile`.
    int together(int row_tile) const { return min(row_tiles - row_tile, 2); }
};

/// The parameter of most kernels. D = C + alpha * (A scales_a) (B scales_b)^T for `batch` pairs of matrices. Grouped:
/// for ranges of rows of A, computed from `sizes`; each group has its own matrix of B.
struct Arguments {
    TensorMap a;              // (k, row, batch), or (row, k, batch) if A is MN-major.
    TensorMap a_last;         // Boxes for the last row of tiles; not if groups have rows.
    TensorMap b;              // As a. Values that are read in place: (byte, row, batch). Not for packed tiles.
    TensorMap d;              // (column, row, batch), if stored_by_tma.
    TensorMap a_scales;       // If scales_by_tma: (row and k block, 1, batch), or (k block, row, batch) along k.
    TensorMap a_scales_last;  // The same, along k, for the last row of tiles.
    TensorMap b_scales;       // If scales_by_tma and B has row scales: (row and k block, 1, batch).
    ScaleView scales_a;
    ScaleView scales_b;
    OutputView output;
    OutputView addend;  // C, or the bias with a row stride of 0; one matrix per matrix of B
    OutputFormat format;
    bool stored_by_tma;
    bool scales_by_tma;
    OutputFormat addend_format;
    float alpha;
    int m;
    int n;
    int k;
    int batch;                  // or groups
    int raster_width;           // of grouped problems: Extent::raster_width
    SchedulerParams scheduler;  // of dense problems
    KernelReport* report;
    GroupSizes sizes;  // of grouped problems
    // Groups of rows: earlier kernels of the stream that may still run write neither B, its scales nor the sizes.
    bool weights_ready;
};

/// The parameter of some kernels. A launch copies the bytes of its kernel's parameter, so that the others do not have
/// it.
struct AllArguments : Arguments {
    GroupValues groups_of_k;  // Groups::k_anywhere
    PackedTiles packed;       // packed weights; values read in place: the bytes that follow them in a packed tile
    TensorMap c;              // as d, in kernels for D of f32 if C is given
};

template <Design design>
using ArgumentsOf =
    Chosen<design.groups == Groups::k_anywhere || design.b.is_packed() || design.output == Output::f32_by_tma,
           AllArguments, Arguments>;

/// Whether TMA loads the call's 1x128 scales. It is known ahead of the call where they have one way.
template <Design design>
constexpr bool scales_by_tma(const Arguments& arguments) {
    constexpr ScaleRoute route = design.scale_route;
    return route.tma && ((!route.loads && !route.copies) || arguments.scales_by_tma);
}

}  // namespace tilewright::hopper
