#include "plan/cost.h"

#include <algorithm>
#include <cmath>

#include "plan/loop.h"

namespace tilewright::planner {
namespace {

// What has not been measured on a kernel yet: estimates, 2026-11-21.
constexpr double store_bytes_per_clock = 64;  // of one SM, from registers through staging to L2
constexpr double epilogue_clocks = 300;       // beside the stores
constexpr double exposed_epilogue = 0.3;      // of it while the other warpgroups' main loops go on
constexpr double imperfect_overlap = 0.1;     // of the shorter of memory and compute
constexpr double reduction_seconds = 0.8e-6;  // flags between the slices of a tile

/// Bytes of one operand, values and scales, with `rows` rows in all products together.
double operand_bytes(const OperandRecipe& side, double rows, double k, double products) {
    const double values = rows * k * bits(side.values) / 8;
    if (side.granularity == Granularity::none) return values;
    const int row_block = tilewright::row_block(side.granularity);
    const int k_block = tilewright::k_block(side.granularity);
    const double row_count = row_block == 0 ? products : std::ceil(rows / row_block);
    const double k_count = k_block == 0 ? 1 : std::ceil(k / k_block);
    return values + row_count * k_count * bits(side.scales) / 8;
}

std::int64_t whole(double value) { return static_cast<std::int64_t>(std::min(value, 0x1p62)); }

/// Bytes of one stage that this block reads from L2 itself.
double fetched_bytes(const hopper::Tile& tile) {
    double bytes = tile.scale_bytes_per_stage();
    for (const hopper::Side& side : {tile.side_a(), tile.side_b()}) {
        bytes += tile.fetched_rows(side) * tile.k * hopper::bits(side.storage) / 8.0;
    }
    return bytes;
}

/// Seconds that one stage takes to arrive: the narrowest of a chip-wide L2, the SM's own path and the ring's depth.
double delivery_seconds(const hopper::Tile& tile, const Spread& spread, const DeviceDescription& device) {
    const double arriving = tile.bytes_per_stage() + tile.scale_bytes_per_stage();
    const double chip = fetched_bytes(tile) * spread.grid() / device.l2_bytes_per_second;
    const double path = arriving / (device.l2_bytes_per_clock * device.boost_hertz);
    const double ring = device.memory_latency / tile.stages;
    return std::max({chip, path, ring});
}

/// What one unit of work costs a block, at the boost clock.
struct Unit {
    double tensor = 0;         // clocks
    double promotion = 0;      // clocks
    double epilogue = 0;       // clocks that the next unit's main loop does not hide
    double last_epilogue = 0;  // clocks of it that only the last unit exposes
    double delivery = 0;       // seconds until all operands have arrived

