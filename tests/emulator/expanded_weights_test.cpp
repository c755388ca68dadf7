// The kernels that expand packed weights, on the emulator. They write the numbers that were packed, which have the same
// bits in a product on the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "check/case.h"
#include "cpu/exact/exact.h"
#include "emulator/other_kernels.h"
#include "formats/element.h"
#include "formats/packed_layout.h"
#include "launch/preparation.h"
#include "problem/canonical_order.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using check::FarScales;

/// No row is wide; some have blocks of zeros with any scale, and scales of NaN. NVFP4 has any scales without them.
constexpr FarScales far_scales[] = {
    {}, {.one_row_in = 1}, {.one_row_in = 1, .odd = true}, {.one_row_in = 2, .odd = true}};
constexpr const char* recipes[] = {"1x128:mxfp4", "bf16:mxfp4", "bf16:nvfp4"};

CaseSpec with_scales(CaseSpec spec, const char* recipe, std::size_t turn) {
    spec.recipe = parse_recipe(recipe).value();
    spec.seed = turn + 1;
    if (is_mxfp4(spec.recipe.b)) spec.far_scales = far_scales[turn];
    spec.far_scales.spread = is_bf16(spec.recipe.a) ? 100 : 7;
    spec.b_scales_transposed = turn == 2;
    return spec;
}

/// The case's weights as they are given to a product: expanded.
class ExpandedProduct {
public:
    explicit ExpandedProduct(check::Case& test)
        : packed_(pack_weights(test.problem().b, packed_for(test.spec().recipe.a))) {
        test.problem().b = {.packed = packed_};
        const Geometry g = test.geometry();
        before = workspace_plan(g, true);
        memory_.resize(static_cast<std::size_t>(before.bytes) + 2 * alignment, poison);
        void* workspace = memory_.data();
        std::size_t space = memory_.size();
        std::align(alignment, static_cast<std::size_t>(before.bytes), workspace, space);
        run_on_emulator(launch::lower_workspace(before, workspace));
        geometry = after_workspace(g, before, workspace);
        end_ = static_cast<std::uint8_t*>(workspace) + before.bytes;
    }

    bool has_wide_rows() const { return formats::internal_of(packed_) != formats::PackedInternal{}; }
    bool is_intact_behind() const {
        const std::uint8_t* const last = memory_.data() + memory_.size();
        return std::all_of(end_, last, [](std::uint8_t byte) { return byte == poison; });
    }

    WorkspacePlan before;
    Geometry geometry;

private:
    static constexpr std::size_t alignment = 128;
    static constexpr std::uint8_t poison = 0xA5;
    OwnedPackedWeights packed_;
    std::vector<std::uint8_t> memory_;
    const std::uint8_t* end_ = nullptr;
};

/// The number of a row's element as it was packed.
double packed_number(const Geometry& g, std::int64_t group, std::int64_t row, std::int64_t k) {
    const Origin from{group * g.b.value_strides.group, g.b.value_strides.row};
    return formats::load(g.b.values, Format::e2m1, value_index(g.b, from, row, k)) *
           formats::load(g.b.scales, g.b.recipe.scales, scale_index(g.b, group, row, k / g.b.k_block()));
}

/// The difference between a row and the expanded one. A scale of NaN makes the factor NaN; without factors it makes
/// numbers of the row NaN.
std::string wrong_row(const Geometry& given, const OperandGeometry& b, std::int64_t group, std::int64_t row) {
    constexpr double of_nvfp4 = 256;  // docs/numerics.md
    const double factor =
        b.scales == nullptr ? of_nvfp4 : formats::load(b.scales, Format::f32, scale_index(b, group, row, 0));
    const std::int64_t at = group * b.value_strides.group + row * b.value_strides.row;
    const auto number = [&](std::int64_t k) { return formats::load(b.values, b.recipe.values, at + k); };
    bool is_nan = false, gives_nan = std::isnan(factor);
    for (std::int64_t k = 0; k < given.k; ++k) {
        is_nan = is_nan || std::isnan(packed_number(given, group, row, k));
        gives_nan = gives_nan || std::isnan(number(k));
    }
    if (is_nan != gives_nan) return fmt::format("row {}: a factor of {}", row, factor);
    for (std::int64_t k = 0; k < b.value_strides.row; ++k) {
        const bool same =
            k >= given.k ? number(k) == 0 : is_nan || number(k) * factor == packed_number(given, group, row, k);
        if (!same) return fmt::format("group {}, row {}, k {}: {} * {}", group, row, k, number(k), factor);
    }
    return "";
}

