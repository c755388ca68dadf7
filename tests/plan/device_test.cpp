// Device tables: what ships is sound, and bad lines are reported by number.
#include <gtest/gtest.h>
#include <tilewright/plan.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "hopper/tile/tile.h"
#include "plan/devices.h"
#include "plan/tables.h"
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

TEST(Device, BadLinesAreReported) {
    struct Bad {
        std::string text;
        std::string expected;  // a regular expression for one of the problems
    };
    const Bad cases[]{
        {replaced("\nsms\t132", "\nsms\tmany"), "line \\d+: sms: 'many' is no number"},
        {replaced("\nsms\t132", "\nsms\t-1"), "line \\d+: sms: -1 is not positive"},
        {replaced("\nsms\t132", "\nsms\t1.5"), "line \\d+: sms: 1.5 is no whole number"},
        {replaced("\nsms\t132", "\nsms\t1e12"), "line \\d+: sms: 1e12 is too large"},
        {replaced("\nsms\t132", "\nsms\tnan"), "line \\d+: sms: 'nan' is no number"},
        {replaced("\nsms\t", "\nsmss\t"), "sms: missing"},
        {replaced("\nsms\t", "\nsmss\t"), "line \\d+: smss: unknown, or given twice"},
        {replaced("\nname\t.*", ""), "name: missing"},
        {replaced("\tSMs\t", " SMs "), "line \\d+: 2 cells given, 4 expected \\(field, value, unit, source\\).*"},
        {replaced("field\tvalue", "field value"), "line \\d+: the header is not 'field\tvalue\tunit\tsource'"},
        {"", "no header .*"},
    };
    for (const Bad& bad : cases) {
        const ParsedDevice parsed = parse_device(bad.text);
        const bool reported = std::any_of(parsed.problems.begin(), parsed.problems.end(), [&](const auto& problem) {
            return std::regex_match(problem, std::regex(bad.expected));
        });
        EXPECT_TRUE(reported) << bad.expected << ", but: " << testing::PrintToString(parsed.problems);
    }
}

}  // namespace
}  // namespace tilewright::planner
