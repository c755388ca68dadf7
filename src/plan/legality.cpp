#include "plan/legality.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "hopper/tile/mma_tiling.h"
#include "plan/tile_distribution.h"
#include "problem/hopper_rules.h"

namespace tilewright::planner {
namespace {

using Reason = std::optional<std::string>;

std::string block(const hopper::Tile& tile) {
    return fmt::format("{}x{}{}", tile.shape.m, tile.shape.n, tile.swap_ab ? " swapped" : "");
}

constexpr std::int64_t kilobytes_up(std::int64_t bytes) { return (bytes + 1023) / 1024; }

Reason wgmma_shape(const hopper::Tile& tile, const Workload&, const DeviceDescription&) {
    const int rows = tile.shape.warpgroups * hopper::wgmma_m;
    if (tile.shape.m % rows != 0) {
        return fmt::format("{}: {} warpgroups multiply multiples of {} rows", block(tile), tile.shape.warpgroups, rows);
    }
    if (tile.shape.n % 8 != 0 || tile.shape.n > 256) {
        return fmt::format("{}: wgmma supports multiples of 8 columns, at most 256", block(tile));
    }
    const int k = stage_k(tile);
    if (tile.shape.k != k)
        return fmt::format("{}: a stage holds a k-block of {}, not {}", block(tile), k, tile.shape.k);
    return std::nullopt;
}

/// An mn-major operand passes through registers on its way to the tensor core, as mma A.
Reason mn_major_operand(const hopper::Tile& tile, const Workload&, const DeviceDescription&) {
    if (!has_mn_major(tile)) return std::nullopt;
    const bool of_a = tile.a.major == hopper::Major::mn;
    const std::string operand = of_a ? "an M-major a" : "an N-major b";
    if (mma_b(tile).is_mn_major()) {
        return fmt::format("{}: {} must be on the rows of the tensor core, {}", block(tile), operand,
                           of_a ? "without swap" : "with swap");
    }
    if (shares_operand(tile)) {
        return fmt::format("{}: blocks share operands in shared memory, and {} is taken from registers", block(tile),
                           operand);
    }
    if (tile.shape.m % hopper::mn_major_box == 0) return std::nullopt;
    return fmt::format("{}: {} is loaded in {} rows at a time", block(tile), operand, hopper::mn_major_box);
}

/// Packed weights are decoded in registers, as mma A, 64 rows at a time, and loaded 128 at a time.
Reason packed_weights(const hopper::Tile& tile, const Workload&, const DeviceDescription&) {
    if (!has_packed_weights(tile)) return std::nullopt;
    if (!tile.swap_ab) {
        return fmt::format("{}: packed weights must be on the rows of the tensor core, with swap", block(tile));
    }
    if (shares_operand(tile)) {
        return fmt::format("{}: blocks share operands in shared memory, and packed weights are taken from registers",
                           block(tile));
    }
    if (tile.shape.m == hopper::packed_tile_rows || tile.shape.m % (2 * hopper::packed_tile_rows) == 0) {
        return std::nullopt;
    }
    return fmt::format("{}: packed weights are loaded in 64 rows or multiples of 128", block(tile));
}

/// General kernels alone, whose warps promote their rows of one subtile while another is multiplied.
Reason scales_of_steps(const hopper::Tile& tile, const Workload&, const DeviceDescription&) {
    if (!promotes_each_step(tile)) return std::nullopt;
    if (shares_operand(tile)) return fmt::format("{}: kernels with 1x32 scales run without clusters", block(tile));
    if (!has_packed_weights(tile) && tile.shape.warpgroups > 2) {
        return fmt::format("{}: the warp that loads 1x32 scales has too few registers with {} warpgroups", block(tile),
                           tile.shape.warpgroups);
    }
    if (rows_per_warpgroup(tile) == hopper::wgmma_m || !has_packed_weights(tile)) return std::nullopt;
    return fmt::format("{} with {} warpgroups: kernels for 1x32 scales with packed weights have {} rows per warpgroup",
                       block(tile), tile.shape.warpgroups, hopper::wgmma_m);
}

/// Packed weights may have wide rows or not, or be read as they are: what runs must not depend on it (choose.cpp).
hopper::Tile for_wide_rows(hopper::Tile tile) {
    // The larger stages of both kernels for wide rows are those of raw codes.
    if (tile.b.storage == hopper::Storage::packed_e2m1) tile.b.storage = hopper::Storage::raw_e2m1;
    if (tile.b.storage == hopper::Storage::packed_mxfp4_bf16) tile.b.storage = hopper::Storage::wide_mxfp4_bf16;
    return tile;
}

Reason registers(const hopper::Tile& wanted, const Workload&, const DeviceDescription&) {
    const hopper::Tile tile = multiplies_bf16(wanted) ? for_wide_rows(wanted) : wanted;
    if (mma_registers(tile) <= mma_register_budget(tile)) return std::nullopt;
    return fmt::format(
        "{} needs {} accumulator registers per thread ({} for the sum, {} for partial sums); {} are available after {} "
        "others with {} warpgroup{}",
        block(tile), mma_registers(tile), accumulator_registers(tile), partial_registers(tile),
        mma_register_budget(tile), consumer_registers(tile) - mma_register_budget(tile), tile.shape.warpgroups,
        tile.shape.warpgroups == 1 ? "" : "s");
}

Reason shared_memory(const hopper::Tile& wanted, const Workload&, const DeviceDescription& device) {
    const hopper::Tile tile = for_wide_rows(wanted);
    if (shared_bytes(tile) <= device.shared_bytes_per_block) return std::nullopt;
    return fmt::format("{} with {} stages needs {} KB of shared memory; {} KB are available", block(tile), tile.stages,
                       kilobytes_up(shared_bytes(tile)), device.shared_bytes_per_block / 1024);
}

/// The slices of a tile are added in the shared memory of a cluster, of which eight blocks is the portable limit.
Reason slices_of_a_cluster(const hopper::Tile& tile, const Workload& work, const DeviceDescription& device) {
    constexpr int limit = 8;
    if (k_slices(tile) > limit) return fmt::format("clusters have at most {} blocks, not {}", limit, k_slices(tile));
    if (usable_sms(work, device) >= k_slices(tile)) return std::nullopt;
    return fmt::format("a cluster of {} needs as many SMs; this call may use {}", k_slices(tile),
                       usable_sms(work, device));
}

Reason cluster_size(const hopper::Tile& tile, const Workload& work, const DeviceDescription& device) {
    if (is_k_grouped(tile) && tile.cluster.size > 1) return "k-grouped calls run without clusters in this version";
    if (splits_k(tile)) return slices_of_a_cluster(tile, work, device);
    if (tile.cluster.size > 2)
        return fmt::format("clusters of {} leave SMs idle, only pairs fill the chip", tile.cluster.size);
    if (!shares_operand(tile)) return std::nullopt;
    if (usable_sms(work, device) < 2) return "a cluster of 2 needs two SMs; this call may use one";
    const hopper::OperandTile side =
        tile.cluster.use == hopper::ClusterUse::share_a ? operand_a(tile) : operand_b(tile);
    if (side.rows % 16 == 0) return std::nullopt;  // each half in whole swizzle patterns of 8 rows
    return fmt::format("{}: half of the shared operand's {} rows is not a multiple of 8", block(tile), side.rows);
}

/// Two blocks must never differ in the operand that they share.
Reason pairs(const hopper::Tile& tile, const Workload& work, const DeviceDescription&) {
    const bool along_rows = tile.cluster.use == hopper::ClusterUse::share_b;
    if (!shares_operand(tile)) return std::nullopt;
    if (along_rows && is_grouped(tile)) {
        return "blocks that share b are neighbours along the rows, where another group may begin between them; share a "
               "instead";
    }
    const std::int64_t size = along_rows ? work.rows : work.columns;
    const int step = along_rows ? d_rows(tile) : d_columns(tile);
    if (size > step) return std::nullopt;
    return fmt::format("sharing {} needs two tiles of {} along the {} of D; there {} {}", along_rows ? 'b' : 'a', step,
                       along_rows ? "rows" : "columns", size == 1 ? "is" : "are", size);
}

/// Those that compile without spills in all variants; with scales of both sides' rows a square alone. Not all ship.
Reason groups_of_k(const hopper::Tile& tile, const Workload&, const DeviceDescription&) {
    if (!is_k_grouped(tile)) return std::nullopt;
    const bool both = scales_mma_rows(tile) && scales_mma_columns(tile);
    const bool square = tile.shape.m == 128 && tile.shape.n == 128;
    const bool large = (tile.shape.m == 256 && tile.shape.n == 128) || (tile.shape.m == 128 && tile.shape.n == 256);
    if (!tile.swap_ab && tile.shape.warpgroups == 2 && (square || (large && !both))) return std::nullopt;
    return fmt::format("{}: k-grouped kernels exist for 128x128{} with two warpgroups in this version", block(tile),
                       both ? "" : ", 128x256 or 256x128");
}

Reason split(const hopper::Tile& tile, const Workload& work, const DeviceDescription&) {
    if (work.k_slices > 0 && k_slices(tile) != work.k_slices) {
        return fmt::format(
            "{} slices of k, but the same call without expanded weights has {}, which determine the bits",
            k_slices(tile), work.k_slices);
    }
    if (k_slices(tile) == 1) return std::nullopt;
    if (work.reproducibility == Reproducibility::invariant) {
        return "splitting k changes the order of addition, which `invariant` forbids";
    }
    const std::int64_t blocks = (work.k + 127) / 128;  // slices begin at multiples of 128
    if (blocks >= k_slices(tile)) return std::nullopt;
    return fmt::format("k = {} has at most {} slices of 128, not {}", work.k, blocks, k_slices(tile));
}

/// A cluster has one use.
std::optional<Objection> why_no_cluster(const PlannedTile& tile) {
    const bool shares = tile.multicast != Multicast::none;
    if (tile.split_k > 1) {
        if (tile.cluster == tile.split_k && !shares) return std::nullopt;
        return Objection{"cluster", fmt::format("{} slices of k take a cluster of {} that shares no operand",
                                                tile.split_k, tile.split_k)};
    }
    if (shares == (tile.cluster > 1)) return std::nullopt;
    return Objection{"cluster", "a cluster of 2 shares one operand, a single block none"};
}

}  // namespace

std::vector<Finding> obstacles(const Workload& work) {
    if (work.unexpanded != nullptr) return obstacles(*work.unexpanded);  // users give no factors
    const Geometry& g = work.geometry;
    return hopper_obstacles({work.recipe, work.grouping, weight_kind(g.b.packed), has_codes_along_k(g), mn_major(g).a});
}

std::optional<Objection> why_illegal(const PlannedTile& tile, const Workload& work, const DeviceDescription& device) {
    if (auto objection = why_no_cluster(tile)) return objection;
    return why_illegal(device_tile(tile, family_tile(work)), work, device);
}

std::optional<Objection> why_illegal(const hopper::Tile& tile, const Workload& work, const DeviceDescription& device) {
    struct Rule {
        const char* name;
        Reason (*check)(const hopper::Tile&, const Workload&, const DeviceDescription&);
    };
    constexpr std::array rules{Rule{"wgmma", wgmma_shape},    Rule{"wgmma", mn_major_operand},
                               Rule{"wgmma", packed_weights}, Rule{"wgmma", scales_of_steps},
                               Rule{"registers", registers},  Rule{"shared memory", shared_memory},
                               Rule{"cluster", cluster_size}, Rule{"cluster", pairs},
                               Rule{"split k", split},        Rule{"k-grouped", groups_of_k}};
    for (const Rule& rule : rules) {
        if (Reason reason = rule.check(tile, work, device)) return Objection{rule.name, std::move(*reason)};
    }
    return std::nullopt;
}

}  // namespace tilewright::planner
