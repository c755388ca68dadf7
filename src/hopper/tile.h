// How a Hopper kernel is cut: the one template parameter of every kernel, and all that follows from it. The planner
// judges candidates by these numbers and the kernel is built from them, so that the two cannot differ.
// Plain C++20 without standard headers: NVRTC and the host compile it.
//
// `m` and `n` are the tensor core's: m counts rows of its first operand (64 a wgmma), n of its second (8 to 256). The
// first operand is A (activations) and the second B (weights); `swap_ab` exchanges them, for few tokens: then m counts
// weights (columns of D) and n tokens (rows of D).
#pragma once

namespace tilewright::hopper {

/// How an operand lies in memory. e2m1 is expanded to the format of the product on its way into registers.
enum class Storage : unsigned char { e4m3, e5m2, e2m1, bf16 };

/// Where the scales of an operand enter.
enum class Scaling : unsigned char {
    none,       // no scales
    after,      // per tensor, per row: constant along k, so they multiply the finished sum once
    row_128,    // 1x128: one f32 for each row and 128 of k, in the main loop
    block_128,  // 128x128: one f32 for 128 rows and 128 of k, in the main loop
    row_32,     // 1x32: one power of two for each row and 32 of k, in the main loop
    decoded,    // 1x16 (NVFP4): exact in bf16, so they are multiplied in while the values are expanded
};

/// The operand whose tile is the same for all blocks of a cluster, loaded once and given to each of them.
enum class Multicast : unsigned char { none, a, b };

/// Which problems a kernel walks through.
enum class Family : unsigned char { dense, m_grouped, masked, k_grouped };  // dense: batched too

/// What a warp does.
enum class Role : unsigned char { load, scale, spare, multiply };

inline constexpr int warp_threads = 32;
inline constexpr int warpgroup_threads = 128;
inline constexpr int warpgroup_rows = 64;                // rows of one wgmma
inline constexpr int shared_bytes_limit = 232448;        // of one block on sm_90 (CUDA C++ programming guide, 17.7)
inline constexpr int registers_per_sm = 65536;           // 32-bit; likewise
inline constexpr int producer_warps = 4;                 // one warpgroup, so that setmaxnreg can take its registers
inline constexpr int tile_alignment = 1024;              // of swizzled shared memory
inline constexpr int box_rows_limit = 256;               // of one TMA box
inline constexpr int staging_bytes_per_warp = 16 * 128;  // 16 rows of 128 bytes: one epilogue pass of a warp

/// Registers of a consumer thread beside its accumulators: addresses, scales, loop state (refined when ptxas has
/// spoken; 192x128 with three warpgroups ran without spills with 128 + 32 = 160).
inline constexpr int other_registers = 32;

constexpr int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }
constexpr int bits(Storage storage) { return storage == Storage::bf16 ? 16 : storage == Storage::e2m1 ? 4 : 8; }

/// One operand of the product, seen from the tensor core.
struct Side {
    Storage storage = Storage::e4m3;
    Scaling scaling = Scaling::after;
    int rows = 0;
    bool shared = false;  // by multicast

    constexpr bool scaled_in_loop() const {
        return scaling == Scaling::row_128 || scaling == Scaling::block_128 || scaling == Scaling::row_32;
    }
    constexpr bool scaled_in_loop_by_row() const { return scaled_in_loop() && scaling != Scaling::block_128; }
    constexpr int value_bytes(int k) const { return round_up(rows * k * bits(storage) / 8, tile_alignment); }
    /// In the ring: f32 for each row, or for the 128-row blocks that up to 256 rows touch, or a byte for each 32 of k.
    constexpr int scale_bytes(int k) const {
        if (scaling == Scaling::row_128) return rows * 4;
        if (scaling == Scaling::block_128) return 16;
        return scaling == Scaling::row_32 ? rows * k / 32 : 0;
    }
};

struct Tile {
    int m = 128;
    int n = 128;
    int k = 128;  // elements: 128 bytes of the wider operand, one swizzle row
    int stages = 4;
    int cluster = 1;  // thread blocks; side by side along D's columns if A is shared, along its rows if B is
    Multicast multicast = Multicast::none;
    bool swap_ab = false;
    int split_k = 1;     // slices of k, added in ascending order through a workspace
    int warpgroups = 2;  // that multiply
    Storage a = Storage::e4m3;
    Storage b = Storage::e4m3;
    Scaling a_scaling = Scaling::after;
    Scaling b_scaling = Scaling::after;
    bool promoted = true;  // fp8: no more than 128 products in the tensor core's own sum
    Family family = Family::dense;

