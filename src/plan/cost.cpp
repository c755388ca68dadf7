#include "plan/cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hopper/description/design.h"
#include "plan/model.h"
#include "plan/shipped_kernels.h"
#include "problem/axes.h"
#include "problem/canonical_order.h"

namespace tilewright::planner {
namespace {

/// The inputs of a cost.
struct CostInputs {
    const hopper::Design& tile;
    const Workload& work;
    const DeviceDescription& device;
    const Model& model;
    TileDistribution over;
};

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

/// Bytes of D.
double written_bytes(const Workload& work) {
    return work.total_rows * static_cast<double>(work.columns) * bits(work.geometry.output) / 8;
}

std::int64_t whole(double value) { return static_cast<std::int64_t>(std::min(value, 0x1p62)); }

/// The rows of D in tiles. Groups are priced as if all rows of a tile existed, because only the device knows where they
/// end.
struct Filling {
    double row_tiles = 1;  // of one product
    double mean = 1;       // Share of the rows that exist, all tiles together.
    double busiest = 1;    // The same in the busiest tile: less than 1 only if there is no full one.
    int warpgroups = 1;    // Those of the busiest tile that have rows.
};

Filling filling(const CostInputs& inputs) {
    const hopper::Design& tile = inputs.tile;
    const Workload& work = inputs.work;
    Filling result{.warpgroups = tile.shape.warpgroups};
    if (tile.groups == hopper::Groups::rows) {
        result.row_tiles = std::max(1.0, inputs.over.row_tiles);
        return result;
    }
    const auto rows = static_cast<double>(std::max<std::int64_t>(work.rows, 1));
    result.row_tiles = std::ceil(rows / tile.d_rows);
    result.mean = rows / (result.row_tiles * tile.d_rows);
    if (result.row_tiles > 1) return result;
    result.busiest = result.mean;
    if (tile.skips_rows) result.warpgroups = static_cast<int>(std::ceil(rows / tile.rows_per_warpgroup));
    return result;
}

/// Bytes of one stage that this block reads from L2 itself. TMA reads no rows beyond the end of a tensor.
struct Fetched {
    double activations = 0;
    double weights = 0;
    double scales = 0;
};

/// Bytes of both operands' values in one stage.
double stage_bytes(const hopper::Design& tile) { return tile.mma_a.value_bytes + tile.mma_b.value_bytes; }

Fetched fetched_bytes(const hopper::Design& tile) {
    const auto values = [&](const hopper::OperandTile& side, int loaded_rows) -> double {
        // Packed for fp8 a row has 68 bytes; the model was measured with 128.
        return tile.order.step == StepKind::bf16 ? side.value_bytes : loaded_rows * hopper::row_bytes;
    };
    return {.activations = values(tile.operand_a(), tile.d_rows / tile.cluster.columns),
            .weights = values(tile.operand_b(), tile.d_columns / tile.cluster.rows),
            .scales = 4.0 * (tile.shape.m * tile.mma_a.scales_of_row + tile.shape.n * tile.mma_b.scales_of_row)};
}

/// The cost of rows whose pitch is not a multiple of 128 bytes, relative to rows that each are in one line of L2. Most
/// other rows are in two lines, and in five sectors if their pitch is not a multiple of 32 bytes. SMs then take them
/// one by one, as if no neighbour read the same.
struct SplitRows {
    double of_chip = 1;
    double of_sm = 1;
    bool shared = true;
};

SplitRows split_rows(const Workload& work) {
    constexpr std::int64_t line = 128;
    switch (std::gcd(work.k * bits(work.geometry.a.recipe.values) / 8, line)) {
        case 128: return {};
        case 64: return {.of_chip = 1.101, .of_sm = 1.146};
        case 32: return {.of_chip = 1.305, .of_sm = 1.458};
        default: return {.of_chip = 1.381, .of_sm = 2.367, .shared = false};
    }
}

/// Bytes of a stage that L2 delivers for each block. Blocks with consecutive numbers have consecutive rows of tiles, at
/// most a raster of them, and the same columns. So they read the same weights at once, and L2 serves such reads
/// together. If D has one row of tiles, they read the same activations instead. docs/experiments/034-planner-terms.md
/// has the clocks of a k-block by rows of tiles.
double l2_bytes_per_stage(const CostInputs& inputs, const Filling& filled) {
    constexpr double raster = 8;
    const Fetched fetched = fetched_bytes(inputs.tile);
    const SplitRows split = split_rows(inputs.work);
    const double rows = std::min(filled.row_tiles, raster);
    const double activations = fetched.activations * filled.mean;
    const double alone = activations * (1 - 1 / rows) + fetched.weights / rows;
    const double together = activations + fetched.weights + fetched.scales - alone;
    return (alone + (split.shared ? inputs.model.neighbour_share : 1) * together) * split.of_chip;
}

/// Seconds that one stage takes to arrive: the narrowest of a chip-wide L2, the SM's own path and the ring's depth.
double delivery_seconds(const CostInputs& inputs, const Filling& filled) {
    const auto& [tile, work, device, model, over] = inputs;
    const Fetched fetched = fetched_bytes(tile);
    const double missing = fetched.activations * (1 - filled.busiest);
    const double arriving = stage_bytes(tile) + fetched.scales - missing;
    const double chip =
        l2_bytes_per_stage(inputs, filled) * over.grid() / (device.l2_bytes_per_second * model.l2_share);
    const double fetching = (fetched.activations + fetched.weights - missing) * split_rows(work).of_sm;
    const double path = std::max(arriving, fetching) / (device.l2_bytes_per_clock * device.boost_hertz);
    const double ring = device.memory_latency * model.latency_share / tile.stages;
    return std::max({chip, path, ring});
}

/// Clocks to store a tile of D from registers to L2. Includes reading C, unless a store warp loads it in advance.
double store_clocks(const CostInputs& inputs) {
    const auto& [tile, work, device, model, over] = inputs;
    const int output = bits(work.geometry.output) / 8;
    const bool of_f32_with_c = output == 4 && work.adds_c;
    const bool by_tma = of_f32_with_c ? has_f32_kernel(tile) || tile.groups == hopper::Groups::rows
                                      : output == 4 || tile.stores_by_tma(output);
    const bool reads_c = work.adds_c && !(of_f32_with_c && has_f32_kernel(tile));
    const double read_and_written = reads_c ? 2 * output : output;
    // Where k is split, each block of the cluster stores a part of the tile.
    const double clocks =
        tile.shape.m * tile.shape.n * read_and_written / model.store_bytes_per_clock / tile.cluster.k_slices;
    if (!by_tma) return clocks * model.thread_store;
    const double shortfall = static_cast<double>(hopper::store_row_bytes) / (tile.store_columns(output) * output) - 1;
    return clocks * (1 + model.narrow_store * shortfall);
}

/// The cost of one unit of work for a block, at the boost clock.
struct Unit {
    double tensor = 0;         // Clocks.
    double promotion = 0;      // Clocks.
    double epilogue = 0;       // Clocks that the next unit's main loop does not hide.
    double last_epilogue = 0;  // Clocks of it that only the last unit exposes.
    double delivery = 0;       // Seconds until all operands have arrived.

