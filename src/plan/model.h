// The constants of the cost model that are not in a data sheet. tools/fit_planner fits them to a record of measured
// candidates. The clocks of the main loops are measured (src/plan/loop.cpp).
#pragma once

#include "hopper/description/design.h"

namespace tilewright::planner {

struct Model {
    // The main loop. Shares are of the tensor clocks of a k-block.
    double multicast_clocks = 71.4;   // Stall per k-block.
    double multicast_stall = 0.1;     // Share.
    double promoted_energy = 0.37;    // Energy per tensor clock of a promoted loop, without its loads from L2.
    double l2_byte_energy = 0.0111;   // Energy per byte from L2, in tensor clocks.
    double latency_share = 0.8107;    // Share of the device's memory_latency, until a stage has arrived.
    double l2_share = 0.9175;         // Share of the device's L2 bandwidth that tiles' loads reach.
    double neighbour_share = 0.2963;  // Cost of a row in L2 that neighbouring blocks read too, as a share.
    double contention = 7;            // How little compute and delivery slow each other down: nothing if infinite.
    double lone_stall = 1.056;        // Stall over tensor clocks where only one of several warpgroups has rows.
    // The clock. A chip that multiplies falls below its boost clock at once, and to what power allows after a while.
    double busy_clock = 0.9735;    // Share of the boost clock.
    double power_seconds = 5e-05;  // Until power has half of its effect.
    // The end of a tile.
    double epilogue_clocks = 17.35;        // In addition to the stores: the switch to the next tile.
    double store_bytes_per_clock = 20.54;  // Per SM, from registers through staging to L2.
    double narrow_store = 0.7027;      // Share of a store's time for each time that its rows fall short of 128 bytes.
    double thread_store = 5.39;        // Time of a store by threads, where TMA cannot, over that by TMA.
    double exposed_epilogue = 0.4643;  // Share that a single warpgroup does not hide, D of 16 bits without C.
    // The whole call.
    double block_seconds = 1.529e-09;    // Per block of the grid.
    double taking_seconds = 6e-07;       // Until the blocks' warpgroups take work tiles, for each but one.
    double first_stages = 1;             // Share of the first stages of all blocks that comes from memory.
    double cluster_seconds = 1.452e-07;  // More for a launch of clusters.
    double imperfect_overlap = 0.2126;   // Share of the shorter of memory and compute.
    double crowding = 0.04828;  // Share of the time that operands of later tiles take before the first is done.
    double reduction_seconds = 6.713e-08;  // Until all slices of a tile have come.
    double peer_bytes_per_clock = 21.6;    // Per SM, to the shared memory of others.
};

/// Fitted on 2026-11-28 to the records of an H200 and an H100 (docs/experiments/034-planner-terms.md). The two energies
/// are not fitted: they are those of the measured clocks.
inline constexpr Model fitted_model{};

/// Packed weights: fitted on 2026-11-22, before the terms of blocks and of shared rows. `decode_stall` and its peers in
/// src/plan/loop.cpp were fitted together with these. Stores are the same as those of other kernels, because expanded
/// weights are compared with packed ones.
inline constexpr Model packed_model{.multicast_clocks = 80,
                                    .promoted_energy = 0.25,
                                    .l2_byte_energy = 0.01581,
                                    .latency_share = 0.9699,
                                    .l2_share = 1.296,
                                    .neighbour_share = 1,
                                    .contention = 64,
                                    .busy_clock = 1,
                                    .power_seconds = 0,
                                    .exposed_epilogue = 1,
                                    .block_seconds = 0,
                                    .taking_seconds = 0,
                                    .first_stages = 0,
                                    .cluster_seconds = 3.332e-07,
                                    .imperfect_overlap = 0.06632,
                                    .crowding = 0.01,
                                    .reduction_seconds = 1e-07,
                                    .peer_bytes_per_clock = 15.19};

/// The main loop of a tile, for each k-block.
struct Loop {
    double tensor_clocks = 0;  // The tensor cores multiply.
    double stall_clocks = 0;   // The tensor cores wait for barriers, promotion and scales.
    double issue_clocks = 0;   // Part of the stall, where measured: instructions that blocks on one SM issue in turn.
    double energy = 1;         // Energy per tensor clock with what belongs to it, over that of an unpromoted fp8 loop.
};

/// Where only some warpgroups of a tile have rows, `warpgroups` says how many; 0: all. The others load and multiply
/// nothing.
Loop loop(const hopper::Design& tile, const Model& model = fitted_model, int warpgroups = 0);

/// Clocks between two tiles in addition to `Model::epilogue_clocks`: what kernels that decode weights do not overlap.
double switch_clocks(const hopper::Design& tile, double k_blocks);

}  // namespace tilewright::planner
