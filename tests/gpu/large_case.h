// A product that is too large for the CPU. Rows and columns of its operands repeat, so that a small problem on the CPU
// gives every row of D. All of D is compared.
#pragma once

#include <gtest/gtest.h>
#include <tilewright/packed.h>
#include <tilewright/quantize.h>
#include <tilewright/run.h>

#include <algorithm>
#include <vector>

#include "base/math.h"
#include "check/case.h"
#include "cpu/exact/exact.h"
#include "gpu/periodic.h"
#include "measure/device.h"
#include "plan/choose.h"

namespace tilewright::test {

/// The shape; `m` of groups of rows is their sum.
struct Large {
    Grouping grouping = Grouping::dense;
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t groups = 1;
    bool packs_weights = false;
};

/// The small problem is dense, or has fewer k-groups, all of one size.
class LargeCase {
public:
    LargeCase(const check::CaseSpec& spec, const Large& large)
        : spec_(spec), large_(large), small_(spec), before_(small_.output()), p_(small_.problem()) {
        place_values();
        place_scales();
        place_sizes();
        place_output();
        const std::vector<std::int64_t> k_splits = planner::planned_k_splits(p_, default_device());
        cpu::run_exact(small_.geometry(), {.k_splits = k_splits});
        if (large.packs_weights) pack_weights_here();
    }

    void expect_periodic() {
        const measure::Buffer workspace(static_cast<std::size_t>(std::max<std::int64_t>(workspace_bytes(p_), 128)));
        device_.synchronize();
        run(p_, {.backend = Backend::hopper,
                 .stream = device_.stream(),
                 .workspace = {workspace.data(), static_cast<std::int64_t>(workspace.size())}});
        device_.synchronize();
        EXPECT_EQ(output(small_.problem().d.data).difference(d_), "");
    }

private:
    bool of_k() const { return is_k_grouped(large_.grouping); }
    bool of_rows() const { return large_.grouping == Grouping::m_grouped_offsets; }
    std::int64_t k() const { return of_k() ? group_k() * large_.groups : spec_.k; }
    std::int64_t group_k() const { return spec_.k / spec_.groups; }
    std::int64_t rows_each() const { return large_.m / large_.groups; }

    /// Rows of the matrices of k-groups, one after another.
    Place of_matrices(std::int64_t row, std::int64_t rows, std::int64_t small_rows) const {
        return {row / rows % spec_.groups * small_rows + row % rows % small_rows};
    }

    void upload(Tensor& tensor, const Periodic& data) {
        buffers_.push_back(data.on_gpu());
        tensor = data.tensor(buffers_.back());
    }

    void place_values() {
        const std::int64_t groups = large_.groups;
        const bool flat = large_.grouping == Grouping::k_grouped_flat;
        const auto place_side = [&](Tensor& values, std::int64_t rows, std::int64_t small_rows, bool along_rows,
                                    bool grouped) {
            Dims shape = grouped ? Dims{groups} : Dims{};
            shape.push_back(along_rows ? k() : rows);
            shape.push_back(along_rows ? rows : k());
            if (flat) {
                Tensor block = values;
                block.shape = {spec_.groups * small_rows, group_k()};
                upload(values, Periodic(block, {groups * rows, group_k()},
                                        [=, this](std::int64_t row) { return of_matrices(row, rows, small_rows); }));
                values = as_on_gpu(values, shape);
                return;
            }
            upload(values, Periodic(values, shape, [=, this](std::int64_t row) {
                       if (along_rows) return Place{row % k(), row / k() * rows % small_rows};
                       return Place{row % small_rows};
                   }));
        };
        place_side(p_.a.values, large_.m, spec_.m, a_is_transposed(spec_.layout), false);
        place_side(p_.b.values, large_.n, spec_.n, b_is_transposed(spec_.layout), of_rows());
    }

    static Tensor as_on_gpu(const Tensor& memory, const Dims& shape) {
        Tensor view = row_major(memory.data, memory.format, shape);
        view.device = memory.device;
        return view;
    }

    void place_scales() {
        const auto place_side = [&](Operand& side, std::int64_t rows, std::int64_t small_rows, bool grouped) {
            if (!side.scales.given()) return;
            const std::int64_t block = row_block(side.granularity);
            const std::int64_t small_blocks = ceil_div(small_rows, block);
            if (of_k() && side.granularity == Granularity::row) {
                upload(side.scales, Periodic(side.scales, {large_.groups, rows},
                                             [this](std::int64_t group) { return Place{group % spec_.groups}; }));
                return;
            }
            Dims shape = grouped ? Dims{large_.groups} : Dims{};
            shape.push_back(ceil_div(rows, block));
            shape.push_back(ceil_div<std::int64_t>(k(), k_block(side.granularity)));
            upload(side.scales,
                   Periodic(side.scales, shape, [=](std::int64_t row) { return Place{row % small_blocks}; }));
        };
        place_side(p_.a, large_.m, spec_.m, false);
        place_side(p_.b, large_.n, spec_.n, of_rows());
    }

    void place_sizes() {
        if (large_.grouping == Grouping::dense) return;
        std::vector<std::int64_t> sizes(static_cast<std::size_t>(large_.groups));
        const std::int64_t each = of_k() ? group_k() : rows_each();
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            sizes[i] = large_.grouping == Grouping::k_grouped_flat ? each : static_cast<std::int64_t>(i + 1) * each;
        }
        if (of_rows()) sizes.back() = large_.m;
        p_.groups.grouping = large_.grouping;
        upload(p_.groups.sizes, Periodic(row_major(sizes.data(), Format::i64, {large_.groups}), {large_.groups},
                                         [](std::int64_t) { return Place{}; }));
    }

    Periodic output(const void* data) const {
        Tensor block = small_.problem().d;
        block.data = const_cast<void*>(data);
        const Dims shape = of_k() ? Dims{large_.groups, large_.m, large_.n} : Dims{large_.m, large_.n};
        return {block, shape, [this](std::int64_t row) {
                    if (of_k()) return of_matrices(row, large_.m, spec_.m);
                    const std::int64_t group = std::min(row / rows_each(), large_.groups - 1);
                    return Place{row % spec_.m, group * large_.n % spec_.n};
                }};
    }

    /// D as the small problem has it before it is run: C, or poison.
    void place_output() {
        const Periodic before = output(before_.data());
        d_ = before.on_gpu();
        p_.d = before.tensor(d_);
        if (spec_.in_place) p_.c = p_.d;
    }

    void pack_weights_here() {
        device_.synchronize();
        const PackedFor activations = packed_for(spec_.recipe.a);
        const std::int64_t bytes = packed_bytes(p_.b, activations);
        buffers_.emplace_back(static_cast<std::size_t>(bytes));
        const PackedWeights packed =
            pack_weights(p_.b, activations, buffers_.back().data(), bytes, {.stream = device_.stream()});
        p_.b = {.packed = packed};
    }

    measure::Device device_;
    check::CaseSpec spec_;
    Large large_;
    check::Case small_;
    std::vector<std::byte> before_;
    Problem p_;
    measure::Buffer d_;
    std::vector<measure::Buffer> buffers_;
};

inline void expect_periodic(const check::CaseSpec& spec, const Large& large) {
    LargeCase(spec, large).expect_periodic();
}

}  // namespace tilewright::test
