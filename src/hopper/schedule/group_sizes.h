// Turns group sizes in the device's memory into ranges of rows, each with one group of B. It handles 32 groups at a
// time, one per lane of a warp. Sizes are never trusted: they are clamped to the rows that exist, as in
// src/problem/geometry.cpp.
//
// A block multiplies nothing until its first tile is found, and one warp takes 4 to 5 clocks per instruction. So calls
// of few groups are read first of all, and few instructions follow.
#pragma once

#include "hopper/arguments.h"
#include "hopper/ptx/integers.h"

namespace tilewright::hopper {

struct RowRange {
    int begin;
    int end;
    int group;
};

TILEWRIGHT_DEVICE i64 size_at(const GroupSizes& sizes, int index) {
    return load_integer(sizes.data, sizes.is_64_bit, index * sizes.stride);
}

/// Fetches the first `count` sizes into L2. Each block fetches a part, because all blocks will read all sizes at about
/// the same time.
TILEWRIGHT_DEVICE void prefetch_sizes(const GroupSizes& sizes, int count, int block, int blocks) {
    const int sizes_per_sector = sizes.is_64_bit ? 4 : 8;  // one prefetch fetches 32 bytes
    const i64 lane = block * warp_threads + lane_index(), lanes = blocks * warp_threads;
    for (i64 index = lane * sizes_per_sector; index < count; index += lanes * sizes_per_sector) {
        prefetch_global(static_cast<const u8*>(sizes.data) + int(index) * sizes.row_stride * (sizes.is_64_bit ? 8 : 4));
    }
}

/// Sizes that a lane has read ahead: its entry of the current 32, and the entries 32, 64 and 96 later.
inline constexpr int sizes_per_lane = 4;
inline constexpr int sizes_at_once = sizes_per_lane * warp_threads;
using SizeWindow = int[sizes_per_lane];

/// The lane's entry among the 32 that begin at entry 32 * `part` of the window. Every register index is known at
/// compile time.
TILEWRIGHT_DEVICE int entry_of(const SizeWindow& window, int part) {
    int entry = window[0];
#pragma unroll
    for (int i = 1; i < sizes_per_lane; ++i) entry = part == i ? window[i] : entry;
    return entry;
}

/// Runs of equal row indices, in ascending order of rows. If blocks of rows have one group, only the first index of a
/// block is read, and "row" here means a block.
class IndexRuns {
public:
    /// A run ends after `longest` rows and the next one begins. A long run's tiles can thus begin before its end is
    /// found.
    TILEWRIGHT_DEVICE IndexRuns(const GroupSizes& sizes, int groups, int rows, int longest)
        : sizes_(sizes), groups_(groups), rows_(rows), longest_(longest) {}

    /// Finds a run for each lane, often without rows. False: no rows are left. The caller keeps `later` between calls.
    TILEWRIGHT_DEVICE bool next(RowRange& run, SizeWindow& later) {
        while (true) {
            if (last_ >= 0 && row_ - begin_ > longest_) {
                run = {.begin = begin_, .end = lane_index() == 0 ? begin_ + longest_ : begin_, .group = last_};
                begin_ += longest_;
                return true;
            }
            if (row_ > rows_) return false;  // the last run has ended
            if (row_ % sizes_at_once == 0) find_ends(later);
            const int part = row_ % sizes_at_once / warp_threads;
            if (ending_ == 0) {
                row_ += sizes_at_once;
                if (last_ < 0 || row_ - begin_ >= leap) skip_rows(later);
            } else if ((ending_ >> part & 1) != 0) {
                run = take_runs(part);
                if (ballot(run.end > run.begin) != 0) return true;
            } else {
                row_ += warp_threads;
            }
        }
    }

private:
    static constexpr int quads = 4;  // quads of rows that a lane compares at once inside of a long run
    static constexpr int leap = quads * 4 * warp_threads;
    static constexpr int no_group = -1;      // any index out of range
    static constexpr int past_the_end = -2;  // no row

    TILEWRIGHT_DEVICE bool is_adjacent() const { return sizes_.stride == 1 && !sizes_.is_64_bit; }
    TILEWRIGHT_DEVICE const int* adjacent() const { return static_cast<const int*>(sizes_.data); }
    TILEWRIGHT_DEVICE int group_of(i64 index) const { return index >= 0 && index < groups_ ? int(index) : no_group; }

    TILEWRIGHT_DEVICE void read(SizeWindow& to, int row) const {
        const int first = row + lane_index();
        // One warp is slow, so the usual case takes few instructions (docs/hopper_lessons.md).
        if (is_adjacent() && row + sizes_at_once <= rows_) {
            const int* const from = adjacent() + first;
#pragma unroll
            for (int i = 0; i < sizes_per_lane; ++i) to[i] = group_of(load_global(from + i * warp_threads));
            return;
        }
#pragma unroll
        for (int i = 0; i < sizes_per_lane; ++i) {
            const int at = first + i * warp_threads;
            to[i] = at < rows_ ? group_of(size_at(sizes_, at)) : past_the_end;
        }
    }

