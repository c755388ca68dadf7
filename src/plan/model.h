// The constants of the cost model that no data sheet has. tools/fit_planner fits them to a record of measured
// candidates; the main loops' are held against synthetic loops by tests/plan/loop_test.cpp.
#pragma once

namespace tilewright::planner {

struct Model {
    // The main loop. Shares are of the tensor clocks of a k-block.
    double one_warpgroup_stall = 0.5441;  // share: promotion that no other warpgroup hides
    double column_group_stall = 0.1048;   // share, for each group of columns with a scale of its own beyond the first
    double multicast_clocks = 66.58;      // of stall in a k-block
    double multicast_stall = 0.005;       // share
    double promoted_energy = 1;           // of a tensor clock, over that of an unpromoted loop
    double latency_share = 1.283;         // of the device's memory_latency, until a stage has arrived
    double l2_share = 1.069;              // of the device's L2 bandwidth that tiles' loads reach
    // The end of a tile.
    double epilogue_clocks = 714.7;        // beside the stores: the switch to the next tile
    double store_bytes_per_clock = 19.08;  // of one SM, from registers through staging to L2
    double narrow_store = 2;          // share of a store's time for each time that its rows fall short of 128 bytes
    double thread_store = 6.004;      // time of a store by threads, where TMA cannot, over that by TMA
    double exposed_epilogue = 0.398;  // of it while the other warpgroups' main loops go on
    // The whole call.
    double start_seconds = 1.06e-06;     // beside the device's own
    double cluster_seconds = 2e-06;      // more for a launch of clusters
    double imperfect_overlap = 0.01327;  // of the shorter of memory and compute
    double crowding = 0.01;              // of the time that operands of later tiles take before the first is done
    double written_byte = 1;             // time of a byte of D through HBM, over that of a byte read
    double reduction_seconds = 0.5e-6;   // until all slices of a tile are written, and read; not measured
    double peer_bytes_per_clock = 16;    // of one SM, from the shared memory of others; not measured
};

/// As fitted to the record that ships, benchmarks/results/h200_candidates.jsonl.
inline constexpr Model fitted_model{};

}  // namespace tilewright::planner
