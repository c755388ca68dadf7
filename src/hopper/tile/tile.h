// How a Hopper kernel is cut: the one template parameter of every kernel, and all that follows from it. The planner
// judges candidates by these numbers and the kernel is built from them, so that the two cannot differ.
// Plain C++20 without standard headers: NVRTC and the host compile it.
//
// `m` and `n` are the tensor core's: m counts rows of its first operand (64 a wgmma), n of its second (8 to 256). The
// first operand is A (activations) and the second B (weights); `swap_ab` exchanges them, for few tokens: then m counts
// weights (columns of D) and n tokens (rows of D).
#pragma once

#include "hopper/tile/operand.h"

namespace tilewright::hopper {

/// The operand whose tile is the same for all blocks of a cluster, loaded once and given to each of them.
enum class Multicast : unsigned char { none, a, b };

/// Which problems a kernel walks through.
enum class Family : unsigned char { dense, m_grouped, k_grouped };  // dense: batched too; m_grouped: masked too

/// What a warp does.
enum class Role : unsigned char {
    load,         // fetches operands by TMA
    block_scale,  // brings 128x128 scales, or those of finished sums; grouped: hands out the tiles, too
    row_scale,    // brings scales of rows, k-block by k-block, where TMA cannot
    store,        // sends D to memory by TMA
    spare,
    multiply,
};

inline constexpr int warp_threads = 32;
inline constexpr int warpgroup_threads = 128;
inline constexpr int warpgroup_rows = 64;           // rows of one wgmma
inline constexpr int shared_bytes_limit = 232448;   // of one block on sm_90 (CUDA C++ programming guide, 17.7)
inline constexpr int shared_bytes_per_sm = 233472;  // and a block takes 1 KB more than it asks for; likewise
inline constexpr int registers_per_sm = 65536;      // 32-bit; likewise
inline constexpr int producer_warps = 4;            // one warpgroup, so that setmaxnreg can take its registers
inline constexpr int row_bytes = 128;               // of an operand in a stage: the swizzle's width
inline constexpr int token_box_rows = 32;           // where tokens of groups lie on the tensor core's n
inline constexpr int warp_rows = 16;                // of a wgmma's 64
inline constexpr int final_scale_slots = 2;         // tiles whose final scales are there ahead
inline constexpr int block_scale_slots = 4;         // pieces of k whose 128x128 scales are there ahead
inline constexpr int block_scale_columns = 32;      // k-blocks in such a piece: one for each lane
inline constexpr int work_slots = 4;                // tiles that are handed out ahead, where sizes lie on the device
inline constexpr int work_words = 8;                // of one of them
inline constexpr int store_row_bytes = row_bytes;   // of D in one TMA store, at most
inline constexpr int other_registers = 32;          // of a consumer thread: addresses, scales, loop state

struct Tile {
    int m = 128;
    int n = 128;
    int k = 128;  // elements: 128 bytes of the wider operand, one swizzle row
    int stages = 4;
    /// Blocks: side by side along D's columns if A is shared, along its rows if B is; or one for each slice of k.
    int cluster = 1;
    Multicast multicast = Multicast::none;
    bool swap_ab = false;
    int split_k = 1;     // slices of k, one for each block of the cluster, added in ascending order
    int warpgroups = 2;  // that multiply
    Storage a = Storage::e4m3;
    Storage b = Storage::e4m3;
    Scaling a_scaling = Scaling::after;
    Scaling b_scaling = Scaling::after;
    bool promoted = true;  // fp8: no more than 128 products in the tensor core's own sum
    Family family = Family::dense;
    /// For the common call alone: D bf16 by TMA, alpha 1, scales of rows by TMA. The mere presence of the code for
    /// other calls costs time (docs/tried.md).
    bool plain = false;
    /// Plain kernels: the scales of a row of A lie side by side along k, and not those of neighbouring rows.
    bool scales_by_row = false;
    /// Each lane arrives for itself, and not one for its warp: for compute-sanitizer's racecheck, whose 172 reports on
    /// the shipped kernels all lie between accesses that meet so. Blocks on their own only.
    bool every_lane_arrives = false;

    constexpr bool operator==(const Tile&) const = default;

    // ---- The product

    /// Rows and columns of D in one tile.
    constexpr int rows() const { return swap_ab ? n : m; }
    constexpr int columns() const { return swap_ab ? m : n; }

