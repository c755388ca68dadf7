// Whatever a run must not touch is seen when it was.
#include "check/case.h"

#include "cpu/reference.h"

#include <gtest/gtest.h>

#include <functional>

namespace tilewright::check {
namespace {

const CaseSpec masked{.grouping = Grouping::m_grouped_masked,
                      .recipe = *parse_recipe("1x128:128x128"),
                      .m = 6,
                      .n = 5,
                      .k = 40,
                      .groups = 3,
                      .group_sizes = {2, 0, 6},
                      .with_c = true,
                      .d_gaps = {.row = 3, .group = 4}};

std::byte* d_byte(const Case& test_case, std::int64_t element) {
    return static_cast<std::byte*>(test_case.problem().d.data) + element * 2;
}

TEST(Damage, IsNoneAfterARightRun) {
    Case test_case(masked);
    EXPECT_EQ(test_case.damage(), "");
    cpu::run_reference(test_case.geometry());
    EXPECT_EQ(test_case.damage(), "");
}

TEST(Damage, NamesGuardsGapsAndRowsOfNoGroup) {
    Case test_case(masked);
    const auto damage_at = [&](std::byte* address) {
        test_case.reset_output();
        *address = std::byte{1};
        return test_case.damage();
    };
    const std::int64_t group_stride = test_case.problem().d.strides[0];
    const std::int64_t last = 2 * group_stride + 5 * 8 + 4;
    EXPECT_EQ(damage_at(d_byte(test_case, 0) - 1), "d: byte 1 before the beginning was written");
    EXPECT_EQ(damage_at(d_byte(test_case, 0) - 4096), "d: byte 4096 before the beginning was written");
    EXPECT_EQ(damage_at(d_byte(test_case, last + 1)), "d: byte 0 behind the end was written");
    EXPECT_EQ(damage_at(d_byte(test_case, last + 1) + 4095), "d: byte 4095 behind the end was written");
    EXPECT_NE(damage_at(d_byte(test_case, 5)).find("group 0, row 0"), std::string::npos);             // row gap
    EXPECT_NE(damage_at(d_byte(test_case, 2 * 8)).find("group 0, row 2"), std::string::npos);         // beyond the mask
    EXPECT_NE(damage_at(d_byte(test_case, group_stride)).find("group 1, row 0"), std::string::npos);  // empty group
    EXPECT_EQ(damage_at(d_byte(test_case, 0)), "");                                                   // D itself
}

TEST(Damage, NamesInputs) {
    const auto expect = [](const char* name, const std::function<void*(const Problem&)>& data) {
        Case test_case(masked);
        *static_cast<std::byte*>(data(test_case.problem())) ^= std::byte{1};
        EXPECT_EQ(test_case.damage(), std::string(name) + ": an input, or its surroundings, was written");
    };
    expect("a", [](const Problem& p) { return p.a.values.data; });
    expect("a.scales", [](const Problem& p) { return p.a.scales.data; });
    expect("b", [](const Problem& p) { return p.b.values.data; });
    expect("b.scales", [](const Problem& p) { return p.b.scales.data; });
    expect("groups.sizes", [](const Problem& p) { return p.groups.sizes.data; });
    expect("c", [](const Problem& p) { return p.c.data; });
    CaseSpec spec = masked;
    spec.with_c = false;
    spec.with_bias = true;
    Case test_case(spec);
    *static_cast<std::byte*>(test_case.problem().bias.data) ^= std::byte{1};
    EXPECT_EQ(test_case.damage(), "bias: an input, or its surroundings, was written");
}

TEST(Damage, UnusedInputsArePoisoned) {
    const Case test_case(masked);
    const auto* a = static_cast<const std::uint8_t*>(test_case.problem().a.values.data);
    const Dims& strides = test_case.problem().a.values.strides;
    for (std::int64_t row = 2; row < 6; ++row) EXPECT_EQ(a[row * strides[1]], 0xFF);  // group 0, beyond the mask
    for (std::int64_t row = 0; row < 6; ++row) EXPECT_EQ(a[strides[0] + row * strides[1]], 0xFF);  // empty group
    EXPECT_NE(a[0], 0xFF);
}

using GuardPagesDeathTest = testing::Test;

TEST_F(GuardPagesDeathTest, EndRightBehindTheLastByte) {
    CaseSpec spec{.recipe = *parse_recipe("bf16"), .m = 3, .n = 5, .k = 7, .guard_pages = true};
    const Case test_case(spec);
    auto* const d = static_cast<volatile std::uint8_t*>(test_case.problem().d.data);
    const auto* const b = static_cast<const volatile std::uint8_t*>(test_case.problem().b.values.data);
    EXPECT_EQ(b[5 * 7 * 2 - 1], b[5 * 7 * 2 - 1]);
    EXPECT_DEATH(d[3 * 5 * 2] = 0, "");
    EXPECT_DEATH(static_cast<void>(b[5 * 7 * 2]), "");
}

TEST(Damage, ResetRestoresPoisonOrC) {
    CaseSpec spec = masked;
    Case poisoned(spec);
    cpu::run_reference(poisoned.geometry());
    poisoned.reset_output();
    for (std::byte byte : poisoned.output()) EXPECT_EQ(byte, std::byte{0xFF});

    spec.in_place = true;
    Case in_place(spec);
    const std::vector<std::byte> before = in_place.output();
    cpu::run_reference(in_place.geometry());
    EXPECT_NE(in_place.output(), before);
    in_place.reset_output();
    EXPECT_EQ(in_place.output(), before);
}

}  // namespace
}  // namespace tilewright::check