/// The difference between the weights of a case and the expanded ones.
std::string wrong_numbers(check::Case& test) {
    const Geometry given = test.geometry();
    const ExpandedProduct product(test);
    if (product.has_wide_rows()) return "a row is wide";
    for (std::int64_t group = 0; group < given.groups; ++group) {
        for (std::int64_t row = 0; row < given.n; ++row) {
            std::string wrong = wrong_row(given, product.geometry.b, group, row);
            if (!wrong.empty()) return wrong;
        }
    }
    return product.is_intact_behind() ? "" : "bytes behind were written";
}

class ExpandedWeights : public testing::TestWithParam<const char*> {};

TEST_P(ExpandedWeights, AreTheNumbersThatWerePacked) {
    struct Shape {
        std::int64_t groups, n, k;
    };
    for (const Shape& shape :
         {Shape{1, 64, 128}, {1, 1, 2}, {3, 65, 154}, {2, 200, 1184}, {5, 63, 34}, {1, 192, 2048}, {2, 129, 1034}}) {
        for (std::size_t turn = 0; turn < std::size(far_scales); ++turn) {
            check::Case test(
                with_scales({.grouping = Grouping::batched, .m = 1, .n = shape.n, .k = shape.k, .groups = shape.groups},
                            GetParam(), turn));
            EXPECT_EQ(wrong_numbers(test), "") << shape.groups << " " << shape.n << " " << shape.k << " " << turn;
        }
    }
}

/// All codes and scales of NVFP4, NaN too.
TEST(ExpandedNvfp4, HasAllScales) {
    check::Case test(with_scales({.m = 1, .n = 256, .k = 256}, "bf16:nvfp4", 0));
    auto* const codes = static_cast<std::uint8_t*>(test.problem().b.values.data);
    auto* const scales = static_cast<std::uint8_t*>(test.problem().b.scales.data);
    for (int row = 0; row < 256; ++row) {
        for (int i = 0; i < 128; ++i) codes[row * 128 + i] = static_cast<std::uint8_t>(row * 7 + i * 2 + i / 8);
        for (int i = 0; i < 16; ++i) scales[row * 16 + i] = static_cast<std::uint8_t>(row);
    }
    EXPECT_EQ(wrong_numbers(test), "");
}

/// By the definition of either recipe, in any slices of k.
TEST_P(ExpandedWeights, HaveTheSameBitsOnTheCpu) {
    for (std::size_t turn = 0; turn < std::size(far_scales); ++turn) {
        for (const std::vector<std::int64_t>& splits : {std::vector<std::int64_t>{}, {256}, {128, 384, 896}}) {
            for (const Grouping grouping : {Grouping::dense, Grouping::m_grouped_offsets}) {
                check::Case test(with_scales({.grouping = grouping,
                                              .output = Format::f32,
                                              .m = 37,
                                              .n = 70,
                                              .k = 1034,
                                              .groups = grouping == Grouping::dense ? 1 : 3,
                                              .distribution = check::Distribution::abs_normal},
                                             GetParam(), turn));
                cpu::run_exact(test.geometry(), {.threads = 1, .k_splits = splits});
                const std::vector<std::byte> expected = test.output();
                test.reset_output();
                const ExpandedProduct product(test);
                ASSERT_FALSE(product.has_wide_rows());
                cpu::run_exact(product.geometry, {.threads = 1, .k_splits = splits});
                EXPECT_EQ(test.output(), expected) << check::describe(test.spec()) << splits.size();
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, ExpandedWeights, testing::ValuesIn(recipes));

}  // namespace
}  // namespace tilewright::tests