    constexpr Side side_a() const {
        const int box = skips_rows() ? rows_per_warpgroup() : skips_loads() ? token_box_rows : box_rows_limit;
        return {a, a_scaling, rows(), multicast == Multicast::a, box};
    }
    constexpr Side side_b() const { return {b, b_scaling, columns(), multicast == Multicast::b}; }
    constexpr Side first() const { return swap_ab ? side_b() : side_a(); }
    constexpr Side second() const { return swap_ab ? side_a() : side_b(); }

    /// The tensor core multiplies fp8 (k 32 a step) unless an operand needs bf16 (k 16 a step).
    constexpr bool multiplies_bf16() const {
        return a == Storage::bf16 || b == Storage::bf16 || a_scaling == Scaling::decoded ||
               b_scaling == Scaling::decoded;
    }
    constexpr int k_step() const { return multiplies_bf16() ? 16 : 32; }

    /// Products summed inside the tensor core before the sum moves on to fp32 registers; 0: all of k.
    constexpr int chain() const {
        if (a_scaling == Scaling::row_32 || b_scaling == Scaling::row_32) return 32;
        if (scaled_in_loop()) return 128;
        return !multiplies_bf16() && promoted ? 128 : 0;
    }

    constexpr bool scaled_in_loop() const { return side_a().scaled_in_loop() || side_b().scaled_in_loop(); }
    /// Scales that differ from column to column of the accumulators are the costly ones: every warp reads all of them.
    constexpr bool scales_rows() const { return first().scaled_in_loop_by_row(); }
    constexpr bool scales_columns() const { return second().scaled_in_loop_by_row(); }
    constexpr bool scales_blocks() const { return b_scaling == Scaling::block_128; }
    constexpr bool scales_after() const { return a_scaling == Scaling::after || b_scaling == Scaling::after; }
    /// Columns of D that lie in one 128-row block of B wherever the tile begins: a power of two.
    constexpr int group_columns() const {
        int size = 128;
        while (columns() % size != 0) size /= 2;
        return size;
    }
    constexpr int column_groups() const { return columns() / group_columns(); }

    /// The rows of groups are known on the device only.
    constexpr bool grouped() const { return family == Family::m_grouped; }
    /// Warpgroups whose rows lie behind the end of a piece neither load nor multiply them.
    constexpr bool skips_rows() const { return grouped() && warpgroups > 1 && !swap_ab && !splits_k(); }
    /// Boxes of A whose rows all lie there are not loaded.
    constexpr bool skips_loads() const { return skips_rows() || (grouped() && swap_ab && n > token_box_rows); }

    // ---- Who does what

    constexpr int consumer_warps() const { return warpgroups * 4; }
    constexpr int threads() const { return (producer_warps + consumer_warps()) * warp_threads; }
    constexpr int scale_warps() const { return scales_rows() || scales_columns() ? 1 : 0; }
    constexpr Role role(int warp) const {
        if (warp >= producer_warps) return Role::multiply;
        if (warp == 0) return Role::load;
        if (warp == 1) return scales_blocks() || scales_after() || grouped() ? Role::block_scale : Role::spare;
        if (warp == 2) return scale_warps() > 0 ? Role::row_scale : Role::spare;
        return splits_k() ? Role::spare : Role::store;
    }

    // ---- Barriers: arrivals that complete a phase. Scale warps stay away where TMA brings all scales.

    constexpr int arrivals(int warps) const { return every_lane_arrives ? warps * warp_threads : warps; }
    constexpr int row_scale_warps(bool scales_by_tma) const { return scales_by_tma ? 0 : scale_warps(); }
    /// The loading thread, which announces the bytes, and each warp that brings scales of rows.
    constexpr int full_arrivals(bool scales_by_tma) const { return 1 + arrivals(row_scale_warps(scales_by_tma)); }
    /// Each warp that multiplies, in every block that waits for this stage.
    constexpr int empty_arrivals() const {
        return arrivals(consumer_warps()) * (multicast == Multicast::none ? 1 : cluster);
    }
    /// Plain kernels too: tiles for few rows have none for each order of scales.
    constexpr bool plain_loads_scales() const { return swap_ab || splits_k(); }
    /// Rather than come by TMA.
    constexpr bool scales_may_be_loaded() const { return !plain || plain_loads_scales(); }
    /// Each warp that works on tiles and does not hand them out.
    constexpr int work_arrivals(bool scales_by_tma, bool stored_by_tma) const {
        const int stores = stored_by_tma && !splits_k() ? 1 : 0;
        return arrivals(1 + row_scale_warps(scales_by_tma) + consumer_warps() + stores);
    }

