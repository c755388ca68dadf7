// The constants of the cost model that are not in a data sheet. tools/fit_planner fits them to a record of measured
// candidates. The clocks of the main loops are measured (src/plan/loop.cpp).
#pragma once

namespace tilewright::planner {

struct Model {
    // The main loop. Shares are of the tensor clocks of a k-block.
    double multicast_clocks = 80;     // Stall per k-block.
    double multicast_stall = 0.1;     // Share.
    double promoted_energy = 0.25;    // Energy per tensor clock of a promoted loop, without its loads from L2.
    double l2_byte_energy = 0.01581;  // Energy per byte from L2, in tensor clocks.
    double latency_share = 0.9699;    // Share of the device's memory_latency, until a stage has arrived.
    double l2_share = 1.296;          // Share of the device's L2 bandwidth that tiles' loads reach.
    // The end of a tile.
    double epilogue_clocks = 10;           // In addition to the stores: the switch to the next tile.
    double store_bytes_per_clock = 28.94;  // Per SM, from registers through staging to L2.
    double narrow_store = 0.5745;      // Share of a store's time for each time that its rows fall short of 128 bytes.
    double thread_store = 5.39;        // Time of a store by threads, where TMA cannot, over that by TMA.
    double exposed_epilogue = 0.9204;  // Share that is exposed while the other warpgroups' main loops go on.
    // The whole call.
    double start_seconds = 1.858e-07;    // In addition to the device's.
    double cluster_seconds = 3.332e-07;  // More for a launch of clusters.
    double imperfect_overlap = 0.06632;  // Share of the shorter of memory and compute.
    double crowding = 0.01;            // Share of the time that operands of later tiles take before the first is done.
    double reduction_seconds = 1e-07;  // Until all slices of a tile have come.
    double peer_bytes_per_clock = 15.19;  // Per SM, to the shared memory of others.
};

/// Fitted on 2026-11-22. The shipped record, benchmarks/results/h200_candidates.jsonl, is one day younger and has three
/// times as many groups. Constants fitted to it chose no better on the shapes of h200_random.jsonl.
inline constexpr Model fitted_model{};

}  // namespace tilewright::planner