    /// The index of the row that precedes this lane's row. `open` is the index that precedes lane 0's row.
    TILEWRIGHT_DEVICE static int index_before(int index, int open) {
        const int left = from_lane(index, lane_index() - 1);
        return lane_index() == 0 ? open : left;
    }

    /// Finds where runs end among the next sizes_at_once rows.
    TILEWRIGHT_DEVICE void find_ends(SizeWindow& later) {
        if (row_ == 0) read(later, 0);
        bool differs = false;
#pragma unroll
        for (int i = 0; i < sizes_per_lane; ++i) {
            now_[i] = later[i];
            differs = differs || now_[i] != last_;
        }
        read(later, row_ + sizes_at_once);
        ending_ = 0;
        if (ballot(differs) == 0) return;
        int open = last_;
#pragma unroll
        for (int i = 0; i < sizes_per_lane; ++i) {
            if (ballot(now_[i] != index_before(now_[i], open)) != 0) ending_ |= 1 << i;
            open = from_lane(now_[i], warp_threads - 1);
        }
    }

    /// Skips rows of the open run, many at a time.
    TILEWRIGHT_DEVICE void skip_rows(SizeWindow& later) {
        if (!is_adjacent() || reinterpret_cast<u64>(adjacent()) % sizeof(IntQuad) != 0) return;
        const int end = last_ < 0 || rows_ - begin_ < longest_ ? rows_ : begin_ + longest_;
#pragma unroll 1
        for (; row_ + leap <= end; row_ += leap) {
            const IntQuad* const from = reinterpret_cast<const IntQuad*>(adjacent() + row_) + lane_index();
            int differs[quads] = {};
            int any = 0;
#pragma unroll
            for (int i = 0; i < quads; ++i) {
                const IntQuad four = load_global(from + i * warp_threads);
#pragma unroll
                for (int value : four.values) differs[i] |= value ^ last_;
                any |= differs[i];
            }
            if (ballot(any != 0) == 0) continue;
            int same = 0;
#pragma unroll
            for (int i = 0; i < quads; ++i) same += same == i && ballot(differs[i] != 0) == 0 ? 1 : 0;
            row_ += same * sizes_at_once;
            break;
        }
        read(later, row_);
    }

    /// For each lane, the run that ends ahead of its row, one of the 32 from row_ on; advances row_.
    TILEWRIGHT_DEVICE RowRange take_runs(int part) {
        const int index = entry_of(now_, part);
        const int lane = lane_index(), before = index_before(index, last_);
        const u32 ends = ballot(index != before), earlier = ends & ((1U << lane) - 1);
        RowRange run{.begin = earlier != 0 ? row_ + highest_bit(earlier) : begin_, .end = row_ + lane, .group = before};
        if (index == before || before < 0) run.end = run.begin;
        last_ = from_lane(index, warp_threads - 1);
        begin_ = row_ + highest_bit(ends);
        row_ += warp_threads;
        return run;
    }

    const GroupSizes& sizes_;
    int groups_;
    int rows_;
    int longest_;
    int row_ = 0;          // the first whose run has not ended
    int begin_ = 0;        // of the open run
    int last_ = no_group;  // the open run's group
    SizeWindow now_ = {};
    int ending_ = 0;  // one bit per 32 rows: whether a run ends among them
};

/// The row ranges of one problem, for all kinds of sizes.
class GroupRanges {
public:
    TILEWRIGHT_DEVICE GroupRanges(const GroupSizes& sizes, int groups, int rows, int longest)
        : sizes_(sizes), groups_(groups), rows_(rows), runs_(sizes, groups, sizes.blocks, longest) {
        if (has_few() && lane_index() < entries()) window_[0] = in_32_bits(size_at(sizes_, lane_index()));
    }

    /// Called by all blocks of the grid ahead of the first range.
    TILEWRIGHT_DEVICE void prefetch(int block, int blocks) const {
        if (has_few()) return;  // the constructor has read them
        prefetch_sizes(sizes_, sizes_.kind == SizeKind::indices ? rows_ : groups_, block, blocks);
    }