    // ---- Shared memory

    constexpr int value_bytes_per_stage() const { return first().value_bytes(k) + second().value_bytes(k); }
    /// That a k-block needs.
    constexpr int scale_bytes_per_stage() const { return first().scale_bytes(k) + second().scale_bytes(k); }
    /// k-blocks whose scales of A's rows come together, with the first of them: TMA moves 16 bytes of a row.
    constexpr int scale_chunk() const { return scales_by_row ? 4 : 1; }
    constexpr int a_scale_bytes() const { return side_a().scale_bytes(k) * scale_chunk(); }
    constexpr int b_scale_bytes() const { return side_b().scale_bytes(k); }
    /// TMA writes to multiples of 128 bytes.
    constexpr int scale_room() const { return round_up(a_scale_bytes(), 128) + round_up(b_scale_bytes(), 128); }
    constexpr int stage_bytes() const { return value_bytes_per_stage() + scale_room(); }
    /// 128x128 scales, for each group of columns of the tile that lies in one block of B.
    constexpr int block_scale_bytes() const {
        return scales_blocks() ? block_scale_slots * column_groups() * block_scale_columns * 4 : 0;
    }
    /// Scales that multiply the finished sum: of each row and column of the tile.
    constexpr int final_scale_bytes() const { return scales_after() ? final_scale_slots * (m + n) * 4 : 0; }
    /// Full and empty for each stage and slot.
    constexpr int barrier_bytes() const {
        const int work = grouped() ? work_slots : 0, slices = splits_k() ? 1 : 0;
        return 2 * 8 * (stages + final_scale_slots + block_scale_slots + warpgroups + work + slices);
    }
    constexpr int work_bytes() const { return grouped() ? work_slots * work_words * 4 : 0; }
    /// D on its way out, of each warpgroup: 16-bit elements of its whole share, or a scratch pad of 16 rows a warp.
    /// Split k: the sums that a block owns.
    constexpr int staging_bytes() const {
        const int pads = warpgroup_threads / warp_threads * warp_rows * row_bytes;
        const int share = splits_k() ? slice_bytes() : share_rows() * share_columns() * 2;
        return round_up(share > pads ? share : pads, tile_alignment);
    }
    constexpr int shared_bytes() const {
        const int scales = block_scale_bytes() + final_scale_bytes() + 512;  // 512: alignment between the parts
        return round_up(stages * stage_bytes() + warpgroups * staging_bytes() + scales + barrier_bytes() + work_bytes(),
                        tile_alignment);
    }

    // ---- Loads

    /// Rows that this block fetches of an operand itself; its peers fetch the rest of a shared one.
    constexpr int fetched_rows(const Side& side) const { return side.shared ? side.rows / cluster : side.rows; }
    constexpr int box_rows(const Side& side) const {
        return fetched_rows(side) % side.box_limit == 0 ? side.box_limit : fetched_rows(side);
    }
    /// One copy brings all rows of A, and may bring fewer where D has fewer.
    constexpr bool may_bring_fewer_rows() const { return !grouped() && box_rows(side_a()) == rows(); }
    constexpr int bytes_per_load(const Side& side) const { return box_rows(side) * k * bits(side.storage) / 8; }
    /// Bytes that a full barrier waits for, whoever fetched them.
    constexpr int bytes_per_stage() const {
        return (first().rows * bits(first().storage) + second().rows * bits(second().storage)) * k / 8;
    }

    // ---- Registers, for each consumer thread

    constexpr int rows_per_warpgroup() const { return m / warpgroups; }
    constexpr int sum_registers() const { return rows_per_warpgroup() * n / warpgroup_threads; }
    /// Columns of one wgmma. Where sums are promoted, the columns are cut in pieces until the registers that the tensor
    /// core writes fit beside the sums. (Two sets of them, one promoted while the next is multiplied, gained nothing:
    /// docs/tried.md.)
    constexpr int pieces() const {
        if (chain() == 0) return 1;
        int count = 1;
        while (count < 4 && sum_registers() + piece_registers(count) > room() && n % (16 * count) == 0) count *= 2;
        return count;
    }
    constexpr int piece_columns() const { return n / pieces(); }
    /// k-blocks in the tensor core's hands at once (two_chains.h). Warpgroups of 128x128 fill each other's pauses.
    constexpr int chains() const {
        const bool one_unit = rows_per_warpgroup() == warpgroup_rows && pieces() == 1;
        const bool pauses = scaled_in_loop() && chain() == k && n * warpgroups <= 192;
        return one_unit && pauses && sum_registers() + 2 * piece_registers(1) <= room() ? 2 : 1;
    }
    /// Chain registers of a piece, and the scales of its columns, which are read before the product is issued.
    constexpr int piece_registers(int count) const { return n / count / 2 + (scales_columns() ? n / count / 4 : 0); }
    constexpr int chain_registers() const { return chain() == 0 ? 0 : chains() * piece_registers(pieces()); }
    constexpr int accumulator_registers() const { return sum_registers() + chain_registers(); }

