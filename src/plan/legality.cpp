#include "plan/legality.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <array>
#include <utility>

#include "base/math.h"
#include "hopper/description/design.h"
#include "plan/kernel_class.h"
#include "plan/tile_distribution.h"
#include "plan/variant.h"
#include "problem/hopper_rules.h"

namespace tilewright::planner {
namespace {

using Reason = std::optional<std::string>;

std::string block(const hopper::Design& tile) {
    return fmt::format("{}x{}{}", tile.shape.m, tile.shape.n, tile.swap_ab ? " swapped" : "");
}

Reason wgmma_shape(const hopper::Design& tile, const Workload&, const DeviceDescription&) {
    const int rows = tile.shape.warpgroups * hopper::wgmma_m;
    if (tile.shape.m % rows != 0) {
        return fmt::format("{}: {} warpgroups multiply multiples of {} rows", block(tile), tile.shape.warpgroups, rows);
    }
    if (tile.shape.n % 8 != 0 || tile.shape.n > 256) {
        return fmt::format("{}: wgmma supports multiples of 8 columns, at most 256", block(tile));
    }
    return std::nullopt;
}

/// Rows that are loaded together: those of MN-major operands, and of packed weights.
Reason loaded_rows(const hopper::Design& tile, const Workload&, const DeviceDescription&) {
    const bool of_a = tile.a.form == hopper::Form::columns, of_b = tile.b.form == hopper::Form::columns;
    if ((of_a || of_b) && tile.shape.m % hopper::mn_major_box != 0) {
        return fmt::format("{}: an {} is loaded in {} rows at a time", block(tile), of_a ? "M-major a" : "N-major b",
                           hopper::mn_major_box);
    }
    const bool fits = tile.shape.m == hopper::packed_rows || tile.shape.m % (2 * hopper::packed_rows) == 0;
    if (!tile.b.is_packed() || fits) return std::nullopt;
    return fmt::format("{}: packed weights are loaded in 64 rows or multiples of 128", block(tile));
}

Reason contradicts(const hopper::Design& tile, const Workload&, const DeviceDescription&) {
    const char* const words = contradiction(tile);
    return words == nullptr ? std::nullopt : Reason(fmt::format("{}: {}", block(tile), words));
}

/// The one of the tile's kernels that needs most. Whether weights have wide rows must not change the choice
/// (choose.cpp), so there must be room for all of them.
template <class Need>
hopper::Design neediest(const hopper::Design& tile, Need need) {
    hopper::Design most = tile;
    for (const hopper::Kernel& kernel : wide_kernels(tile)) {
        if (const hopper::Design each = hopper::Design(kernel); need(each) > need(most)) most = each;
    }
    return most;
}

Reason registers(const hopper::Design& wanted, const Workload&, const DeviceDescription&) {
    const auto missing = [](const hopper::Design& each) { return each.mma_registers - each.mma_register_budget; };
    const hopper::Design tile = neediest(wanted, missing);
    if (tile.order.chain == hopper::step_k && !tile.b.is_packed() && tile.shape.warpgroups > 2) {
        return fmt::format("{}: the warp that loads 1x32 scales has too few registers with {} warpgroups", block(tile),
                           tile.shape.warpgroups);
    }
    if (missing(tile) <= 0) return std::nullopt;
    return fmt::format(
        "{} needs {} accumulator registers per thread ({} for the sum, {} for partial sums); {} are available after {} "
        "others with {} warpgroup{}",
        block(tile), tile.mma_registers, tile.accumulator_registers, tile.mma_registers - tile.accumulator_registers,
        tile.mma_register_budget, tile.consumer_registers - tile.mma_register_budget, tile.shape.warpgroups,
        tile.shape.warpgroups == 1 ? "" : "s");
}

Reason shared_memory(const hopper::Design& wanted, const Workload&, const DeviceDescription& device) {
    const hopper::Design tile = neediest(wanted, [](const hopper::Design& each) { return each.shared_bytes; });
    if (tile.shared_bytes <= device.shared_bytes_per_block) return std::nullopt;
    return fmt::format("{} with {} stages needs {} KB of shared memory; {} KB are available", block(tile), tile.stages,
                       ceil_div(tile.shared_bytes, 1024), device.shared_bytes_per_block / 1024);
}

/// The slices of a tile are added in the shared memory of a cluster, of which eight blocks is the portable limit.
Reason cluster_size(const hopper::Design& tile, const Workload& work, const DeviceDescription& device) {
    constexpr int limit = 8;
    const int blocks = tile.cluster.size(), sms = usable_sms(work, device);
    if (tile.cluster.k_slices > limit) return fmt::format("clusters have at most {} blocks, not {}", limit, blocks);
    if (tile.cluster.k_slices > sms)
        return fmt::format("a cluster of {} needs as many SMs; this call may use {}", blocks, sms);
    if (!tile.cluster.shares_operand()) return std::nullopt;
    if (blocks > 2) return fmt::format("clusters of {} leave SMs idle, only pairs fill the chip", blocks);
    if (sms < 2) return "a cluster of 2 needs two SMs; this call may use one";
    const int rows = tile.cluster.columns > 1 ? tile.d_rows : tile.d_columns;
    if (rows % 16 == 0) return std::nullopt;  // each half in whole swizzle patterns of 8 rows
    return fmt::format("{}: half of the shared operand's {} rows is not a multiple of 8", block(tile), rows);
}

/// Two blocks must never differ in the operand that they share.
Reason pairs(const hopper::Design& tile, const Workload& work, const DeviceDescription&) {
    const bool along_rows = tile.cluster.rows > 1;
    if (!tile.cluster.shares_operand()) return std::nullopt;
    if (along_rows && tile.groups == hopper::Groups::rows) {
        return "blocks that share b are neighbours along the rows, where another group may begin between them; share a "
               "instead";
    }
    const std::int64_t size = along_rows ? work.rows : work.columns;
    const int step = along_rows ? tile.d_rows : tile.d_columns;
    if (size > step) return std::nullopt;
    return fmt::format("sharing {} needs two tiles of {} along the {} of D; there {} {}", along_rows ? 'b' : 'a', step,
                       along_rows ? "rows" : "columns", size == 1 ? "is" : "are", size);
}

/// The k-grouped kernels that compile without spills for all outputs; with row scales on both sides only the square
/// tile. Not all ship.
Reason groups_of_k(const hopper::Design& tile, const Workload&, const DeviceDescription&) {
    if (!tile.is_k_grouped()) return std::nullopt;
    const bool both = tile.mma_a.scales_of_row > 0 && tile.mma_b.scales_of_row > 0;
    const bool square = tile.shape.m == 128 && tile.shape.n == 128;
    const bool large = (tile.shape.m == 256 && tile.shape.n == 128) || (tile.shape.m == 128 && tile.shape.n == 256);
    if (!tile.swap_ab && tile.shape.warpgroups == 2 && (square || (large && !both))) return std::nullopt;
    return fmt::format("{}: k-grouped kernels exist for 128x128{} with two warpgroups in this version", block(tile),
                       both ? "" : ", 128x256 or 256x128");
}

Reason split(const hopper::Design& tile, const Workload& work, const DeviceDescription&) {
    if (work.k_slices > 0 && tile.cluster.k_slices != work.k_slices) {
        return fmt::format(
            "{} slices of k, but the same call without expanded weights has {}, which determine the bits",
            tile.cluster.k_slices, work.k_slices);
    }
    if (tile.cluster.k_slices == 1) return std::nullopt;
    if (work.reproducibility == Reproducibility::invariant) {
        return "splitting k changes the order of addition, which `invariant` forbids";
    }
    const auto blocks = ceil_div<std::int64_t>(work.k, 128);  // slices begin at multiples of 128
    if (blocks >= tile.cluster.k_slices) return std::nullopt;
    return fmt::format("k = {} has at most {} slices of 128, not {}", work.k, blocks, tile.cluster.k_slices);
}

}  // namespace

void require_support(const Workload& work) {
    if (std::vector<Finding> found = unsupported_on_hopper(work.asked); !found.empty()) throw Error(std::move(found));
}

std::optional<RejectedTile> why_illegal(const PlannedTile& tile, const Workload& work,
                                        const DeviceDescription& device) {
    const hopper::Kernel kernel = device_tile(tile, shapeless_kernel(work));
    const hopper::Design design = hopper::Design(kernel);
    if (tile.k != design.stage_k) {
        return RejectedTile{
            name(tile), "wgmma",
            fmt::format("{}: a stage holds a k-block of {}, not {}", block(design), design.stage_k, tile.k)};
    }
    return why_illegal(kernel, work, device);
}

std::optional<RejectedTile> why_illegal(const hopper::Kernel& kernel, const Workload& work,
                                        const DeviceDescription& device) {
    struct Rule {
        const char* name;
        Reason (*check)(const hopper::Design&, const Workload&, const DeviceDescription&);
    };
    constexpr std::array rules{Rule{"kernel", contradicts},
                               Rule{"wgmma", wgmma_shape},
                               Rule{"wgmma", loaded_rows},
                               Rule{"registers", registers},
                               Rule{"shared memory", shared_memory},
                               Rule{"cluster", cluster_size},
                               Rule{"cluster", pairs},
                               Rule{"split k", split},
                               Rule{"k-grouped", groups_of_k}};
    const hopper::Design tile = hopper::Design(kernel);
    for (const Rule& rule : rules) {
        if (Reason reason = rule.check(tile, work, device)) {
            return RejectedTile{name(planned_tile(kernel)), rule.name, std::move(*reason)};
        }
    }
    return std::nullopt;
}

}  // namespace tilewright::planner
