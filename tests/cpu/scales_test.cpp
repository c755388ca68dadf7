// What every arithmetic agrees on about scales: which rows share one, a product of two that overflows fp32 is infinite,
// and without any k they mean nothing.
#include "check/case.h"
#include "check/gates.h"
#include "cpu/exact/exact.h"
#include "cpu/fast/cases.h"
#include "cpu/reference.h"
#include "formats/element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace tilewright {
namespace {

using check::Case;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

struct Way {
    std::string name;
    std::function<void(const Geometry&)> run;
};

std::vector<Way> every_arithmetic(bool has_canonical_order = true) {
    std::vector<Way> ways{{"reference", [](const Geometry& g) { cpu::run_reference(g); }}};
    if (has_canonical_order) ways.push_back({"bit_exact", [](const Geometry& g) { cpu::run_exact(g); }});
    for (const cpu::FastOptions& options : test::ways()) {
        ways.push_back({test::text(options), [options](const Geometry& g) { cpu::run_fast(g, options); }});
    }
    return ways;
}

void fill(const Tensor& scales, double value) {
    std::int64_t count = scales.given() ? 1 : 0;
    for (const std::int64_t size : scales.shape) count *= size;
    for (std::int64_t i = 0; i < count; ++i) formats::store(scales.data, scales.format, i, value);
}

/// Scales of a row of A (or of its block of rows).
void set_scales_of_row(Case& c, std::int64_t row, double a_scale) {
    const Operand& a = c.problem().a;
    const std::int64_t columns = a.scales.shape.rank() == 2 ? a.scales.shape[1] : 1;
    for (std::int64_t i = 0; i < columns; ++i) {
        formats::store(a.scales.data, a.scales.format, row * columns + i, a_scale);
    }
}

/// Scales of 1 on side A but for `row`, and of `b_scale` on side B.
void set_scales(Case& c, std::int64_t row, double a_scale, double b_scale) {
    fill(c.problem().a.scales, 1);
    fill(c.problem().b.scales, b_scale);
    set_scales_of_row(c, row, a_scale);
}

void fill_row(const Tensor& values, std::int64_t row, std::uint8_t code) {
    const std::int64_t k = values.shape[1];
    std::memset(static_cast<std::uint8_t*>(values.data) + row * k, code, static_cast<std::size_t>(k));
}

/// Recipes whose sides both have scales outside of the values; A's are one for each row or finer.
constexpr const char* two_sided[] = {"row:row",     "1x128:128x128", "1x128:1x128", "1x128.ue8m0:1x128.ue8m0",
                                     "mxfp8:mxfp8", "row:mxfp8",     "mxfp8:row"};

TEST(Scales, ZerosTimesAProductThatOverflowsAreNaN) {
    for (const char* recipe : two_sided) {
        for (const std::int64_t m : {3, 40}) {
            Case c({.recipe = *parse_recipe(recipe), .output = Format::f32, .m = m, .n = 20, .k = 256});
            const bool powers = c.problem().a.scales.format == Format::ue8m0;
            set_scales(c, 1, powers ? 0x1p127 : 3e38, 4);
            fill_row(c.problem().a.values, 1, 0);
            for (const Way& way : every_arithmetic()) {
                c.reset_output();
                way.run(c.geometry());
                for (std::int64_t column = 0; column < 20; ++column) {
                    ASSERT_EQ(c.output_bits(0, 1, column), 0x7FFF'FFFFU) << recipe << " " << way.name;
                    ASSERT_TRUE(std::isfinite(c.output_at(0, 0, column))) << recipe << " " << way.name;
                    ASSERT_TRUE(std::isfinite(c.output_at(0, 2, column))) << recipe << " " << way.name;
                }
            }
        }
    }
}

TEST(Scales, ZerosTimesAProductWithinRangeAreZeros) {
    for (const char* recipe : two_sided) {
        for (const double b_scale : {1.0, 0x1p-30}) {
            Case c({.recipe = *parse_recipe(recipe), .output = Format::f32, .m = 40, .n = 20, .k = 256});
            set_scales(c, 1, 0x1p127, b_scale);
            fill_row(c.problem().a.values, 1, 0);
            for (const Way& way : every_arithmetic()) {
                c.reset_output();
                way.run(c.geometry());
                for (std::int64_t column = 0; column < 20; ++column) {
                    ASSERT_EQ(c.output_at(0, 1, column), 0) << recipe << " " << way.name;
                }
            }
        }
    }
}

/// With one scale for a row, every arithmetic has the sum when the scales come: its sign is that of the infinity.
TEST(Scales, SumsTimesAProductThatOverflowsAreInfinite) {
    Case c({.recipe = *parse_recipe("row:row"), .output = Format::f32, .m = 20, .n = 20, .k = 64});
    set_scales(c, 1, 3e38, 4);
    for (std::int64_t row = 0; row < 20; ++row) fill_row(c.problem().b.values, row, 0x08);  // 2^-6
    fill_row(c.problem().a.values, 1, 0x81);                                                // -2^-9
    for (const Way& way : every_arithmetic()) {
        c.reset_output();
        way.run(c.geometry());
        for (std::int64_t column = 0; column < 20; ++column) {
            ASSERT_EQ(c.output_at(0, 1, column), -infinity) << way.name;
        }
    }
}

TEST(Scales, ProductsOfTensorScalesAndAlphaOverflowAlike) {
    struct Factors {
        float alpha;
        double a;
        double b;
    };
    for (const Factors& f : {Factors{1, 3e38, 4}, Factors{4, 3e38, 1}, Factors{0, 3e38, 4}}) {
        Case c({.recipe = *parse_recipe("nvfp4:nvfp4"), .output = Format::f32, .m = 20, .n = 20, .k = 64});
        fill(c.problem().a.tensor_scale, f.a);
        fill(c.problem().b.tensor_scale, f.b);
        fill_row(c.problem().a.values, 0, 0);  // two rows, of half a byte each
        c.problem().alpha = f.alpha;
        for (const Way& way : every_arithmetic()) {
            c.reset_output();
            way.run(c.geometry());
            ASSERT_EQ(c.output_bits(0, 0, 5), 0x7FFF'FFFFU) << way.name;
        }
    }
}

/// Scales of A that vary along k and one of B that does not never multiply each other, so that their product may be of
/// any size: zeros stay zeros, and the sum of a chain times both is what it is.
TEST(Scales, ThoseThatAreAppliedApartDoNotOverflowTogether) {
    for (const char* recipe : {"1x128:row", "1x128:tensor"}) {
        for (const std::int64_t m : {3, 40}) {
            Case c({.recipe = *parse_recipe(recipe), .output = Format::f32, .m = m, .n = 20, .k = 256});
            set_scales(c, 1, 0x1p120, 0x1p10);
            set_scales_of_row(c, 2, 0x1p120);
            fill_row(c.problem().a.values, 1, 0);
            for (std::int64_t row = 0; row < 20; ++row) fill_row(c.problem().b.values, row, 0x08);  // 2^-6
            fill_row(c.problem().a.values, 2, 0x01);                                                // 2^-9
            for (const Way& way : every_arithmetic()) {
                c.reset_output();
                way.run(c.geometry());
                for (std::int64_t column = 0; column < 20; ++column) {
                    ASSERT_EQ(c.output_at(0, 1, column), 0) << recipe << " " << way.name;
                    ASSERT_EQ(c.output_at(0, 2, column), 0x1p123) << recipe << " " << way.name;  // 2^(8 - 15 + 130)
                }
            }
        }
    }
}

/// Scales of MXFP4 are in its values, and those of zeros nowhere.
TEST(Scales, ZerosTimesMxfp4OfAnyScaleAreZeros) {
    for (const char* recipe : {"row:mxfp4", "1x128:mxfp4", "mxfp8:mxfp4", "mxfp4:mxfp4"}) {
        Case c({.recipe = *parse_recipe(recipe), .output = Format::f32, .m = 40, .n = 20, .k = 256});
        const bool fp4 = c.problem().a.values.format == Format::e2m1;
        set_scales(c, 1, 0x1p127, 0x1p100);
        if (!fp4) fill_row(c.problem().a.values, 1, 0);
        const auto row = static_cast<std::size_t>(c.problem().a.values.strides[0] / 2);
        if (fp4) std::memset(static_cast<std::byte*>(c.problem().a.values.data) + row, 0, row);
        for (const Way& way : every_arithmetic()) {
            c.reset_output();
            way.run(c.geometry());
            for (std::int64_t column = 0; column < 20; ++column) {
                ASSERT_EQ(c.output_at(0, 1, column), 0) << recipe << " " << way.name;
            }
        }
    }
}

/// The gates judge by the same rule.
TEST(Scales, GatesAcceptWhatOverflows) {
    for (const char* recipe : two_sided) {
        for (const Arithmetic arithmetic : {Arithmetic::fast, Arithmetic::bit_exact}) {
            Case c({.recipe = *parse_recipe(recipe), .m = 30, .n = 20, .k = 256, .arithmetic = arithmetic});
            set_scales(c, 1, 0x1p127, 0x1p1);
            fill_row(c.problem().a.values, 1, 0);
            arithmetic == Arithmetic::fast ? cpu::run_fast(c.geometry()) : cpu::run_exact(c.geometry());
            const check::GateReport report =
                check::run_gate(check::Gate::running_bound, c.judged_geometry(), {.arithmetic = arithmetic});
            EXPECT_TRUE(report.pass()) << recipe << " " << name(arithmetic) << "\n" << report.text();
        }
    }
}

/// Blocks of 128 rows of A are counted from its first row, so that groups may begin within one.
TEST(Scales, BlocksOfRowsOfAGoAcrossGroups) {
    for (int grouping = 0; grouping <= static_cast<int>(all_groupings.back()); ++grouping) {
        Case c({.grouping = static_cast<Grouping>(grouping),
                .recipe = *parse_recipe("128x128:128x128"),
                .layout = grouping % 2 == 0 ? Layout::nt : Layout::tn,
                .output = Format::f32,
                .m = 150,
                .n = 130,
                .k = 272,
                .groups = grouping == 0 ? 1 : 3,
                .alignment = 1,
                .distribution = check::Distribution::distinct_scales});
        SCOPED_TRACE(check::describe(c.spec()));
        const Dims& shape = c.problem().a.scales.shape;
        EXPECT_EQ(shape[shape.rank() - 2], 2);
        for (const Way& way : every_arithmetic()) {
            if (way.name == "reference") continue;  // the gate's own
            c.reset_output();
            way.run(c.geometry());
            const check::GateReport report = check::run_gate(check::Gate::exact_grid, c.judged_geometry(), {});
            EXPECT_TRUE(report.pass()) << way.name << "\n" << report.text();
        }
    }
}

TEST(Scales, WithoutAnyKTheyMeanNothing) {
    for (const char* recipe : {"tensor:tensor", "row:row", "1x128:128x128", "nvfp4:nvfp4", "f32:f32"}) {
        for (const bool with_c : {false, true}) {
            const bool ordered = std::string(recipe) != "f32:f32";
            Case c({.recipe = *parse_recipe(recipe), .m = 20, .n = 10, .with_c = with_c, .alpha = nan});
            for (const Operand* operand : {&c.problem().a, &c.problem().b}) {
                fill(operand->scales, nan);
                fill(operand->tensor_scale, infinity);
            }
            for (const Way& way : every_arithmetic(ordered)) {
                c.reset_output();
                way.run(c.geometry());
                for (std::int64_t i = 0; i < 20 * 10; ++i) {
                    const Tensor& given = c.problem().c;
                    const double expected = with_c ? formats::load(given.data, given.format, i) : 0;
                    ASSERT_EQ(c.output_at(0, i / 10, i % 10), expected) << recipe << " " << way.name;
                }
            }
        }
    }
}

}  // namespace
}  // namespace tilewright