    /// Finds a range for each lane, possibly without rows. False: no ranges are left.
    TILEWRIGHT_DEVICE bool next(RowRange& range) {
        if (has_few()) return all_ranges(range);
        if (sizes_.kind == SizeKind::indices) {
            if (!runs_.next(range, window_)) return false;
            range.begin = first_row(range.begin);
            range.end = first_row(range.end);
            return true;
        }
        while (group_ < groups_) {
            if (group_ % sizes_at_once == 0) read_sizes();
            const int size = entry_of(window_, group_ % sizes_at_once / warp_threads);
            group_ += warp_threads;
            if (ballot(size > begin_) == 0) continue;  // 32 empty groups: there is nothing to add
            range = {.begin = 0, .end = size, .group = group_ - warp_threads + lane_index()};
            if (sizes_.kind == SizeKind::ends) begin_where_last_ends(range);
            return true;
        }
        return false;
    }

private:
    /// Reads the sizes of the next 128 groups. All loads are issued before the first result is used, because most of
    /// 512 groups may be empty. A memory latency per 32 of them would take longer than the product of the others.
    TILEWRIGHT_DEVICE void read_sizes() {
        if (sizes_.is_64_bit) {
            read_sizes_as<i64>();
        } else {
            read_sizes_as<int>();
        }
    }
    template <class Size>
    TILEWRIGHT_DEVICE void read_sizes_as() {
        const Size* from = static_cast<const Size*>(sizes_.data) + (group_ + lane_index()) * sizes_.stride;
        Size sizes[sizes_per_lane];
#pragma unroll
        for (int i = 0; i < sizes_per_lane; ++i, from += warp_threads * sizes_.stride) {
            sizes[i] = group_ + i * warp_threads + lane_index() < groups_ ? load_global(from) : 0;
        }
#pragma unroll
        for (int i = 0; i < sizes_per_lane; ++i) window_[i] = clamped(sizes[i], rows_);
    }

    TILEWRIGHT_DEVICE int entries() const { return sizes_.kind == SizeKind::indices ? sizes_.blocks : groups_; }
    TILEWRIGHT_DEVICE bool has_few() const { return entries() <= warp_threads; }

    /// Clamped to 32 bits, which keeps every entry that may be valid.
    TILEWRIGHT_DEVICE static int in_32_bits(i64 size) {
        return size != int(size) ? (size < 0 ? -1 : int(~0U >> 1)) : int(size);
    }

    /// All ranges of at most 32 entries at once.
    TILEWRIGHT_DEVICE bool all_ranges(RowRange& range) {
        if (group_ > 0) return false;
        group_ = 1;
        const int lane = lane_index(), entry = window_[0];
        if (sizes_.kind == SizeKind::indices) {
            range = run_from(lane < sizes_.blocks && entry < groups_ ? entry : -1);
        } else {
            range = {.begin = 0, .end = clamped(entry, rows_), .group = lane};
            if (sizes_.kind == SizeKind::ends) begin_where_last_ends(range);
        }
        return true;
    }

    /// The lane of a run's first block has the run. (IndexRuns finds the same runs, but its first one later.)
    TILEWRIGHT_DEVICE RowRange run_from(int group) const {
        const int lane = lane_index(), before = from_lane(group, lane - 1);
        const u32 begins = ballot(lane == 0 || group != before), later = begins & ~((2U << lane) - 1);
        RowRange run{
            .begin = first_row(lane), .end = first_row(later != 0 ? lowest_bit(later) : sizes_.blocks), .group = group};
        if (group < 0 || (begins >> lane & 1) == 0) run.end = run.begin;
        return run;
    }

    /// The beginning of a block of rows (indices), or the end of all rows.
    TILEWRIGHT_DEVICE int first_row(int block) const {
        const u32 row = u32(block) * u32(sizes_.alignment);
        return row < u32(rows_) ? int(row) : rows_;
    }

    TILEWRIGHT_DEVICE void begin_where_last_ends(RowRange& range) {
        range.begin = begin_after_earlier(next_aligned(range.end, sizes_.alignment, rows_), begin_);
        if (range.end < range.begin) range.end = range.begin;
    }

    const GroupSizes& sizes_;
    int groups_;
    int rows_;
    int group_ = 0;           // of the next range; few entries: 1 after their ranges were found
    int begin_ = 0;           // the beginning of the next range
    SizeWindow window_ = {};  // few entries: the lane's one; indices: the sizes after the rows that `runs_` examines
    IndexRuns runs_;
};

// ---- Row indices in blocks of rows of one group (GroupSizes::alignment). The schedule reads only the first index of a
// block. The others are compared with it while the kernel multiplies. D of a row of another group is the product with
// the first row's group.

/// The group of a row. A negative value means no group.
TILEWRIGHT_DEVICE int group_of_row(const GroupSizes& sizes, int groups, u32 row) {
    const i64 group = load_integer(sizes.data, sizes.is_64_bit, row * sizes.row_stride);
    return group >= 0 && group < groups ? int(group) : -1;
}

/// Reports rows of another group. Called by one warp of each block of the grid. Together they check all rows, including
/// rows that no tile has.
TILEWRIGHT_DEVICE void report_mixed_rows(const Arguments& arguments) {
    const GroupSizes& sizes = arguments.sizes;
    if (sizes.kind != SizeKind::indices || sizes.alignment <= 1) return;
    const u32 rows = arguments.m, step = block_count() * warp_threads;
#pragma unroll 1
    for (u32 row = block_index() * warp_threads + lane_index(); row < rows; row += step) {
        const int group = group_of_row(sizes, arguments.batch, row);
        const int first = group_of_row(sizes, arguments.batch, row - row % u32(sizes.alignment));
        if (group >= 0 && group != first) {
            store_global(&arguments.report->mixed.word, MixedRow::pack(int(row), group, first));
        }
    }
}

}  // namespace tilewright::hopper
