// The parameter of a kernel: the same struct for the GPU, the host that fills it in and the emulator.
#pragma once

#include "hopper/ptx/types.h"
#include "hopper/schedule/dense.h"

namespace tilewright::hopper {

/// A tensor map before the driver (or the emulator) encodes it. Dimension 0 is the contiguous one.
struct TensorMapDescription {
    const void* base;
    int element_bytes;  // 1, 2 or 4
    u64 sizes[3];       // elements
    u64 strides[2];     // bytes from one index of dimensions 1 and 2 to the next
    u32 box[3];         // elements that one copy moves
    bool swizzled;      // as wide as rows of the box: of 128 B, byte address bits 4..6 are XORed with bits 7..9; of
                        // 64 B, bits 4..5 with bits 7..8
};

enum class ScaleFormat : u8 { f32, ue8m0 };

/// Scale factors of one operand. Index (row block, k block), strides in elements.
struct ScaleView {
    const void* data;  // null: every scale is 1
    i64 batch_stride;
    i64 row_stride;
    i64 k_stride;
    int rows;      // row blocks
    int k_blocks;  // along k; 1 where scales do not vary along k
    ScaleFormat format;
};

enum class OutputFormat : u8 { bf16, f16, f32 };
constexpr int element_bytes(OutputFormat format) { return format == OutputFormat::f32 ? 4 : 2; }

struct OutputView {
    void* data;  // null: neither C nor a bias is given
    i64 batch_stride;
    i64 row_stride;
    i64 column_stride;
};

/// A thread whose waits took too long, in one word; zero: there is none.
struct Timeout {
    u64 word;

    /// `budget`: what is left of the thread's wait budget.
    static constexpr u64 pack(u32 block, u32 thread, int budget) {
        return u64(1) << 63 | u64(budget >> 24 & 0x7F) << 48 | u64(block) << 16 | (thread & 0xFFFF);
    }
    constexpr u32 block() const { return u32(word >> 16); }
    constexpr int thread() const { return int(word & 0xFFFF); }
    /// `none` where the wait did not record it.
    constexpr BarrierName barrier() const {
        const u32 recorded = u32(word >> 48 & 0x7F);
        return recorded == 0x7F ? BarrierName::none : BarrierName(recorded);
    }
};

/// A row whose index breaks the promise of GroupSizes::alignment, in one word; zero: there is none.
struct MixedRow {
    u64 word;

    /// `first_group`: of the first row of its block. Groups beyond the last that fits are reported as that one.
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

/// The last producer and the last consumer that timed out, and the last bad row index. In host memory, so that the host
/// reads it without a copy.
struct KernelReport {
    Timeout producer;
    Timeout consumer;
    MixedRow mixed;
};

/// What a warp of a kernel with stamps came to.
enum class Event : u8 {
    none,
    waits_empty,  // load: for a stage of the ring
    loads,        // it has one
    waits_full,   // multiply: for a k-block
    multiplies,   // it is there
    released,     // its products are in the partial accumulator; what follows promotes them
    epilogue,     // multiply: D leaves the registers; for each part of D that leaves separately
    staged,       // it is in shared memory
};

/// In one word, of the SM's clock when it came to it. Behind the report each warp of each block has `per_warp` of them,
/// in the order of time; the first of no event ends them.
struct Stamp {
    u64 word;

    /// (A variable would move those of kernels that write tensor maps.)
    static constexpr int per_warp() { return 512; }
    static constexpr Stamp pack(Event event, u64 clock) { return {u64(event) << 56 | (clock & ~u64(0) >> 8)}; }
    constexpr Event event() const { return Event(word >> 56); }
    constexpr u64 clock() const { return word & ~u64(0) >> 8; }
};

/// What the entries of GroupSizes mean.
enum class SizeKind : u8 {
    ends,     // the row at which each group ends; the next begins there, rounded up to the alignment
    counts,   // rows of each group, which has a separate matrix
    indices,  // the group of each row
};

/// The rows of groups, in the device's memory. They are clamped wherever they are read.
struct GroupSizes {
    const void* data;
    i64 stride;      // elements from one size to the next; of indices: from that of a block of rows to the next block's
    i64 row_stride;  // of indices: from that of a row to the next row's
    int alignment;   // rows, 1 or more. Ends: where groups begin. Indices: of a block, which has one group
    int blocks;      // of indices
    SizeKind kind;
    bool is_64_bit;
};

/// k_mapped: an operand whose groups begin where only the device knows.
struct GroupedOperand {
    const u8* values;
    i64 stride;  // bytes from a row to the next
    bool flat;   // a group's matrix follows that of the group before; the stride of a row is its k

