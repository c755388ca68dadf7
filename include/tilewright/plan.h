// How a Hopper GPU would compute a problem: which tile, what launch, how long it should take, and why. Needs no GPU and
// no memory behind the tensors; the same problem and device give the same plan on any machine.
#pragma once

#include <tilewright/problem.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

/// What the planner knows of a GPU: bytes, seconds, hertz. Rates are measured ones, not a data sheet's.
struct DeviceDescription {
    std::string name;
    int sms = 0;
    double boost_hertz = 0;          // highest SM clock
    double power_hertz = 0;          // tensor clocks a second that power allows all SMs together, were the clock free
    int fp8_products_per_clock = 0;  // of one SM's tensor cores
    int bf16_products_per_clock = 0;
    double memory_bytes_per_second = 0;
    double l2_bytes_per_second = 0;  // L2 to all SMs, every SM reading lines of its own
    int l2_bytes_per_clock = 0;      // L2 to one SM
    std::int64_t l2_bytes = 0;
    double written_byte = 1;    // time of a byte of D through HBM, over that of a byte read
    double memory_latency = 0;  // seconds from a TMA request to its data, HBM streaming
    std::int64_t shared_bytes_per_block = 0;
    int cluster_2_sms = 0;               // SMs that clusters of 2 can fill with one block each
    double start_seconds = 0;            // from a kernel's begin to its first product, and from its last to its end
    double launch_seconds = 0;           // what a profiler counts beyond that for an isolated launch
    std::vector<std::string> assumed{};  // fields that were not measured but scaled from the H200's

    bool operator==(const DeviceDescription&) const = default;
};

/// The H200 (132 SMs, 700 W), as measured; src/plan/devices/h200.tsv has each number's source.
const DeviceDescription& h200();

/// All devices that ship with the library: h200, h100, h100-pcie, h100-nvl, h800, h200-nvl, h20, gh200. The H200's
/// numbers are measured; of the others, those that no data sheet has are in `assumed`.
const std::vector<DeviceDescription>& known_devices();

/// One of them by its name. Throws Error with the known names where there is none.
const DeviceDescription& device_named(std::string_view name);

/// Which operand the thread blocks of a cluster share: it is loaded once and delivered to all of them.
enum class Multicast : std::uint8_t { none, a, b };

/// How the kernel is cut. m and n are the tensor core's, so with `swap_ab` m counts columns of D and n counts rows.
struct PlannedTile {
    int m = 128;
    int n = 128;
    int k = 128;         // elements of k in one stage
    int stages = 4;      // stages of the ring in shared memory
    int warpgroups = 2;  // that multiply; one more loads
    int cluster = 1;
    Multicast multicast = Multicast::none;
    bool swap_ab = false;  // weights on the tensor core's m, tokens on its n
    int split_k = 1;       // slices of k, computed side by side and added in ascending order

    bool operator==(const PlannedTile&) const = default;
};

/// "256x128x128 stages=4", then those of warpgroups=3 cluster=2 multicast=b swap split=4 that are not the default.
std::string name(const PlannedTile& tile);

/// The inverse of `name`, in any order of words; nothing if the text is no tile.
std::optional<PlannedTile> parse_tile(std::string_view text);

/// A predicted time, in seconds:  seconds = preparation + launch + max(memory, compute) + overlap + reduction.
struct Cost {
    double seconds = 0;
    double preparation = 0;         // kernels before the product, which write the workspace
    double launch = 0;              // start and end of the kernel
    double memory = 0;              // every operand and the output through HBM once
    double compute = 0;             // the busiest SM; the sum of the next five
    double tensor = 0;              //   the tensor cores multiply; were the work spread evenly
    double promotion = 0;           //   they wait for the warps that move sums to fp32 and scale them; likewise
    double delivery = 0;            //   they wait for operands from L2
    double epilogue = 0;            //   they wait for stores; likewise
    double waves = 0;               //   what uneven waves add: the last one is not full, or tiles are fewer than SMs
    double overlap = 0;             // memory and compute that do not hide each other
    double reduction = 0;           // split k: adding the slices
    double clock_hertz = 0;         // average SM clock under the power limit
    std::int64_t memory_bytes = 0;  // through HBM, of the product
    std::int64_t preparation_bytes = 0;  // through HBM before it: what is copied, and the copies
    std::int64_t l2_bytes = 0;           // from L2 to SMs
    std::int64_t tensor_clocks = 0;      // of all tiles together, padding included
};

/// A tile ships in up to four kernels, which return the same bits.
enum class KernelVariant : std::uint8_t {
    general,              // any call
    fast,                 // D is bf16 and stored by TMA, alpha is 1, there is no C, 1x128 scales are loaded by TMA
    fast_k_major_scales,  // the same, with 1x128 scales of A whose k blocks are neighbours in memory, or f32 in any
                          // strides
    fast_f32,  // D is f32 and stored by TMA, C too is loaded by TMA where there is one; any alpha, f32 scales in any
               // strides
};
std::string_view name(KernelVariant variant);

struct Plan {
    PlannedTile tile;
    KernelVariant variant = KernelVariant::general;  // which of the tile's kernels; addresses and strides decide
    bool in_windows = false;  // packed weights with wide rows: the one of them for windows of scales
    std::int64_t tiles = 0;   // of D, all groups; grouped sizes live on the device: what the planner expects
    double waves = 0;         // tiles and slices over the blocks that run at once
    int grid = 0;             // thread blocks, persistent; 0: nothing to launch
    int threads = 0;          // of a block
    std::int64_t shared_bytes = 0;
    Cost cost;
};

/// The plan with the smallest predicted time, or the tuned one. The problem is one for which `validate` finds nothing.
/// Throws Error, with one Finding a reason, where no kernel serves the problem.
Plan plan(const Problem& problem, const DeviceDescription& device = h200());

/// 1x128 scales of both operands: TMA loads those of both or of neither, and without it the product takes twice the
/// time (docs/tried.md). Which of them TMA would load if they were copied so that the scales of neighbouring rows are
/// neighbours in memory; none where they are fine, where no copy helps, and for any other recipe.
struct ScalesToCopy {
    bool a = false;
    bool b = false;
};
ScalesToCopy scales_to_copy(const Problem& problem);

struct RejectedTile {
    PlannedTile tile;
    std::string rule;    // "wgmma", "registers", "shared memory", "cluster", "split k" or "kernel"
    std::string reason;  // "256x128 with 4 stages needs 261 KB of shared memory, 227 KB exist"
};

struct Explanation {
    std::vector<Finding> unavailable;  // why no kernel serves the problem; all else is empty then
    std::optional<Plan> chosen;
    std::optional<Plan> next_best;     // of the tiles that ship: the fastest that differs in more than its stages
    std::optional<Plan> model_choice;  // what a tuned row overrode
    std::string tuned_by;              // date and command of that row
    std::vector<Plan> legal;           // every legal candidate, fastest first
    std::vector<RejectedTile> rejected;
};

/// Everything behind `plan`. Never throws for a problem that `validate` accepts.
Explanation explain(const Problem& problem, const DeviceDescription& device = h200());

}  // namespace tilewright
