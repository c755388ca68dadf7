// The facts about weights that packing needs before it writes a byte: which rows are wide, how many windows they have,
// and where everything goes.
#pragma once

#include "base/region.h"
#include "formats/packed_layout.h"
#include "formats/packed_source.h"

#include <tilewright/quantize.h>

#include <vector>

namespace tilewright::formats {

struct RowJudgement {
    RowExponents exponents{};
    bool wide = false;
    bool kept = false;  // its scales do not follow from the tiles
    int windows = 1;    // the most in any 128 k-elements
};

constexpr bool has_blocks_of_32(const OperandRecipe& recipe) { return recipe.granularity == Granularity::block_1x32; }

/// All that follows from the weights but their bytes.
struct PackPlan {
    PackedSource source;
    PackedFor activations = PackedFor::fp8;
    PackedSections sections{};
    int range = 0;
    std::vector<RowJudgement> rows{};  // [groups * n]
    std::int64_t kept_rows = 0;
    std::int64_t bytes = 0;

    const RowJudgement& judgement(std::int64_t group, std::int64_t row) const {
        return rows[static_cast<std::size_t>(group * sections.n + row)];
    }
    bool has_windows() const { return activations == PackedFor::fp8 && has_blocks_of_32(source.recipe()); }
    /// The exponents of the four blocks of 128 k-elements.
    std::array<int, BlockWindows::blocks> block_exponents(std::int64_t group, std::int64_t row,
                                                          std::int64_t k_block) const;
    /// The windows of a row in 128 k-elements; for a row that is not wide, the one window that has all blocks.
    BlockWindows windows(std::int64_t group, std::int64_t row, std::int64_t k_block) const;
};

/// Throws Error with every finding.
PackPlan pack_plan(const Operand& weights, PackedFor activations, const ConversionOptions& how);

/// item(0) .. item(count - 1) on the threads of `how`; rethrows the exception of the first item that threw.
template <class Item>
void for_each_item(std::int64_t count, const ConversionOptions& how, Item item) {
    Cancellation cancellation(how.cancelled);
    const int threads = region_threads(how.threads, count / 4);
    FirstError error;
    open_region(threads, cancellation, [&] {
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
        for (std::int64_t i = 0; i < count; ++i) {
            if (!cancellation.requested()) error.keep([&] { item(i); });
        }
    });
    error.rethrow();
    cancellation.check();
}

}  // namespace tilewright::formats
