// Packed MXFP4 weights that are expanded to e4m3 before a product, on the emulator: the numbers that were packed, and
// products with each bit as the CPU's arithmetic `bit_exact` has it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "cpu/exact/exact.h"
#include "emulator/instantiate.h"
#include "emulator/prepared_case.h"
#include "emulator/quantize_kernels.h"
#include "formats/element.h"
#include "launch/preparation.h"
#include "launch/tile_code.h"

namespace tilewright::tests {
namespace {

using check::CaseSpec;
using check::FarScales;
using emulator::Timing;
using hopper::Family;
using hopper::Scaling;
using hopper::Tile;

constexpr Tile expanded(Tile tile, Family family = Family::dense, hopper::Storage a = hopper::Storage::e4m3,
                        Scaling scaling = Scaling::block_1x128) {
    tile.a = {.storage = a, .scaling = scaling};
    tile.b = {.scaling = Scaling::factor};
    tile.family = family;
    tile.swap_ab = tile.shape.n == 16;
    return tile;
}

constexpr Tile small{.shape = {.m = 64, .n = 64, .warpgroups = 1}, .stages = 4};
constexpr Tile split{.shape = {.m = 64, .n = 16, .warpgroups = 1}, .stages = 3, .cluster = hopper::split_k(4)};
constexpr Tile square{.shape = {.m = 128, .n = 128}, .stages = 3};
constexpr std::array tiles{expanded(small),
                           expanded(split),
                           expanded(square, Family::m_grouped),
                           expanded(small, Family::dense, hopper::Storage::e5m2),
                           expanded(small, Family::m_grouped, hopper::Storage::e4m3, Scaling::epilogue),
                           expanded(split, Family::dense, hopper::Storage::e4m3, Scaling::epilogue),
                           expanded(square, Family::m_grouped, hopper::Storage::e4m3, Scaling::block_1x32),
                           expanded(small, Family::dense, hopper::Storage::e5m2, Scaling::block_1x32),
                           expanded(split, Family::dense, hopper::Storage::e4m3, Scaling::block_1x32)};

std::vector<Kernel> kernels() { return every<TILEWRIGHT_LIST_STEP, tiles>(); }

/// No row is wide; some have blocks of zeros with any scale, and scales of NaN.
constexpr FarScales far_scales[] = {{},
                                    {.one_row_in = 1, .spread = 7},
                                    {.one_row_in = 1, .spread = 7, .odd = true},
                                    {.one_row_in = 2, .spread = 5, .odd = true}};

Recipe recipe(const char* text) { return parse_recipe(text).value(); }

struct Call {
    std::size_t kernel;
    CaseSpec spec;
};

std::vector<Call> calls() {
    const Recipe blocks = recipe("1x128:mxfp4"), of_powers = recipe("1x128.ue8m0:mxfp4");
    const Grouping batched = Grouping::batched, ends = Grouping::m_grouped_offsets, masked = Grouping::m_grouped_masked;
    const Grouping indices = Grouping::m_grouped_indices, aligned = Grouping::m_grouped_aligned_offsets;
    return {
        {0, {.recipe = blocks, .m = 70, .n = 200, .k = 544}},
        {0, {.recipe = of_powers, .m = 33, .n = 130, .k = 1162}},
        {0, {.grouping = batched, .recipe = blocks, .layout = Layout::tt, .m = 48, .n = 66, .k = 160, .groups = 3}},
        {1, {.recipe = blocks, .m = 17, .n = 72, .k = 1056}},
        {1, {.recipe = of_powers, .m = 5, .n = 1, .k = 514}},
        {2, {.grouping = ends, .recipe = blocks, .m = 150, .n = 136, .k = 320, .groups = 3}},
        {2, {.grouping = masked, .recipe = blocks, .m = 40, .n = 150, .k = 130, .groups = 3}},
        {2, {.grouping = indices, .recipe = of_powers, .m = 90, .n = 200, .k = 106, .groups = 4}},
        {2, {.grouping = aligned, .recipe = blocks, .m = 90, .n = 64, .k = 2, .groups = 3, .alignment = 16}},
        {3, {.recipe = recipe("e5m2.1x128:mxfp4"), .m = 70, .n = 136, .k = 288}},
        {4, {.grouping = ends, .recipe = recipe("row:mxfp4"), .m = 150, .n = 72, .k = 320, .groups = 3}},
        {4, {.grouping = masked, .recipe = recipe("tensor:mxfp4"), .m = 40, .n = 150, .k = 130, .groups = 3}},
        {5, {.recipe = recipe("row:mxfp4"), .m = 17, .n = 72, .k = 1056}},
        {6, {.grouping = ends, .recipe = recipe("mxfp8:mxfp4"), .m = 150, .n = 136, .k = 640, .groups = 3}},
        {6, {.grouping = masked, .recipe = recipe("mxfp8:mxfp4"), .m = 40, .n = 150, .k = 130, .groups = 3}},
        {7, {.recipe = recipe("e5m2.1x32:mxfp4"), .m = 70, .n = 200, .k = 544}},
        {7, {.grouping = batched, .recipe = recipe("e5m2.1x32:mxfp4"), .m = 48, .n = 66, .k = 160, .groups = 3}},
        {8, {.recipe = recipe("mxfp8:mxfp4"), .m = 17, .n = 72, .k = 1056}},
    };
}

CaseSpec with_scales(CaseSpec spec, std::size_t turn) {
    spec.seed = turn + 1;
    spec.far_scales = far_scales[turn];
    spec.a_gaps.row = 16 - (a_is_transposed(spec.layout) ? spec.m : spec.k) % 16;
    spec.b_scales_transposed = turn == 2;
    spec.a_scales_transposed = turn % 2 == 1;
    return spec;
}

class Expanded : public testing::TestWithParam<std::size_t> {};

TEST_P(Expanded, HaveTheCpusBits) {
    const auto [index, spec] = calls()[GetParam()];
    const Kernel kernel = kernels()[index];
    if (kernel.run == nullptr) GTEST_SKIP();  // TILEWRIGHT_LIST_STEP
    for (std::size_t turn = 0; turn < std::size(far_scales); ++turn) {
        CaseSpec call = with_scales(spec, turn);
        call.output = turn == 1 ? Format::f32 : Format::bf16;
        call.with_c = turn == 3;
        call.with_bias = turn == 1;
        call.alpha = turn == 3 ? 0.3F : 1.0F;
        const Conditions run{.sms = 4, .tma = turn % 2 == 0 ? Timing::early : Timing::late, .seed = turn};
        SCOPED_TRACE(launch::describe(kernel.tile) + "\n" + check::describe(call) + "\n" + describe(run));
        ASSERT_EQ(prepared_difference(kernel, call, run, true), "");
    }
}

INSTANTIATE_TEST_SUITE_P(All, Expanded, testing::Range(std::size_t{0}, calls().size()));

/// A's scales are so small that their products with the factors are subnormal: one after the other they keep all bits.
TEST(Expanded, FactorsMultiplyAfterTheScalesOfRows) {
    std::size_t ran = 0;
    for (const auto& [index, spec] : calls()) {
        const Kernel kernel = kernels()[index];
        if (kernel.run == nullptr || kernel.tile.a.scaling != Scaling::epilogue) continue;
        CaseSpec call = with_scales(spec, 0);
        call.output = Format::f32;
        check::Case test(call);
        Tensor& scales = test.problem().a.scales;
        std::int64_t last = 0;
        for (int i = 0; i < scales.shape.rank(); ++i) last += (scales.shape[i] - 1) * scales.strides[i];
        const auto* const given = static_cast<const float*>(scales.data);
        std::vector<float> small_ones(given, given + last + 1);
        for (float& scale : small_ones) scale *= 0x1p-116F;
        scales.data = small_ones.data();
        SCOPED_TRACE(launch::describe(kernel.tile) + "\n" + check::describe(call));
        EXPECT_EQ(prepared_difference(kernel, test, {.sms = 4}, true), "");
        ++ran;
    }
    if (TILEWRIGHT_LIST_STEP == 1) EXPECT_EQ(ran, 3U);
}

/// The case's weights as they are given to a product: expanded.
class ExpandedProduct {
public:
    explicit ExpandedProduct(check::Case& test) : packed_(pack_weights(test.problem().b, PackedFor::fp8)) {
        test.problem().b = {.packed = packed_};
        const Geometry g = test.geometry();
        before = preparation(g, true);
        memory_.resize(static_cast<std::size_t>(before.bytes) + 2 * alignment, poison);
        void* workspace = memory_.data();
        std::size_t space = memory_.size();
        std::align(alignment, static_cast<std::size_t>(before.bytes), workspace, space);
        for (const launch::PreparationLaunch& each : launch::lower_preparation(before, workspace)) {
            run_on_emulator(std::get<launch::QuantizeLaunch>(each));
        }
        geometry = prepared(g, before, workspace);
        end_ = static_cast<std::uint8_t*>(workspace) + before.bytes;
    }