    double clocks() const { return tensor + promotion + epilogue; }
};

Unit unit_of(const hopper::Tile& tile, const Work& work, const Spread& spread, const DeviceDescription& device) {
    const Loop per_block = loop(tile);
    const double output = tile.split_k > 1 ? 4 : bits(work.output) / 8.0;
    const double read_and_written = work.adds_c && tile.split_k == 1 ? 2 * output : output;
    const double epilogue = epilogue_clocks + tile.m * tile.n * read_and_written / store_bytes_per_clock;
    Unit unit;
    unit.tensor = spread.k_blocks * per_block.tensor_clocks;
    unit.promotion = spread.k_blocks * per_block.stall_clocks;
    unit.delivery = spread.k_blocks * delivery_seconds(tile, spread, device);
    unit.epilogue = epilogue;
    if (tile.warpgroups > 1) {  // warpgroups may drift apart by the ring
        const double slack = (tile.stages - 1) * (per_block.tensor_clocks + per_block.stall_clocks);
        unit.epilogue = std::min(epilogue, exposed_epilogue * epilogue + std::max(0.0, epilogue - slack));
    }
    unit.last_epilogue = epilogue - unit.epilogue;
    return unit;
}

/// Time of the busiest block. Power slows all SMs down together: time is the root of squares of what the boost clock
/// would take and of what the energy of all tensor clocks alone would take, which fits the clocks of the measured
/// loops from 53 to 100 % busy. L2 has a clock of its own, so its time bounds the result from outside.
void add_compute(const hopper::Tile& tile, const Work& work, const Spread& spread, const DeviceDescription& device,
                 Cost& cost) {
    const Unit unit = unit_of(tile, work, spread, device);
    const double even = spread.waves();
    const double at_boost = (spread.rounds * unit.clocks() + unit.last_epilogue) / device.boost_hertz;
    const double tensor_clocks = spread.units * unit.tensor;
    const double at_power = tensor_clocks * loop(tile).energy / (device.sms * device.power_hertz);
    const double computing = std::hypot(at_boost, at_power);
    const double clock = device.boost_hertz * at_boost / computing;
    const double epilogues = (spread.rounds * unit.epilogue + unit.last_epilogue) / device.boost_hertz;
    cost.compute = std::max(computing, spread.rounds * unit.delivery + epilogues);
    cost.clock_hertz = clock;
    cost.tensor_clocks = whole(tensor_clocks);
    cost.tensor = even * unit.tensor / clock;
    cost.promotion = even * unit.promotion / clock;
    cost.epilogue = (even * unit.epilogue + unit.last_epilogue) / clock;
    cost.waves = (spread.rounds - even) * unit.clocks() / clock;
    cost.delivery = cost.compute - computing;
}

double reduction(const hopper::Tile& tile, const Spread& spread, const DeviceDescription& device) {
    if (tile.split_k == 1) return 0;
    const double partial = tile.partial_bytes();
    const double tiles_each = std::ceil(spread.tiles / spread.slots);
    const double owner = tiles_each * tile.split_k * partial / (device.l2_bytes_per_clock * device.boost_hertz);
    const double all = 2 * partial * spread.units;  // written and read
    const bool fits = all / 2 <= static_cast<double>(device.l2_bytes) / 2;
    const double chip = all / (fits ? device.l2_bytes_per_second : device.memory_bytes_per_second);
    return reduction_seconds + std::max(owner, chip);
}

}  // namespace

double compulsory_bytes(const Work& work) {
    const double products = static_cast<double>(work.products);
    const double columns = static_cast<double>(work.columns);
    const bool shared_operands = work.grouping == Grouping::k_grouped;
    const double a_rows = shared_operands ? static_cast<double>(work.rows) : work.total_rows;
    const double b_rows = shared_operands ? columns : products * columns;
    const double output = work.total_rows * columns * bits(work.output) / 8;
    return operand_bytes(work.recipe.a, a_rows, work.total_k, products) +
           operand_bytes(work.recipe.b, b_rows, work.total_k, products) + output * (work.adds_c ? 2 : 1);
}

double workspace_bytes(const hopper::Tile& tile, const Spread& spread) {
    constexpr double counter_bytes = 4;
    return tile.split_k == 1 ? 0 : spread.units * tile.partial_bytes() + spread.tiles * counter_bytes;
}

Cost cost(const hopper::Tile& tile, const Work& work, const DeviceDescription& device) {
    const Spread over = spread(tile, work, device);
    Cost cost;
    cost.launch = device.start_seconds + device.launch_seconds;
    cost.memory_bytes = whole(compulsory_bytes(work));
    cost.l2_bytes = whole(over.units * over.k_blocks * fetched_bytes(tile));
    cost.memory = compulsory_bytes(work) / device.memory_bytes_per_second;
    add_compute(tile, work, over, device, cost);
    cost.overlap = imperfect_overlap * std::min(cost.memory, cost.compute);
    cost.reduction = reduction(tile, over, device);
    cost.seconds = cost.launch + std::max(cost.memory, cost.compute) + cost.overlap + cost.reduction;
    return cost;
}

}  // namespace tilewright::planner
