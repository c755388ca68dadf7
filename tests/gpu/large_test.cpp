// Operands and outputs of more than 2^31 elements and 4 GiB, in every layout. Rows and columns repeat with a period, so
// that a small problem on the CPU says what every row of the large one must be. All of D is compared.
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
#include "gpu/recipes.h"
#include "measure/device.h"
#include "plan/k_splits.h"

namespace tilewright::test {
namespace {

using measure::Buffer;

constexpr std::int64_t period = 4096;

struct Large {
    Grouping grouping = Grouping::dense;
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t groups = 1;
    bool packs_weights = false;
};

/// The small problem is dense, or has fewer groups of k, all of one size.
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
        const Buffer workspace(static_cast<std::size_t>(std::max<std::int64_t>(workspace_bytes(p_), 128)));
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

    /// Rows of matrices of groups of k, one after another.
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
            const std::int64_t block = row_block(side.granularity);
            const std::int64_t small_blocks = ceil_div(small_rows, block);
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
        const std::int64_t bytes = packed_bytes(p_.b, PackedFor::fp8);
        buffers_.emplace_back(static_cast<std::size_t>(bytes));
        const PackedWeights packed =
            pack_weights(p_.b, PackedFor::fp8, buffers_.back().data(), bytes, {.stream = device_.stream()});
        p_.b = {.packed = packed};
    }

    measure::Device device_;
    check::CaseSpec spec_;
    Large large_;
    check::Case small_;
    std::vector<std::byte> before_;
    Problem p_;
    Buffer d_;
    std::vector<Buffer> buffers_;
};

void expect_periodic(const check::CaseSpec& spec, const Large& large) { LargeCase(spec, large).expect_periodic(); }

void expect_dense(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k) {
    expect_periodic({.recipe = recipe_of("1x128:128x128"),
                     .layout = layout,
                     .m = std::min(m, period),
                     .n = std::min(n, period),
                     .k = k},
                    {.m = m, .n = n});
}

TEST(GpuLarge, AOfMoreThanFourGigabytes) { expect_dense(Layout::nt, 262144 + 129, 136, 16384); }
TEST(GpuLarge, BOfMoreThanFourGigabytes) { expect_dense(Layout::nt, 72, 262144 + 136, 16384); }
TEST(GpuLarge, AAroundTwoToThe31Elements) {
    for (const std::int64_t m : {131071, 131072, 131073}) expect_dense(Layout::nt, m, 16, 16384);
}
TEST(GpuLarge, DOfMoreThanTwoToThe31Elements) { expect_dense(Layout::nt, 65536 + 3, 32768 + 24, 144); }

// Operands along their rows, in rows of a multiple of 16 bytes: mma A, or copied along k.
TEST(GpuLarge, NnWithBOfMoreThanFourGigabytes) { expect_dense(Layout::nn, 72, 262144 + 144, 16384); }
TEST(GpuLarge, TtWithAOfMoreThanFourGigabytes) { expect_dense(Layout::tt, 262144 + 144, 72, 16384); }
TEST(GpuLarge, TnWithAOfMoreThanFourGigabytes) { expect_dense(Layout::tn, 262144 + 144, 80, 16384); }
TEST(GpuLarge, TnWithBOfMoreThanFourGigabytes) { expect_dense(Layout::tn, 80, 262144 + 144, 16384); }

/// A of groups is copied into the workspace, where it has as many bytes again.
TEST(GpuLarge, CopiesOfMoreThanFourGigabytes) {
    expect_periodic({.recipe = recipe_of("1x128:128x128"), .layout = Layout::tt, .m = period, .n = 384, .k = 16384},
                    {.grouping = Grouping::m_grouped_offsets, .m = 262144 + 144, .n = 256, .groups = 3});
}

// Groups have other parts of the small problem's weights each.
constexpr Large groups_of_rows{.grouping = Grouping::m_grouped_offsets, .m = 215, .n = 4096, .groups = 66};

TEST(GpuLarge, GroupsWithBOfMoreThanFourGigabytes) {
    expect_periodic({.recipe = recipe_of("1x128:128x128"), .m = 40, .n = 1280, .k = 16384}, groups_of_rows);
}
TEST(GpuLarge, NnGroupsWithBOfMoreThanFourGigabytes) {
    expect_periodic({.recipe = recipe_of("1x128:128x128"), .layout = Layout::nn, .m = 40, .n = 1280, .k = 16384},
                    groups_of_rows);
}

/// Twice as many rows of weights: 4.4 GB of codes.
void expect_large_weights(bool packs_weights) {
    Large large = groups_of_rows;
    large.n = 8192;
    large.packs_weights = packs_weights;
    expect_periodic({.recipe = recipe_of("1x128:mxfp4"), .m = 40, .n = 1280, .k = 16384}, large);
}
TEST(GpuLarge, PackedWeightsOfMoreThanFourGigabytes) { expect_large_weights(true); }
TEST(GpuLarge, RawCodesOfMoreThanFourGigabytes) { expect_large_weights(false); }

check::CaseSpec f32_with_c(std::int64_t m, std::int64_t n, std::int64_t k) {
    return {.recipe = recipe_of("1x128:1x128"),
            .output = Format::f32,
            .m = m,
            .n = n,
            .k = k,
            .with_c = true,
            .in_place = true};
}

TEST(GpuLarge, F32DWithCOfMoreThanTwoToThe31Elements) {
    expect_periodic(f32_with_c(1000, 1096, 144), {.m = 65536 + 3, .n = 32768 + 24});
}

void expect_groups_of_k(Grouping grouping, std::int64_t groups, std::int64_t group_k, std::int64_t n) {
    check::CaseSpec spec = f32_with_c(516, std::min<std::int64_t>(n, 1028), 3 * group_k);
    spec.grouping = grouping;
    spec.groups = 3;
    spec.group_sizes = {group_k, group_k, group_k};
    expect_periodic(spec, {.grouping = grouping, .m = 8 * 516, .n = n, .groups = groups});
}

TEST(GpuLarge, GroupsOfKWithAOfMoreThanFourGigabytes) { expect_groups_of_k(Grouping::k_grouped, 130, 8192, 72); }
TEST(GpuLarge, AlignedGroupsOfKWithAOfMoreThanFourGigabytes) {
    expect_groups_of_k(Grouping::k_grouped_aligned_offsets, 130, 8192, 72);
}
TEST(GpuLarge, FlatGroupsOfKWithAOfMoreThanFourGigabytes) {
    expect_groups_of_k(Grouping::k_grouped_flat, 130, 8192, 72);
}
TEST(GpuLarge, GroupsOfKWithDOfMoreThanTwoToThe31Elements) {
    for (const Grouping grouping : {Grouping::k_grouped_flat, Grouping::k_grouped_aligned_offsets}) {
        expect_groups_of_k(grouping, 130, 256, 4112);
    }
}

}  // namespace
}  // namespace tilewright::test
