// The table of classes: who is in which, medians of runs, the one factor of a run, and what is left out.
#include "bench/class_table.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>

#include "bench/peers_table.h"

namespace tilewright::bench {
namespace {

/// A record as `tilewright bench` writes it.
class Record {
public:
    /// `begun` tells runs apart; the reference product takes `factor` times what it took in the peers' even table.
    Record& run(const std::string& begun, double factor) {
        begun_ = begun;
        const double us = peers_table().front().reference_seconds * 1e6 * factor;
        add(R"("peer":"cuBLASLt 13.1.0 per-tensor scale","op":"dense","shape":[4096,4096,7168])", us);
        return *this;
    }
    /// A call that is so many times as fast as DeepGEMM in the peers' table, were the factor 1.
    Record& ours(const BenchShape& shape, double speed, const std::string& more = "") {
        const double us = find_peer(peers_table(), "DeepGEMM", shape)->seconds * 1e6 / speed;
        add(fmt::format(R"("peer":"Tilewright 0.1.0","op":"{}","shape":{},"grouping":"{}","recipe":"1x128:128x128",)"
                        R"("accumulation":"promoted","tile":"128x128x128 stages=5"{}{})",
                        operation_name(shape.grouping), shape_text(shape), name(shape.grouping),
                        more.empty() ? "" : ",", more),
            us);
        return *this;
    }
    Record& line(const std::string& text) {
        text_ += text + "\n";
        return *this;
    }
    const std::string& text() const { return text_; }

private:
    void add(const std::string& fields, double us) {
        const char* flush = fields.find("sustained_s") == std::string::npos ? "clean" : "none";
        text_ +=
            fmt::format(R"({{{},"us":{},"output":"bf16","flush":"{}","started":"{}","commit":"c0ffee","command":"x"}})"
                        "\n",
                        fields, us, flush, begun_);
    }
    std::string begun_;
    std::string text_;
};

constexpr const char* along_m = R"("scales_along":"m")";
constexpr const char* along_k = R"("scales_along":"k")";

const ShapeClass* find(const ClassTable& table, const std::string& name) {
    const auto found = std::ranges::find(table.classes, name, &ShapeClass::name);
    return found == table.classes.end() ? nullptr : &*found;
}

TEST(ClassTable, DenseShapesGoByTheirRowsAndTables) {
    const std::string text = Record()
                                 .run("a", 1)
                                 .ours({.m = 64, .n = 7168, .k = 2048}, 1.2, along_m)
                                 .ours({.m = 128, .n = 7168, .k = 2048}, 0.3, along_m)
                                 .ours({.m = 1024, .n = 7168, .k = 2048}, 1.1, along_m)
                                 .ours({.m = 8192, .n = 8192, .k = 8192}, 0.9, along_k)
                                 .text();
    const ClassTable table = class_table(text);
    ASSERT_EQ(table.classes.size(), 3U);
    const ShapeClass* few = find(table, "dense m = 64, 128, scales along m");
    ASSERT_NE(few, nullptr);
    EXPECT_EQ(few->shapes, 12U);
    EXPECT_NEAR(few->deep_gemm.mean(), 0.6, 1e-9);
    EXPECT_NEAR(few->deep_gemm.worst(), 0.3, 1e-9);
    EXPECT_EQ(few->deep_gemm.slowest(), "[128, 7168, 2048]");
    EXPECT_EQ(few->deep_gemm.slower(), 1);
    EXPECT_NE(class_records(table).find(R"("deep_gemm_worst_shape":"[128, 7168, 2048]","deep_gemm_slower":1)"),
              std::string::npos);
    EXPECT_EQ(few->target, 1.12);
    ASSERT_NE(find(table, "dense m = 1024, scales along m"), nullptr);
    const ShapeClass* many = find(table, "dense m >= 4096, scales along k");
    ASSERT_NE(many, nullptr);
    EXPECT_EQ(many->shapes, 7U);
    // cuBLASLt's own time of the shape in the peers' table counts, not one of this run.
    const double blas = peer_seconds(peers_table(), blas_peer, {.m = 8192, .n = 8192, .k = 8192}).value();
    const double ours = peer_seconds(peers_table(), "DeepGEMM", {.m = 8192, .n = 8192, .k = 8192}).value() / 0.9;
    EXPECT_NEAR(many->blas.mean(), blas / ours, 1e-9);
}

/// The ragged table's run took 155.17 us where the other's took 157.68.
TEST(ClassTable, TheFactorIsThatOfTheShapesOwnTable) {
    const BenchShape ragged{.m = 136, .n = 7168, .k = 16384};
    const ClassTable table = class_table(Record().run("a", 1).ours(ragged, 1, along_m).text());
    const ShapeClass* each = find(table, "dense ragged, scales along m");
    ASSERT_NE(each, nullptr);
    EXPECT_EQ(each->shapes, 40U);
    EXPECT_NEAR(each->deep_gemm.mean(), 157.68 / 155.17, 1e-9);
}

TEST(ClassTable, ARunIsScaledByItsFactorAndTheMedianOfRunsCounts) {
    const BenchShape shape{.m = 64, .n = 7168, .k = 2048};
    const std::string text = Record()
                                 .run("a", 1.02)
                                 .ours(shape, 1, along_m)
                                 .run("b", 0.98)
                                 .ours(shape, 1, along_m)
                                 .run("c", 1)
                                 .ours(shape, 1.5, along_m)
                                 .text();
    const ClassTable table = class_table(text);
    ASSERT_EQ(table.classes.size(), 1U);
    EXPECT_EQ(table.classes[0].runs, 3U);
    EXPECT_NEAR(table.classes[0].deep_gemm.mean(), 1.02, 1e-9);
    EXPECT_TRUE(table.left_out.empty());
}

TEST(ClassTable, RunsOfAnotherClockAreToBeRepeated) {
    const BenchShape shape{.m = 64, .n = 7168, .k = 2048};
    for (const double factor : {0.96, 1.04}) {
        const ClassTable table = class_table(Record().run("a", factor).ours(shape, 1, along_m).text());
        EXPECT_TRUE(table.classes.empty());
        ASSERT_EQ(table.left_out.size(), 1U);
        EXPECT_NE(table.left_out[0].find(fmt::format("{:.3f} is its factor, beyond 0.97 .. 1.03", factor)),
                  std::string::npos)
            << table.left_out[0];
    }
    Record without;
    without.ours(shape, 1, along_m);
    ASSERT_EQ(class_table(without.text()).left_out.size(), 1U);
    EXPECT_NE(class_table(without.text()).left_out[0].find("repeat it with --peers"), std::string::npos);
}

TEST(ClassTable, ContiguousGroupsGoByTheWayTheyAreCalled) {
    const BenchShape ends{.grouping = Grouping::m_grouped_offsets, .groups = 8, .m = 300, .n = 4096, .k = 7168};
    BenchShape indices = ends;
    indices.grouping = Grouping::m_grouped_indices;
    const std::string text = Record()
                                 .run("a", 1)
                                 .ours(ends, 1.3, along_k)
                                 .ours(indices, 1.1, along_k)
                                 .ours(indices, 1.05, std::string(along_m) + R"(,"drop_in":true)")
                                 .text();
    const ClassTable table = class_table(text);
    ASSERT_EQ(table.classes.size(), 4U);
    const double clock = 157.68 / 155.17;
    for (const auto& [name, speed, shapes] :
         {std::tuple("contiguous, drop-in", 1.05, 13U), std::tuple("contiguous, exact ends, scales along k", 1.3, 13U),
          std::tuple("exact ends, below 400 rows, scales along k", 1.3, 7U),
          std::tuple("contiguous, row indices, scales along k", 1.1, 13U)}) {
        const ShapeClass* each = find(table, name);
        ASSERT_NE(each, nullptr) << name;
        EXPECT_NEAR(each->deep_gemm.mean(), speed * clock, 1e-9) << name;
        EXPECT_EQ(each->shapes, shapes) << name;
    }
}

TEST(ClassTable, MaskedGroupsTunedRowsAndEnergy) {
    const BenchShape masked{
        .grouping = Grouping::m_grouped_masked, .groups = 32, .m = 20, .n = 4096, .k = 7168, .max_m = 256};
    const std::string text = Record()
                                 .run("a", 1)
                                 .ours(masked, 1.1, along_m)
                                 .ours(masked, 1.2, along_k)
                                 .ours(masked, 1.0, std::string(along_k) + R"(,"tuned_rows":false)")
                                 .ours(reference_product, 1, R"("sustained_s":4,"watts":690,"pj_per_flop":0.5)")
                                 .text();
    const ClassTable table = class_table(text);
    ASSERT_EQ(table.classes.size(), 4U);
    EXPECT_EQ(table.classes[0].name, "masked, scales along m");
    EXPECT_EQ(table.classes[0].shapes, 17U);
    EXPECT_FALSE(table.classes[1].tuned_rows);
    EXPECT_TRUE(table.classes[2].tuned_rows);
    EXPECT_EQ(table.classes[3].name, "sustained, pJ per FLOP");
    EXPECT_EQ(table.classes[3].shapes, 3U);
    EXPECT_NEAR(table.classes[3].deep_gemm.mean(), 0.573 / 0.5, 1e-9);
    const std::string shown = class_table_text(table);
    for (const char* word : {"x DeepGEMM", "1 of 17", "1.200", "1.146", "off", "1.10"}) {
        EXPECT_NE(shown.find(word), std::string::npos) << word << "\n" << shown;
    }
    EXPECT_NE(class_records(table).find(R"("class":"masked, scales along k","tuned_rows":false,"shapes":1,"of":17)"),
              std::string::npos)
        << class_records(table);
}

TEST(ClassTable, OtherKindsOfLinesDoNotCount) {
    const BenchShape shape{.m = 64, .n = 7168, .k = 2048};
    Record record;
    record.run("a", 1).ours({.m = 64, .n = 7168, .k = 2048}, 1, R"("scales_along":"m","accumulation":"unpromoted")");
    record.line(R"({"peer":"TMA stream of B's values","op":"dense","shape":[64,7168,2048],"us":4})");
    EXPECT_TRUE(class_table(record.text()).classes.empty());
    try {
        class_table(record.line("{}").text());
        FAIL();
    } catch (const std::runtime_error& error) {
        EXPECT_NE(std::string(error.what()).find("line 4 is none of `tilewright bench --json`"), std::string::npos)
            << error.what();
    }
}

}  // namespace
}  // namespace tilewright::bench