    bool has_wide_rows() const { return packed_.packed.windows != 0; }
    bool is_intact_behind() const {
        const std::uint8_t* const last = memory_.data() + memory_.size();
        return std::all_of(end_, last, [](std::uint8_t byte) { return byte == poison; });
    }

    Preparation before;
    Geometry geometry;

private:
    static constexpr std::size_t alignment = 128;
    static constexpr std::uint8_t poison = 0xA5;
    OwnedPackedWeights packed_;
    std::vector<std::uint8_t> memory_;
    const std::uint8_t* end_ = nullptr;
};

/// What differs between the weights of a case and the expanded ones.
std::string wrong_numbers(check::Case& test) {
    const Geometry given = test.geometry();
    const ExpandedProduct product(test);
    if (product.has_wide_rows()) return "a row is wide";
    const OperandGeometry& b = product.geometry.b;
    for (std::int64_t group = 0; group < given.groups; ++group) {
        for (std::int64_t row = 0; row < given.n; ++row) {
            const double factor = formats::load(b.scales, Format::f32, scale_index(b, group, row, 0));
            const Origin from{group * given.b.value_strides.group, given.b.value_strides.row};
            const std::int64_t at = group * b.value_strides.group + row * b.value_strides.row;
            bool is_nan = false;
            for (std::int64_t k = 0; k < b.value_strides.row; ++k) {
                const double value = formats::load(b.values, b.recipe.values, at + k);
                double expected = 0;
                if (k < given.k) {
                    expected = formats::load(given.b.values, Format::e2m1, value_index(given.b, from, row, k)) *
                               formats::load(given.b.scales, Format::ue8m0, scale_index(given.b, group, row, k / 32));
                }
                is_nan = is_nan || std::isnan(expected);
                const bool same = k >= given.k ? value == 0 : std::isnan(factor) || value * factor == expected;
                if (!same) return fmt::format("group {}, row {}, k {}: {} * {}", group, row, k, value, factor);
            }
            if (std::isnan(factor) != is_nan) return fmt::format("row {}: a factor of {}", row, factor);
        }
    }
    return product.is_intact_behind() ? "" : "bytes behind were written";
}

TEST(ExpandedWeights, AreTheNumbersThatWerePacked) {
    struct Shape {
        std::int64_t groups, n, k;
    };
    for (const Shape& shape :
         {Shape{1, 64, 128}, {1, 1, 2}, {3, 65, 154}, {2, 200, 1184}, {5, 63, 34}, {1, 192, 2048}, {2, 129, 1034}}) {
        for (std::size_t turn = 0; turn < std::size(far_scales); ++turn) {
            check::Case test(with_scales({.grouping = Grouping::batched,
                                          .recipe = recipe("1x128:mxfp4"),
                                          .m = 1,
                                          .n = shape.n,
                                          .k = shape.k,
                                          .groups = shape.groups},
                                         turn));
            EXPECT_EQ(wrong_numbers(test), "") << shape.groups << " " << shape.n << " " << shape.k << " " << turn;
        }
    }
}

/// By the definition of either recipe, in any slices of k.
TEST(ExpandedWeights, HaveTheSameBitsOnTheCpu) {
    for (std::size_t turn = 0; turn < std::size(far_scales); ++turn) {
        for (const std::vector<std::int64_t>& splits : {std::vector<std::int64_t>{}, {256}, {128, 384, 896}}) {
            for (const Grouping grouping : {Grouping::dense, Grouping::m_grouped_offsets}) {
                check::Case test(with_scales({.grouping = grouping,
                                              .recipe = recipe("1x128:mxfp4"),
                                              .output = Format::f32,
                                              .m = 37,
                                              .n = 70,
                                              .k = 1034,
                                              .groups = grouping == Grouping::dense ? 1 : 3,
                                              .distribution = check::Distribution::abs_normal},
                                             turn));
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

}  // namespace
}  // namespace tilewright::tests
