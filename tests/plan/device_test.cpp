// Device tables: what ships is sound, and bad lines are reported by number.
#include <gtest/gtest.h>
#include <tilewright/error.h>
#include <tilewright/plan.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "hopper/description/design.h"
#include "plan/devices.h"
#include "plan/problems.h"
#include "plan/tsv.h"

namespace tilewright::planner {
namespace {

TEST(Device, H200IsTheMachineThatTheConstantsOfTileDescribe) {
    EXPECT_EQ(h200().name, "h200");
    EXPECT_EQ(h200().sms, 132);
    EXPECT_EQ(h200().shared_bytes_per_block, hopper::shared_bytes_limit);
}

// The measured clock of an unpromoted loop that keeps the tensor cores 99 to 100 % busy: 1.54 to 1.55 GHz.
TEST(Device, PowerAndBoostGiveTheMeasuredClock) {
    const double clock = 1 / std::hypot(1 / h200().boost_hertz, 1 / h200().power_hertz);
    EXPECT_NEAR(clock, 1.545e9, 0.01e9);
}

TEST(Device, EveryLineNamesItsUnitAndSource) {
    for (std::string_view table : device_tables) {
        const Tsv rows = parse_tsv(table, {"field", "value", "unit", "source"});
        EXPECT_TRUE(rows.problems.empty());
        for (const TsvRow& row : rows.rows) {
            EXPECT_FALSE(row.cells[2].empty()) << row.cells[0];
            EXPECT_FALSE(row.cells[3].empty()) << row.cells[0];
        }
    }
}

std::string replaced(const char* pattern, const char* by) {
    return std::regex_replace(std::string(device_tables[0]), std::regex(pattern), by);
}

std::string texts(const std::vector<TsvProblem>& problems) {
    std::string all;
    for (const TsvProblem& problem : problems) all += problem.text() + "\n";
    return all;
}

TEST(Device, BadLinesAreReported) {
    struct Bad {
        std::string text;
        std::string expected;  // a regular expression for one of the problems
    };
    const Bad cases[]{
        {replaced("\nsms\t132", "\nsms\tmany"), "line 6: got sms = 'many'; expected an integer from 16 to 1024"},
        {replaced("\nsms\t132", "\nsms\t0"), "line 6: got sms = '0'; expected an integer from 16 to 1024"},
        {replaced("\nsms\t132", "\nsms\t-1"), "line 6: got sms = '-1'; expected .*"},
        {replaced("\nsms\t132", "\nsms\t132.5"), "line 6: got sms = '132.5'; expected .*"},
        {replaced("\nsms\t132", "\nsms\t1e12"), "line 6: got sms = '1e12'; expected .*"},
        {replaced("\nsms\t132", "\nsms\tnan"), "line 6: got sms = 'nan'; expected .*"},
        {replaced("\nsms\t132", "\nsms\tinf"), "line 6: got sms = 'inf'; expected .*"},
        {replaced("\nsms\t132", "\nsms\t132x"), "line 6: got sms = '132x'; expected .*"},
        {replaced("\nsms\t132", "\nsms\t"), "line 6: got sms = ''; expected .*"},
        {replaced("\nsms\t132", "\nsms\t100"), "line 18: got cluster_2_sms = 132; expected at most sms, 100"},
        {replaced("\nboost_hertz\t1.98e9", "\nboost_hertz\tnan"),
         "line 7: got boost_hertz = 'nan'; expected a number from 1e\\+08 to 1e\\+11"},
        {replaced("\nwritten_byte\t", "\nwritten_byte\t-"), "line 15: got written_byte = '-1.0'; expected a number .*"},
        {replaced("\nshared_bytes_per_block\t2", "\nshared_bytes_per_block\t3"),
         "line 17: got shared_bytes_per_block = '332448'; expected 232448, as on every Hopper GPU"},
        {replaced("\nsms\t", "\nsmss\t"), "got no sms; expected a line for it"},
        {replaced("\nsms\t", "\nsmss\t"),
         "line 6: got the unknown field 'smss'; expected one of name, driver_name, .*"},
        {replaced("\nsms\t", "\nsms\t132\tSMs\tagain\nsms\t"),
         "line 7: got sms again; expected one line for it, as line 6 is"},
        {replaced("\nname\t", "\nname\tx\t-\tagain\nname\t"), "line 5: got name again; expected one line for it.*"},
        {replaced("\nname\th200\t.*", "\nname\t\t-\tx"), "line 4: got name = ''; expected 1 to 60 printable .*"},
        {replaced("\nname\th200", "\nname\th\x01\xff"), "line 4: got name = 'h\\?\\?'; expected 1 to 60 printable .*"},
        {replaced("\nname\t.*", ""), "got no name; expected a line for it"},
        {replaced("\ndriver_name\t.*", ""), "got no driver_name; expected a line for it"},
        {replaced("\tSMs\t", " SMs "), "line \\d+: got 2 cells; expected 4 \\(field, value, unit, source\\).*"},
        {replaced("field\tvalue", "field value"),
         "line 3: got the header 'field value\\?unit\\?source'; expected 'field value unit source', separated by tabs"},
        {"", "got no header; expected .*"},
        {"field\tvalue\tunit\tsource\n", "got no launch_seconds; expected a line for it"},
    };
    for (const Bad& bad : cases) {
        const ParsedDevice parsed = parse_device(bad.text);
        const bool reported = std::any_of(parsed.problems.begin(), parsed.problems.end(), [&](const auto& problem) {
            return std::regex_match(problem.text(), std::regex(bad.expected));
        });
        EXPECT_TRUE(reported) << bad.expected << ", but: " << texts(parsed.problems);
    }
}

TEST(Device, EveryOtherSaysWhatIsAssumed) {
    ASSERT_EQ(known_devices().size(), 8U);
    EXPECT_TRUE(h200().assumed.empty());
    for (const DeviceDescription& device : known_devices()) {
        if (device.name == "h200") continue;
        const auto assumed = [&](const char* field) { return std::ranges::count(device.assumed, field) == 1; };
        const bool measured = device.name == "h100";
        for (const char* field : {"power_hertz", "memory_bytes_per_second", "memory_latency", "start_seconds"}) {
            EXPECT_NE(assumed(field), measured) << device.name << " " << field;
        }
        for (const char* field : {"sms", "shared_bytes_per_block"}) {
            EXPECT_FALSE(assumed(field)) << device.name << " " << field;
        }
        const bool published = device.name != "h20" && device.name != "gh200";
        EXPECT_NE(assumed("l2_bytes"), published) << device.name;
    }
}

TEST(Device, IsFoundByItsName) {
    EXPECT_EQ(&device_named("h200"), &h200());
    EXPECT_EQ(device_named("h100-pcie").sms, 114);
    try {
        (void)device_named("h300");
        FAIL() << "there is no h300";
    } catch (const Error& error) {
        EXPECT_STREQ(
            error.what(),
            "device: got 'h300'; expected one of h200, h100, h100-pcie, h100-nvl, h800, h200-nvl, h20, gh200.");
    }
}

TEST(Device, IsRecognisedByWhatTheDriverCallsIt) {
    const auto name_of = [](const char* reported, int sms) { return recognise({.name = reported, .sms = sms}).name; };
    EXPECT_EQ(name_of("NVIDIA H200", 132), "h200");
    EXPECT_EQ(name_of("NVIDIA H200 NVL", 132), "h200-nvl");
    EXPECT_EQ(name_of("NVIDIA H100 80GB HBM3", 132), "h100");
    EXPECT_EQ(name_of("NVIDIA H100 PCIe", 114), "h100-pcie");
    EXPECT_EQ(name_of("NVIDIA H100 NVL", 132), "h100-nvl");
    EXPECT_EQ(name_of("NVIDIA H800", 132), "h800");
    EXPECT_EQ(name_of("NVIDIA H20", 78), "h20");
    EXPECT_EQ(name_of("NVIDIA GH200 480GB", 132), "gh200");
}

TEST(Device, AnUnknownOneIsAScaledH200) {
    EXPECT_EQ(recognise({.name = "NVIDIA H200", .sms = 16}).name, "NVIDIA H200") << "a part of one";
    const DeviceDescription other =
        recognise({.name = "NVIDIA H900", .sms = 66, .clock_hertz = 0.99e9, .l2_bytes = 1 << 20});
    EXPECT_EQ(other.name, "NVIDIA H900");
    EXPECT_EQ(other.sms, 66);
    EXPECT_EQ(other.cluster_2_sms, 66);
    EXPECT_EQ(other.l2_bytes, 1 << 20);
    EXPECT_DOUBLE_EQ(other.boost_hertz, 0.99e9);
    EXPECT_DOUBLE_EQ(other.l2_bytes_per_second, h200().l2_bytes_per_second / 4);
    EXPECT_EQ(std::ranges::count(other.assumed, "boost_hertz"), 0);
    EXPECT_EQ(std::ranges::count(other.assumed, "power_hertz"), 1);
}

TEST(Device, AllAreLegalToPlanFor) {
    for (const DeviceDescription& device : known_devices()) {
        for (const std::int64_t m : {1, 64, 4096}) {
            const Plan chosen = plan(problem_of(dense(m, 7168, 2048)), device);
            EXPECT_LE(chosen.grid, 2 * device.sms) << device.name;
            EXPECT_GT(chosen.cost.seconds, 1e-6) << device.name;
        }
    }
    const Problem large = problem_of(dense(8192, 8192, 8192));
    EXPECT_GT(plan(large, device_named("h20")).cost.seconds, 4 * plan(large).cost.seconds)
        << "a seventh of the products";
}

}  // namespace
}  // namespace tilewright::planner