    double clocks() const { return tensor + promotion + epilogue; }
};

Unit unit_of(const CostInputs& inputs) {
    const auto& [tile, work, device, model, over] = inputs;
    const Filling filled = filling(inputs);
    const Loop per_block = loop(tile, model, filled.warpgroups);
    const double epilogue =
        model.epilogue_clocks + switch_clocks(tile, over.k_blocks) + store_clocks(inputs) * filled.busiest;
    Unit unit;
    // Clocks of a loop are the H200's. Its SMs multiply 4096 pairs of fp8 per clock, as all other Hopper chips do
    // except the H20.
    const double slower = static_cast<double>(h200().fp8_products_per_clock) / device.fp8_products_per_clock;
    unit.tensor = over.k_blocks * per_block.tensor_clocks * slower * over.sharing;
    const double stall = per_block.stall_clocks + (over.sharing - 1) * per_block.issue_clocks;
    unit.promotion = over.k_blocks * stall;
    unit.delivery = over.k_blocks * delivery_seconds(inputs, filled);
    // Several warpgroups end a tile one after another, and the store of each delays the next tile's loads. Larger D was
    // not measured.
    const bool hides = filled.warpgroups == 1 && bits(work.geometry.output) <= 16 && !work.adds_c;
    unit.epilogue = hides ? model.exposed_epilogue * epilogue : epilogue;
    unit.last_epilogue = epilogue - unit.epilogue;
    return unit;
}

/// The larger of two times that share a resource. Where they are equal, neither waits for the other all the time.
double contended(double one, double other, double sharpness) {
    const double most = std::max(one, other);
    if (most <= 0) return 0;
    return most * std::pow(std::pow(one / most, sharpness) + std::pow(other / most, sharpness), 1 / sharpness);
}

/// Time of the busiest block. Power slows all SMs down together. Two times are added as squares under a root: that of
/// the boost clock, and that which the energy of all tensor clocks and loads allows. This fits the clocks of the
/// measured loops from 53 to 100 % busy. Short calls end before power limits them. L2 has a separate clock, so its time
/// bounds the result from outside.
void add_compute(const CostInputs& inputs, const Unit& unit, Cost& cost) {
    const auto& [tile, work, device, model, over] = inputs;
    const double even = over.waves();
    const double hertz = device.boost_hertz * model.busy_clock;
    const double at_boost = (over.rounds * unit.clocks() + unit.last_epilogue) / hertz;
    const double tensor_clocks = over.full_units * unit.tensor / over.sharing;
    const double energy =
        tensor_clocks * loop(tile, model).energy + static_cast<double>(cost.l2_bytes) * model.l2_byte_energy;
    const double duration = std::max(at_boost, cost.memory);
    const double at_power = energy / (device.sms * device.power_hertz) * duration / (duration + model.power_seconds);
    const double computing = std::hypot(at_boost, at_power);
    const double clock = hertz * at_boost / computing;
    const double epilogues = (over.rounds * unit.epilogue + unit.last_epilogue) / hertz;
    cost.compute = contended(computing, over.rounds * unit.delivery + epilogues, model.contention);
    cost.clock_hertz = clock;
    cost.tensor_clocks = whole(tensor_clocks);
    cost.tensor = even * unit.tensor / clock;
    cost.promotion = even * unit.promotion / clock;
    cost.epilogue = (even * unit.epilogue + unit.last_epilogue) / clock;
    cost.waves = (over.rounds - even) * unit.clocks() / clock;
    cost.delivery = cost.compute - computing;
}

/// Seconds by which a ring that holds more than one tile delays the first tiles and their stores. Memory loads operands
/// of the second tiles first.
double crowding(const CostInputs& inputs) {
    const auto& [tile, work, device, model, over] = inputs;
    const double stages_beyond = tile.stages - over.k_blocks;
    if (over.rounds < 2 || stages_beyond <= 0) return 0;
    const double operands = (compulsory_bytes(work) - written_bytes(work)) / std::max(1.0, over.k_blocks);
    const double stage = std::min(operands, over.resident_blocks * stage_bytes(tile));
    return model.crowding * stages_beyond * stage / device.memory_bytes_per_second;
}

/// Time that does not overlap: a fraction of the shorter of memory and compute, and the time after the last load. After
/// it follow the last k-block and the last tiles' stores.
double overlap(const CostInputs& inputs, const Unit& unit, const Cost& cost) {
    const double last_stores = written_bytes(inputs.work) / inputs.over.rounds / inputs.device.memory_bytes_per_second;
    const double last_block = (unit.tensor + unit.promotion) / std::max(1.0, inputs.over.k_blocks);
    const double tail = (last_block + unit.epilogue + unit.last_epilogue) / inputs.device.boost_hertz;
    const double until_last = cost.memory - last_stores + crowding(inputs) + tail;
    return inputs.model.imperfect_overlap * std::min(cost.memory, cost.compute) +
           std::max(0.0, until_last - std::max(cost.memory, cost.compute));
}

/// The time that the last round of units adds. A round of few blocks is bound by the compute of these blocks, even if
/// memory bounds the previous rounds. Choices for contiguous groups are worse with this term
/// (docs/experiments/015-group-size-distribution.md).
double last_round(const CostInputs& inputs, const Cost& cost) {
    const TileDistribution& over = inputs.over;
    const double waves = over.waves(), full = std::floor(waves);
    const bool one_after_another =
        inputs.tile.groups == hopper::Groups::rows && inputs.work.grouping != Grouping::m_grouped_masked;
    if (waves == full || over.rounds == 0 || one_after_another) return 0;
    const double share = full / waves, round = cost.compute / over.rounds;
    const double before = std::max(cost.memory * share, round * full);
    const double last = std::max(cost.memory * (1 - share), round * (over.rounds - full));
    return std::max(0.0, before + last - std::max(cost.memory, cost.compute));
}

/// Until all blocks run and have their first stage, which comes from memory.
double start_of_blocks(const CostInputs& inputs) {
    const auto& [tile, work, device, model, over] = inputs;
    const double first_stages = model.first_stages * over.grid() * stage_bytes(tile) / device.memory_bytes_per_second;
    const double clusters = tile.cluster.size() > 1 ? model.cluster_seconds : 0;
    const double warpgroups =
        tile.groups != hopper::Groups::none ? (tile.shape.warpgroups - 1) * model.taking_seconds : 0;
    return over.grid() * model.block_seconds + warpgroups + clusters + first_stages;
}

double reduction(const CostInputs& inputs) {
    const auto& [tile, work, device, model, over] = inputs;
    if (tile.cluster.k_slices == 1) return 0;
    // Each of its blocks has all slices of its fragments of f32.
    constexpr double fragment_bytes = hopper::fragment_elements * hopper::warpgroup_threads * 4;
    const double slice_bytes = tile.cluster.k_slices * tile.fragments_per_block * fragment_bytes;
    const double tile_seconds = slice_bytes * tile.shape.warpgroups / (model.peer_bytes_per_clock * device.boost_hertz);
    return over.rounds * (model.reduction_seconds + tile_seconds);
}

}  // namespace

double compulsory_bytes(const Workload& work) {
    const Geometry& g = work.geometry;
    const double products = static_cast<double>(work.products);
    const double columns = static_cast<double>(work.columns);
    const bool shared_operands = is_k_grouped(work.grouping);
    const double a_rows = shared_operands ? static_cast<double>(work.rows) : work.total_rows;
    const double b_rows = shared_operands ? columns : products * columns;
    const double k = static_cast<double>(g.k);
    const auto& expansion = work.before.expand_b;
    const double factor_bytes = expansion && expansion->has_factors ? b_rows * sizeof(float) : 0;
    const double bias_bytes = g.bias ? products * columns * bits(g.addend()) / 8 : 0;
    return operand_bytes(g.a.recipe, a_rows, k, products) + operand_bytes(g.b.recipe, b_rows, k, products) +
           factor_bytes + written_bytes(work) * (work.adds_c ? 2 : 1) + bias_bytes;
}

bool last_stores_count(const Workload& work) {
    constexpr double large_share = 0.05;
    return !takes_sizes(work.grouping) && !work.adds_c && written_bytes(work) / compulsory_bytes(work) > large_share;
}

Cost cost(const hopper::Kernel& kernel, const Workload& work, const DeviceDescription& device) {
    return cost(kernel, work, device, kernel.b.is_packed() ? packed_model : fitted_model);
}

Cost cost(const hopper::Kernel& kernel, const Workload& work, const DeviceDescription& device, const Model& model) {
    const hopper::Design tile = hopper::Design(kernel);
    const CostInputs inputs{tile, work, device, model, tile_distribution(tile, work, device)};
    const TileDistribution& over = inputs.over;
    const Unit unit = unit_of(inputs);
    Cost cost;
    cost.launch = device.start_seconds + device.launch_seconds + start_of_blocks(inputs);
    cost.memory_bytes = whole(compulsory_bytes(work));
    const Fetched fetched = fetched_bytes(tile);
    cost.l2_bytes = whole(over.units * over.k_blocks *
                          (fetched.activations * filling(inputs).mean + fetched.weights + fetched.scales));
    cost.memory =
        (compulsory_bytes(work) + (device.written_byte - 1) * written_bytes(work)) / device.memory_bytes_per_second;
    add_compute(inputs, unit, cost);
    cost.overlap = overlap(inputs, unit, cost) + last_round(inputs, cost);
    cost.reduction = reduction(inputs);
    cost.seconds = cost.launch + std::max(cost.memory, cost.compute) + cost.overlap + cost.reduction;
    return cost;
}

/// Each part is a separate launch, one after another, bound by memory; packing reads MXFP4 weights twice.
Cost with_workspace(Cost cost, const Workload& work, const DeviceDescription& device) {
    double bytes = 0;
    int launches = 0;
    const auto add = [&](double read, double written, int rounds = 1) {
        launches += rounds;
        bytes += rounds * read + written;
    };
    const auto product = [](auto... counts) { return (1.0 * ... * static_cast<double>(counts)); };
    for (const auto& copy : {work.before.copy_a, work.before.copy_b}) {
        if (copy) add(product(copy->matrices, copy->rows, copy->k), product(copy->bytes()));
    }
    for (const auto& decoding : {work.before.decode_a, work.before.decode_b}) {
        if (!decoding) continue;
        const double room = product(decoding->matrices, decoding->rows);
        const double rows = decoding->row_counts.given() ? std::min(room, work.total_rows) : room;
        const double written = room > 0 ? product(decoding->bytes()) * rows / room : 0;
        add(operand_bytes(decoding->from.recipe, rows, product(decoding->k), 1), written);
    }
    if (const auto& expansion = work.before.expand_b) {
        const PackedGeometry& packed = expansion->from;
        add(product(expansion->groups, packed.row_tiles, packed.k_blocks, packed.tile_bytes),
            product(expansion->bytes()));
    }
    if (const auto& packing = work.before.pack_b) {
        const PackedWeights& packed = packing->packed;
        const double rows = product(packed.groups, packed.n), k = product(packed.k);
        const double read = operand_bytes(packed.recipe, rows, k, 1);
        const double codes = rows * k * bits(packed.recipe.values) / 8;
        const bool twice = is_mxfp4(packed.recipe) && !packing->raw;
        add(packing->raw ? read - codes : read, product(packed.bytes), twice ? 2 : 1);
    }
    cost.preparation_bytes = whole(bytes);
    cost.preparation =
        launches * (device.start_seconds + device.launch_seconds) + bytes / device.memory_bytes_per_second;
    cost.seconds += cost.preparation;
    return cost;
}

}  // namespace tilewright::planner
