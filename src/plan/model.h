// The constants of the cost model that no data sheet has. tools/fit_planner fits them to a record of measured
// candidates; the main loops' are held against synthetic loops by tests/plan/loop_test.cpp.
#pragma once

namespace tilewright::planner {

struct Model {
    // The main loop. Shares are of the tensor clocks of a k-block.
    double one_warpgroup_stall = 1;      // share: promotion that no other warpgroup hides
    double two_partials_stall = 0.1764;  // share: what is left of it where a second partial accumulator hides it
    double least_block = 179.7;          // clocks: no k-block takes less, however narrow its products
    double swapped_block = 51.27;        // clocks more than the products', where tokens are the columns: their scales
    double swapped_column = 6;           // clocks more for each column
    double column_group_stall = 0.12;    // share, for each group of columns with a separate scale beyond the first
    double multicast_clocks = 40.26;     // of stall in a k-block
    double multicast_stall = 0.005;      // share
    double promoted_energy = 1;          // of a tensor clock, over that of an unpromoted loop
    double latency_share = 0.7917;       // of the device's memory_latency, until a stage has arrived
    double l2_share = 1.3;               // of the device's L2 bandwidth that tiles' loads reach
    // The end of a tile.
    double epilogue_clocks = 50;           // besides the stores: the switch to the next tile
    double store_bytes_per_clock = 20.61;  // of one SM, from registers through staging to L2
    double narrow_store = 2;         // share of a store's time for each time that its rows fall short of 128 bytes
    double thread_store = 4.811;     // time of a store by threads, where TMA cannot, over that by TMA
    double exposed_epilogue = 0.05;  // of it while the other warpgroups' main loops go on
    // The whole call.
    double start_seconds = 1.051e-07;     // besides the device's
    double cluster_seconds = 1.195e-07;   // more for a launch of clusters
    double imperfect_overlap = 0.2296;    // of the shorter of memory and compute
    double crowding = 0.01976;            // of the time that operands of later tiles take before the first is done
    double written_byte = 1;              // time of a byte of D through HBM, over that of a byte read
    double reduction_seconds = 1e-08;     // until all slices of a tile have come
    double peer_bytes_per_clock = 11.32;  // of one SM, to the shared memory of others
};

/// As fitted to the record that ships, benchmarks/results/h200_candidates.jsonl.
inline constexpr Model fitted_model{};

}  // namespace tilewright::planner
