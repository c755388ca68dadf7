// How a Hopper GPU would compute a problem: the tile, the launch, the predicted time, and why. Planning needs no GPU
// and reads no tensor's memory. The same problem and device give the same plan on any machine.
#pragma once

#include <tilewright/problem.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

/// The planner's description of a GPU, in bytes, seconds and hertz. Rates are measured, not taken from a data sheet.
struct DeviceDescription {
    std::string name;
    int sms = 0;
    double boost_hertz = 0;  // highest SM clock
    double power_hertz = 0;  // tensor clocks per second of all SMs that power allows if nothing else limits the clock
    int fp8_products_per_clock = 0;  // per SM
    int bf16_products_per_clock = 0;
    double memory_bytes_per_second = 0;
    double l2_bytes_per_second = 0;  // L2 to all SMs, each SM reading different lines
    int l2_bytes_per_clock = 0;      // L2 to one SM
    std::int64_t l2_bytes = 0;
    double written_byte = 1;    // time of a byte of D through HBM, over that of a byte read
    double memory_latency = 0;  // seconds from a TMA request to its data, streaming from HBM
    std::int64_t shared_bytes_per_block = 0;
    int cluster_2_sms = 0;      // SMs that clusters of 2 can fill with one block per SM.
    double start_seconds = 0;   // From a kernel's start to its first product, plus from its last product to its end.
    double launch_seconds = 0;  // The additional time that a profiler counts for an isolated launch.
    std::vector<std::string> assumed{};  // Fields that were not measured, but are another device's or scaled from it.

    bool operator==(const DeviceDescription&) const = default;
};

/// The H200 (132 SMs, 700 W), as measured; src/plan/devices/h200.tsv has each number's source.
const DeviceDescription& h200();

/// Reads a device of the user's own from a text file of at most 1 MiB. Its lines are
/// "field<tab>value<tab>unit<tab>source", as in src/plan/devices/h200.tsv. All numbers of DeviceDescription are given,
/// and `name` and `driver_name`.
///
/// - A source that begins with "assumed" adds the field to `assumed`.
/// - Tuned rows (`Explanation::tuned_by`) apply to a file whose `name` is that of a known device.
///
/// Throws Error, with a finding for each wrong line that names its number, and if the file cannot be read.
DeviceDescription read_device(const std::string& path);

/// Whether a word that may name a known device or a file means a file: it has a '/' or ends with ".tsv".
bool is_device_file(std::string_view word);

/// All devices that ship with the library: h200, h100, h100-pcie, h100-nvl, h800, h200-nvl, h20, gh200. The H200's
/// numbers are measured, the H100's are fitted to measurements. `assumed` lists fields that are the H200's or scaled
/// from it.
const std::vector<DeviceDescription>& known_devices();

/// The known device of this name. Throws Error, which lists the known names, for any other name.
const DeviceDescription& device_named(std::string_view name);

/// A predicted time, in seconds:  seconds = preparation + launch + max(memory, compute) + overlap + reduction.
struct Cost {
    double seconds = 0;
    double preparation = 0;  // Kernels that write the workspace before the product.
    double launch = 0;       // Start and end of the kernel.
    double memory = 0;       // Every operand and the output, once through HBM.
    double compute = 0;      // The busiest SM; the sum of the next five fields.
    double tensor = 0;       //   The tensor cores multiply, if the work were spread evenly.
    double promotion = 0;    //   They wait for the warps that move sums to fp32 and scale them, if spread evenly.
    double delivery = 0;     //   They wait for operands from L2.
    double epilogue = 0;     //   They wait for stores, if spread evenly.
    double waves = 0;        //   Added by uneven waves: the last one is not full, or there are fewer tiles than SMs.
    double overlap = 0;      // Memory and compute that do not hide each other.
    double reduction = 0;    // split-K: adding the slices.
    double clock_hertz = 0;  // Average SM clock under the power limit.
    std::int64_t memory_bytes = 0;       // Through HBM, for the product.
    std::int64_t preparation_bytes = 0;  // Through HBM in preparation: reads of the originals and writes of the copies.
    std::int64_t l2_bytes = 0;           // From L2 to SMs.
    std::int64_t tensor_clocks = 0;      // All tiles together, padding included.
};

