#include "plan/legality.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "plan/spread.h"
#include "problem/hopper_rules.h"

namespace tilewright::planner {
namespace {

using Reason = std::optional<std::string>;

std::string block(const hopper::Tile& tile) {
    return fmt::format("{}x{}{}", tile.m, tile.n, tile.swap_ab ? " swapped" : "");
}

constexpr std::int64_t kilobytes_up(std::int64_t bytes) { return (bytes + 1023) / 1024; }

Reason wgmma_shape(const hopper::Tile& tile, const Work&, const DeviceDescription&) {
    const int rows = tile.warpgroups * hopper::warpgroup_rows;
    if (tile.m % rows != 0) {
        return fmt::format("{}: {} warpgroups multiply multiples of {} rows", block(tile), tile.warpgroups, rows);
    }
    if (tile.n % 8 != 0 || tile.n > 256) {
        return fmt::format("{}: wgmma has multiples of 8 columns, at most 256", block(tile));
    }
    const int k = tile.multiplies_bf16() ? 64 : 128;
    if (tile.k != k) return fmt::format("{}: a stage holds {} of k (128 bytes), not {}", block(tile), k, tile.k);
    return std::nullopt;
}

Reason registers(const hopper::Tile& tile, const Work&, const DeviceDescription&) {
    if (tile.accumulator_registers() <= tile.room()) return std::nullopt;
    return fmt::format(
        "{} needs {} accumulator registers a thread ({} for the sum, {} for a chain), {} exist beside "
        "{} others with {} warpgroup{}",
        block(tile), tile.accumulator_registers(), tile.sum_registers(), tile.chain_registers(), tile.room(),
        tile.consumer_registers() - tile.room(), tile.warpgroups, tile.warpgroups == 1 ? "" : "s");
}

Reason shared_memory(const hopper::Tile& tile, const Work&, const DeviceDescription& device) {
    if (tile.shared_bytes() <= device.shared_bytes_per_block) return std::nullopt;
    return fmt::format("{} with {} stages needs {} KB of shared memory, {} KB exist", block(tile), tile.stages,
                       kilobytes_up(tile.shared_bytes()), device.shared_bytes_per_block / 1024);
}

/// The slices of a tile meet in the shared memory of a cluster, of which eight blocks is the portable limit.
Reason slices_of_a_cluster(const hopper::Tile& tile, const Work& work, const DeviceDescription& device) {
    constexpr int limit = 8;
    if (tile.split_k > limit) return fmt::format("clusters have at most {} blocks, not {}", limit, tile.split_k);
    if (tile.cluster != tile.split_k || tile.multicast != hopper::Multicast::none) {
        return fmt::format("{} slices of k take a cluster of {} that shares no operand", tile.split_k, tile.split_k);
    }
    if (usable_sms(work, device) >= tile.split_k) return std::nullopt;
    return fmt::format("a cluster of {} needs as many SMs, this call may use {}", tile.split_k,
                       usable_sms(work, device));
}

Reason cluster_size(const hopper::Tile& tile, const Work& work, const DeviceDescription& device) {
    const bool shares = tile.multicast != hopper::Multicast::none;
    if (tile.splits_k()) return slices_of_a_cluster(tile, work, device);
    if (tile.cluster > 2) return fmt::format("clusters of {} leave SMs idle, only pairs fill the chip", tile.cluster);
    if (shares != (tile.cluster == 2)) return "a cluster of 2 shares one operand, a single block none";
    if (!shares) return std::nullopt;
    if (usable_sms(work, device) < 2) return "a cluster of 2 needs two SMs, this call may use one";
    const hopper::Side side = tile.multicast == hopper::Multicast::a ? tile.side_a() : tile.side_b();
    if (side.rows % 16 == 0) return std::nullopt;  // each half in whole swizzle patterns of 8 rows
    return fmt::format("{}: half of the shared operand's {} rows is no multiple of 8", block(tile), side.rows);
}

/// Two blocks must never differ in the operand that they share.
Reason pairs(const hopper::Tile& tile, const Work& work, const DeviceDescription&) {
    const bool along_rows = tile.multicast == hopper::Multicast::b;
    if (tile.multicast == hopper::Multicast::none) return std::nullopt;
    if (along_rows && tile.grouped()) {
        return "blocks that share b lie along the rows, where another group may begin between them; share a instead";
    }
    const std::int64_t size = along_rows ? work.rows : work.columns;
    const int step = along_rows ? tile.rows() : tile.columns();
    if (size > step) return std::nullopt;
    return fmt::format("sharing {} takes two tiles of {} along the {} of D; there {} {}", along_rows ? 'b' : 'a', step,
                       along_rows ? "rows" : "columns", size == 1 ? "is" : "are", size);
}

Reason split(const hopper::Tile& tile, const Work& work, const DeviceDescription&) {
    if (tile.split_k == 1) return std::nullopt;
    if (work.reproducibility == Reproducibility::invariant) {
        return "splitting k changes the order of addition, which `invariant` forbids";
    }
    const std::int64_t blocks = (work.k + 127) / 128;  // slices are cut at multiples of 128
    if (blocks >= tile.split_k) return std::nullopt;
    return fmt::format("k = {} cuts into at most {} slices of 128, not {}", work.k, blocks, tile.split_k);
}

}  // namespace

std::vector<Finding> obstacles(const Work& work) { return hopper_obstacles(work.recipe, work.layout); }

std::optional<Objection> why_illegal(const hopper::Tile& tile, const Work& work, const DeviceDescription& device) {
    struct Rule {
        const char* name;
        Reason (*check)(const hopper::Tile&, const Work&, const DeviceDescription&);
    };
    constexpr std::array rules{
        Rule{"wgmma", wgmma_shape},    Rule{"registers", registers}, Rule{"shared memory", shared_memory},
        Rule{"cluster", cluster_size}, Rule{"cluster", pairs},       Rule{"split k", split}};
    for (const Rule& rule : rules) {
        if (Reason reason = rule.check(tile, work, device)) return Objection{rule.name, std::move(*reason)};
    }
    return std::nullopt;
}

}  // namespace tilewright::planner