    constexpr bool operator==(const Tile&) const = default;

    // ---- The product

    /// Rows and columns of D in one tile.
    constexpr int rows() const { return swap_ab ? n : m; }
    constexpr int columns() const { return swap_ab ? m : n; }

    constexpr Side side_a() const { return {a, a_scaling, rows(), multicast == Multicast::a}; }
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

    // ---- Who does what

    constexpr int consumer_warps() const { return warpgroups * 4; }
    constexpr int threads() const { return (producer_warps + consumer_warps()) * warp_threads; }
    constexpr int scale_warps() const { return scaled_in_loop() ? 2 : 0; }
    constexpr Role role(int warp) const {
        if (warp >= producer_warps) return Role::multiply;
        if (warp == 0) return Role::load;
        return warp <= scale_warps() ? Role::scale : Role::spare;
    }

    // ---- Barriers: arrivals that complete a phase

    /// The loading thread, which announces the bytes, and each warp that brings scales.
    constexpr int full_arrivals() const { return 1 + scale_warps(); }
    /// Each warp that multiplies, in every block that waits for this stage.
    constexpr int empty_arrivals() const { return consumer_warps() * (multicast == Multicast::none ? 1 : cluster); }

    // ---- Shared memory

    constexpr int value_bytes_per_stage() const { return first().value_bytes(k) + second().value_bytes(k); }
    constexpr int scale_bytes_per_stage() const {
        return round_up(first().scale_bytes(k) + second().scale_bytes(k), 16);
    }
    constexpr int stage_bytes() const { return value_bytes_per_stage() + scale_bytes_per_stage(); }
    constexpr int staging_bytes() const { return consumer_warps() * staging_bytes_per_warp; }
    /// Full and empty for each stage, and four for tiles that are drawn one ahead.
    constexpr int barrier_bytes() const { return round_up(2 * 8 * stages + 4 * 8 + 2 * 16, 128); }
    constexpr int shared_bytes() const {
        return round_up(stages * stage_bytes() + staging_bytes() + barrier_bytes(), tile_alignment);
    }

    // ---- Loads

    /// Rows that this block fetches of an operand itself; its peers fetch the rest of a shared one.
    constexpr int fetched_rows(const Side& side) const { return side.shared ? side.rows / cluster : side.rows; }
    constexpr int box_rows(const Side& side) const {
        return fetched_rows(side) < box_rows_limit ? fetched_rows(side) : box_rows_limit;
    }
    constexpr int bytes_per_load(const Side& side) const { return box_rows(side) * k * bits(side.storage) / 8; }
    /// Bytes that a full barrier waits for, whoever fetched them.
    constexpr int bytes_per_stage() const {
        return (first().rows * bits(first().storage) + second().rows * bits(second().storage)) * k / 8;
    }

    // ---- Registers, for each consumer thread

    constexpr int rows_per_warpgroup() const { return m / warpgroups; }
    constexpr int sum_registers() const { return rows_per_warpgroup() * n / warpgroup_threads; }
    /// What the tensor core writes before promotion: one 64-row half at a time, twice over (one being promoted while
    /// the next is multiplied) where a warpgroup owns 64 rows. Above 128 columns both are halves of the columns.
    constexpr int chain_registers() const {
        if (chain() == 0) return 0;
        const int one = warpgroup_rows * n / warpgroup_threads;
        return rows_per_warpgroup() == warpgroup_rows && n <= 128 && sum_registers() + 2 * one <= room() ? 2 * one
                                                                                                         : one;
    }
    constexpr int accumulator_registers() const { return sum_registers() + chain_registers(); }

    /// What a launch gives every thread, in steps of 8; setmaxnreg can only hand out what the launch allocated.
    constexpr int launch_registers() const {
        const int each = registers_per_sm / threads() / 8 * 8;
        return each < 248 ? each : 248;
    }
    constexpr int producer_registers() const { return 24; }
    constexpr int consumer_registers() const {
        const int pool = launch_registers() * threads() - producer_registers() * warpgroup_threads;
        const int each = pool / (warpgroups * warpgroup_threads) / 8 * 8;
        return each < 240 ? each : 240;
    }
    constexpr int room() const { return consumer_registers() - other_registers; }

    // ---- Split k

    /// One slice's sum of one tile, f32, in the workspace.
    constexpr int partial_bytes() const { return m * n * 4; }
};

}  // namespace tilewright::hopper
