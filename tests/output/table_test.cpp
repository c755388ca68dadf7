// Numbers and tables as people read them.

#include <gtest/gtest.h>

#include <cmath>

#include "output/table.h"

namespace tilewright::output {
namespace {

TEST(Terminal, FormatsDurations) {
    EXPECT_EQ(format_duration(0), "0 ns");
    EXPECT_EQ(format_duration(812e-9), "812 ns");
    EXPECT_EQ(format_duration(999.6e-9), "1.00 us");
    EXPECT_EQ(format_duration(12.34e-6), "12.3 us");
    EXPECT_EQ(format_duration(0.00456), "4.56 ms");
    EXPECT_EQ(format_duration(0.9996), "1.00 s");
    EXPECT_EQ(format_duration(59), "59.0 s");
    EXPECT_EQ(format_duration(125.2), "2 min 5 s");
    EXPECT_EQ(format_duration(std::nan("")), "-");
}

TEST(Terminal, FormatsBytes) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(1023), "1023 B");
    EXPECT_EQ(format_bytes(1536), "1.50 KiB");
    EXPECT_EQ(format_bytes(3.0 * (1 << 20)), "3.00 MiB");
}

TEST(Terminal, FormatsNumbers) {
    EXPECT_EQ(format_number(0), "0");
    EXPECT_EQ(format_number(1.25e-7), "1.2e-07");
    EXPECT_EQ(format_number(0.01234), "0.0123");
    EXPECT_EQ(format_number(-4.561), "-4.56");
    EXPECT_EQ(format_number(789.4), "789");
    EXPECT_EQ(format_number(INFINITY), "inf");
}

TEST(Terminal, AlignsTables) {
    Table table({{.title = "name"}, {.title = "time", .right = true}, {.title = "note", .width = 6}});
    table.add({"a", "1"});
    table.add({"lange \xc3\xa9", "22222", "x"});
    EXPECT_EQ(table.text(),
              "name      time  note\n"
              "-------  -----  ------\n"
              "a            1\n"
              "lange \xc3\xa9  22222  x\n");
}

}  // namespace
}  // namespace tilewright::output