    /// The first of `rows` rows of a group that `begin` of k are before.
    constexpr const u8* at(i64 begin, int rows) const { return values + (flat ? begin * rows : begin); }
    constexpr i64 stride_of(i64 k) const { return flat ? k : stride; }
};

/// Both, from which the maps of groups are made. They are passed as a map that such kernels do not need (a_last): a
/// separate member, or a union, changes the machine code of other kernels.
struct GroupValues {
    GroupedOperand a;
    GroupedOperand b;
    int columns;  // of the operands' scales along k: groups that need more lose the k beyond

    constexpr bool any_flat() const { return a.flat || b.flat; }

    TensorMap packed() const {
        return {{reinterpret_cast<u64>(a.values), reinterpret_cast<u64>(b.values), u64(a.stride), u64(b.stride),
                 u64(columns), u64(a.flat) | u64(b.flat) << 1}};
    }
    static GroupValues unpacked(const TensorMap& map) {
        const u64(&words)[16] = map.words;
        return {.a = {reinterpret_cast<const u8*>(words[0]), i64(words[2]), (words[5] & 1) != 0},
                .b = {reinterpret_cast<const u8*>(words[1]), i64(words[3]), (words[5] & 2) != 0},
                .columns = int(words[4])};
    }
};

/// Where packed weights have their tiles. Passed in place of the map of B.
struct PackedTiles {
    const u8* first;  // of group 0
    int row_tiles;    // of 64 rows, of a group
    int k_blocks;
    int tile_bytes;  // what the kernel knows, but for weights with wide rows

    /// The tile of rows 64 `row_tile`, next to that of the other half of their 128 rows.
    const u8* at(int group, int row_tile, int k_block, int bytes) const {
        const int pair = row_tile / 2 * 2;
        const i64 tile = (i64(group) * row_tiles + pair) * k_blocks + k_block * together(pair) + row_tile % 2;
        return first + tile * bytes;
    }
    /// Tiles that are next to each other, from that of an even number on.
    int together(int row_tile) const { return min(row_tiles - row_tile, 2); }

    TensorMap as_map() const {
        return {{reinterpret_cast<u64>(first), u64(row_tiles), u64(k_blocks), u64(tile_bytes)}};
    }
    static PackedTiles from_map(const TensorMap& map) {
        return {.first = reinterpret_cast<const u8*>(map.words[0]),
                .row_tiles = int(map.words[1]),
                .k_blocks = int(map.words[2]),
                .tile_bytes = int(map.words[3])};
    }
};

/// D = C + alpha * (A scales_a) (B scales_b)^T for `batch` pairs of matrices; grouped: for rows of A that follow from
/// `sizes`, each group with a matrix of B.
struct Arguments {
    TensorMap a;              // (k, row, batch), or (row, k, batch) if it is mn-major
    TensorMap a_last;         // dense: in boxes for the last row of tiles; k_mapped: GroupValues
    TensorMap b;              // the same; packed weights: PackedTiles; raw codes: (byte, row, batch)
    TensorMap d;              // (column, row, batch), if stored_by_tma
    TensorMap a_scales;       // if scales_by_tma: (row and k block, 1, batch), or (k block, row, batch) by row
    TensorMap a_scales_last;  // the same, by row; stores_f32: C, if given, for a separate member changes other kernels
    TensorMap b_scales;       // (row and k block, 1, batch), if scales_by_tma and B has scales of rows; raw codes:
                              // PackedTiles of what follows them
    ScaleView scales_a;
    ScaleView scales_b;
    OutputView output;
    OutputView addend;  // C, or the bias, whose row stride is 0; its matrices are those of B
    OutputFormat format;
    bool stored_by_tma;
    bool scales_by_tma;
    OutputFormat addend_format;  // here, where no other member moves for it
    float alpha;
    int m;
    int n;
    int k;
    int batch;                  // or groups
    int raster_width;           // of grouped problems: Extent::raster_width
    SchedulerParams scheduler;  // of dense problems
    KernelReport* report;
    GroupSizes sizes;  // of grouped problems
};

}  // namespace tilewright::hopper
