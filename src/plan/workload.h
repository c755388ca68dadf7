// A problem as the planner sees it: how many products of which size are expected, and their formats.
#pragma once

#include <tilewright/plan.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hopper/description/kernel.h"
#include "problem/gpu_call.h"
#include "problem/hopper_rules.h"

namespace tilewright::planner {

/// The work of a call, as the planner expects it. Group sizes are in device memory, so they are estimated:
/// - masked groups have `expected_m` rows (all rows if unknown);
/// - contiguous groups divide their rows evenly, after the padding of groups that begin aligned is subtracted;
/// - k-grouped calls divide k evenly.
struct Workload {
    /// As the caller gave it: for `unsupported_on_hopper`. The order of additions follows from its recipe.
    HopperCall asked{};
    Grouping grouping = Grouping::dense;
    Reproducibility reproducibility = Reproducibility::repeatable;
    bool adds_c = false;  // Not a bias, which is the geometry's c too.
    bool hinted = false;  // masked: `rows` is the caller's expectation (tuned.h)
    int sm_limit = 0;
    std::int64_t products = 1;  // Products that have any row of D.
    std::int64_t rows = 0;      // Rows per product.
    std::int64_t columns = 0;   // Columns per product.
    std::int64_t k = 0;         // k per product.
    double padding = 0;         // Additional rows per group that are computed: row indices in blocks.
    double total_rows = 0;      // Rows of D, all products; exact where `rows` is an average.
    Geometry geometry{};        // GpuCall::product: its addresses and strides decide the kernel's variant.
    WorkspacePlan before{};     // As in GpuCall. Its time does not change the choice.
    int k_slices = 0;           // Slices that a tile must have; 0: any.
    /// The call if its packed weights were not expanded: it decides where k is split (choose.cpp). Null where they are
    /// not.
    std::shared_ptr<const Workload> if_not_expanded{};
    std::string key;  // "dense 1x128:128x128 bf16 m=4096 n=7168 k=2048", as tuned rows spell it

    bool empty() const { return products == 0 || rows == 0 || columns == 0; }
};

/// For a problem in which `validate` finds nothing.
Workload workload(const Problem& problem, const GpuCall& call);
Workload workload(const Problem& problem);

/// The kernel without its shape: the fields that follow only from the work. For supported work.
hopper::Kernel shapeless_kernel(const Workload& work);

}  // namespace tilewright::planner