    /// That an SM holds at once. Two where k is split and they fit: clusters of 4 and 8 leave some SMs without a block.
    constexpr int blocks_per_sm() const {
        const bool fit = 2 * (shared_bytes() + 1024) <= shared_bytes_per_sm;
        return splits_k() && warpgroups == 1 && fit ? 2 : 1;
    }
    /// What a launch gives every thread, in steps of 8; setmaxnreg can only hand out what the launch allocated.
    constexpr int launch_registers() const {
        const int each = registers_per_sm / (threads() * blocks_per_sm()) / 8 * 8;
        return each < 248 ? each : 248;
    }
    /// One consumer warpgroup has enough without.
    constexpr bool hands_over_registers() const { return warpgroups > 1; }
    constexpr int producer_registers() const { return warpgroups == 2 ? 40 : 32; }
    constexpr int consumer_registers() const {
        if (!hands_over_registers()) return launch_registers();
        const int pool = launch_registers() * threads() - producer_registers() * warpgroup_threads;
        const int each = pool / (warpgroups * warpgroup_threads) / 8 * 8;
        return each < 240 ? each : 240;
    }
    /// Scaling finished sums takes some more, and alpha and C beside it.
    constexpr int room() const { return consumer_registers() - other_registers - (scales_after() && !plain ? 16 : 0); }

    // ---- Stores

    /// A warpgroup's share of the tile of D, and where it begins.
    constexpr int share_rows() const { return swap_ab ? n : rows_per_warpgroup(); }
    constexpr int share_columns() const { return swap_ab ? rows_per_warpgroup() : n; }
    constexpr int share_row(int warpgroup) const { return swap_ab ? 0 : warpgroup * share_rows(); }
    constexpr int share_column(int warpgroup) const { return swap_ab ? warpgroup * share_columns() : 0; }

    /// A store takes 64 rows (those of all tokens, if swapped), and as many columns as 128 bytes hold and the share is
    /// a multiple of.
    constexpr int store_rows() const { return swap_ab ? n : warpgroup_rows; }
    constexpr int store_columns(int element_bytes) const {
        int columns = store_row_bytes / element_bytes;
        while (share_columns() % columns != 0) columns -= 8;
        return columns;
    }
    constexpr int store_pitch(int element_bytes) const { return store_columns(element_bytes) * element_bytes; }
    constexpr bool store_swizzled(int element_bytes) const { return store_pitch(element_bytes) == store_row_bytes; }
    /// Side by side; a warpgroup of 128 rows has two of each.
    constexpr int stores(int element_bytes) const { return share_columns() / store_columns(element_bytes); }
    /// As many as are staged together.
    constexpr int stores_at_once(int element_bytes) const {
        const int fit = staging_bytes() / (share_rows() * store_pitch(element_bytes));
        return fit < stores(element_bytes) ? fit : stores(element_bytes);
    }
    /// 16-bit elements are staged 16 columns at a time, 32-bit ones 32; stmatrix turns 16-bit ones alone around.
    constexpr bool stores_by_tma(int element_bytes) const {
        if (swap_ab || splits_k()) return element_bytes == 2;
        return n % (element_bytes == 2 ? 16 : 32) == 0;
    }

    // ---- Split k

    constexpr bool splits_k() const { return split_k > 1; }
    /// Of a warpgroup's sums: 64 rows and 8 columns, four elements a thread.
    constexpr int fragments() const { return rows_per_warpgroup() / warpgroup_rows * (n / 8); }
    /// That a block owns; the last may own fewer.
    constexpr int fragments_each() const { return (fragments() + split_k - 1) / split_k; }
    /// Of one warpgroup, from all slices.
    constexpr int slice_bytes() const { return split_k * fragments_each() * warpgroup_threads * 16; }
};

}  // namespace tilewright::hopper