/// How operands, scales and D travel through a kernel, in words.
struct KernelPath {
    std::string feed;    // "both operands from shared memory": how operands reach the tensor core
    std::string loop;    // "sums of 128 k-elements, each scaled and added in fp32"
    std::string scales;  // "of rows in the loop, by TMA": where scales are applied, and how they arrive
    std::string output;  // "stored by TMA"
};

/// An operand that a call writes into its workspace before the product.
struct WorkspaceStep {
    std::string operand;  // "a.values", or "b" for values and scales
    std::string what;     // "copied along k"
    std::string why;      // "k-grouped kernels read fp8 only along k"
    std::int64_t bytes = 0;
};

/// A tile divides the work; it ships in up to four kernels, which return the same bits.
struct Plan {
    /// "256x128x128 stages=4": rows and columns of the tensor core, k-elements per stage, stages in shared memory.
    /// Values that are not the default follow:
    ///
    /// - "warpgroups=3", "cluster=2", "multicast=b";
    /// - "swap": weights are on the rows of the tensor core, tokens on its columns;
    /// - "split=4": slices of k, added in ascending order.
    std::string tile;
    /// Which of the tile's kernels. It depends on addresses and strides:
    ///
    /// - "general": any call.
    /// - "fast": D is bf16, and TMA loads 1x128 scales.
    /// - "fast, k-major scales": as "fast", for A's 1x128 scales that TMA cannot load.
    /// - "fast, f32": D is f32.
    std::string variant;
    KernelPath path;
    bool has_wide_rows = false;  // MXFP4 weights may have wide rows, whose time `cost` does not include.
    std::int64_t tiles = 0;      // Tiles of D over all groups; an expectation where group sizes are in device memory.
    double waves = 0;            // Tiles and slices, divided by the blocks that run at once.
    int grid = 0;                // Persistent thread blocks; 0: nothing to launch.
    int threads = 0;             // Per block.
    std::int64_t shared_bytes = 0;
    Cost cost;
};

/// The tuned plan if the problem has one, otherwise the plan with the smallest predicted time. `problem` is one for
/// which `validate` finds nothing. Throws Error, with one Finding per reason, where no kernel supports the problem.
Plan plan(const Problem& problem, const DeviceDescription& device = h200());

/// Which 1x128 scales are worth copying before a call, so that the scales of neighbouring rows are adjacent in memory.
/// TMA loads the scales of both operands or of neither, and without TMA the product takes twice the time
/// (docs/experiments/006-scale-loads.md). Both are false where the scales are fine, where no copy helps, and for any
/// recipe without 1x128 scales on both sides.
struct ScalesToCopy {
    bool a = false;
    bool b = false;
};
ScalesToCopy scales_to_copy(const Problem& problem);

struct RejectedTile {
    std::string tile;    // as Plan::tile
    std::string rule;    // "wgmma", "registers", "shared memory", "cluster", "split k" or "kernel"
    std::string reason;  // "256x128 with 4 stages needs 261 KB of shared memory, 227 KB exist"
};

struct Explanation {
    std::string device;                // its name
    std::vector<std::string> assumed;  // the device's figures that were not measured: DeviceDescription::assumed
    std::vector<Finding> unavailable;  // why no kernel supports the problem; there are no plans then
    std::vector<WorkspaceStep> first;  // what is written into the workspace before any of the plans
    std::optional<Plan> chosen;
    std::optional<Plan> next_best;     // The fastest shipped tile that differs from `chosen` in more than its stages.
    std::optional<Plan> model_choice;  // The plan that a tuned row replaced.
    std::string tuned_by;              // Date and command of that row.
    std::vector<Plan> legal;           // Every legal candidate, fastest first.
    std::vector<RejectedTile> rejected;
};

/// How `plan` comes to its result: all candidates, their predicted times, and why tiles are rejected. Never throws for
/// a problem that `validate` accepts.
Explanation explain(const Problem& problem, const DeviceDescription& device = h200());

}  // namespace tilewright
