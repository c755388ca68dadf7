// A user's own device file: it describes the GPU as a shipped table does, and every mistake in it is refused.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <tilewright/error.h>
#include <tilewright/plan.h>

#include <cmath>
#include <regex>

#include "output/temporary_folder.h"
#include "plan/choose.h"
#include "plan/devices.h"
#include "plan/problems.h"
#include "plan/tsv.h"

namespace tilewright::planner {
namespace {

class DeviceFile : public testing::Test {
protected:
    std::string written(const std::string& text) const {
        std::string path = folder_.file("my.tsv");
        test::write_file(path, text);
        return path;
    }
    std::string path(const std::string& name) const { return folder_.file(name); }

    static std::vector<Finding> refusal(const std::string& path) {
        try {
            (void)read_device(path);
        } catch (const Error& error) {
            return error.findings();
        }
        ADD_FAILURE() << path << " is read";
        return {Finding{}};
    }

private:
    test::TemporaryFolder folder_;
};

std::string table(std::size_t index) { return std::string(device_tables.at(index)); }

std::string replaced(const std::string& text, const char* pattern, const char* by) {
    return std::regex_replace(text, std::regex(pattern), by);
}

TEST_F(DeviceFile, OfAShippedTableIsThatDevice) {
    for (std::size_t i = 0; i < device_tables.size(); ++i) {
        EXPECT_EQ(read_device(written(table(i))), known_devices().at(i));
        EXPECT_EQ(read_device(written(replaced(table(i), "\n", "\r\n"))), known_devices().at(i));
    }
}

TEST_F(DeviceFile, DecidesTheSplitOfK) {
    const DeviceDescription mine = read_device(written(replaced(table(0), "\nname\th200", "\nname\tmine")));
    const DeviceDescription small = read_device(written(
        replaced(replaced(table(0), "\nsms\t132", "\nsms\t16"), "\ncluster_2_sms\t132", "\ncluster_2_sms\t16")));
    const Problem problem = problem_of(dense(8, 1536, 2048));
    const Explanation explanation = explain(problem, mine);
    EXPECT_EQ(explanation.device, "mine");
    EXPECT_TRUE(explanation.assumed.empty());
    EXPECT_NE(planned_k_splits(problem_of(dense(64, 1536, 7168)), mine),
              planned_k_splits(problem_of(dense(64, 1536, 7168)), small));
}

TEST_F(DeviceFile, SaysWhatIsAssumed) {
    const std::string text = replaced(table(0), "(\nwritten_byte\t.*\t-\t)", "$1assumed: ");
    EXPECT_EQ(explain(problem_of(dense(64, 1024, 1024)), read_device(written(text))).assumed,
              std::vector<std::string>{"written_byte"});
}

TEST_F(DeviceFile, MistakesNameTheFileAndTheLine) {
    const std::string path = written(replaced(replaced(table(0), "\nsms\t132", "\nsms\t0"), "\nl2_bytes\t.*", ""));
    const std::vector<Finding> findings = refusal(path);
    ASSERT_EQ(findings.size(), 2U);
    EXPECT_EQ(findings[0].message(),
              "device: got sms = '0' in line 6 of '" + path +
                  "'; expected an integer from 16 to 1024. The format is that of src/plan/devices/h200.tsv; "
                  "tools/measure_device writes such files.");
    EXPECT_EQ(findings[1].given, "no l2_bytes in '" + path + "'");
    EXPECT_EQ(refusal(written(std::string(10000, '\n') + replaced(table(0), "\t", " "))).size(), 1U);
    EXPECT_EQ(refusal(written(table(0) + replaced(table(0), "\n[^f#]", "\nx"))).size(), 8U) << "the first ones";
}

TEST_F(DeviceFile, ThatIsNoneIsRefused) {
    EXPECT_EQ(refusal(path("none.tsv"))[0].given, "'" + path("none.tsv") + "', which does not exist");
    EXPECT_EQ(refusal("")[0].given, "'', which does not exist");
    EXPECT_EQ(refusal("/dev")[0].given, "'/dev', which is not a file");
    EXPECT_EQ(refusal("/dev/zero")[0].given, "'/dev/zero', which is not a file");
    ASSERT_EQ(::mkfifo(path("pipe.tsv").c_str(), 0600), 0);
    EXPECT_EQ(refusal(path("pipe.tsv"))[0].given, "'" + path("pipe.tsv") + "', which is not a file");
    const std::string large = written(std::string((1 << 20) + 1, '#'));
    EXPECT_EQ(refusal(large)[0].given, "'" + large + "', of more than 1 MiB");
    EXPECT_EQ(refusal(written(table(0)) + std::string("\0x", 2)).size(), 1U);
    EXPECT_EQ(refusal(written(std::string("\0\1\xff", 3))).size(), 1U);
}

TEST(DeviceFileName, IsTheWordWithASlashOrTheEnding) {
    for (const char* file : {"./h100", "my.tsv", "/a/b", "a/"}) EXPECT_TRUE(is_device_file(file)) << file;
    for (const char* name : {"h100", "h100-pcie", "automatic", "", "tsv"}) EXPECT_FALSE(is_device_file(name)) << name;
}

/// Plans are finite and launch something, whatever a file may say.
TEST(DeviceFileRange, IsOneThatThePlannerStands) {
    for (const DeviceField& field : device_fields()) {
        for (const double value : {field.least, field.most}) {
            DeviceDescription device = h200();
            std::visit(
                [&](auto member) { device.*member = static_cast<std::decay_t<decltype(device.*member)>>(value); },
                field.member);
            device.cluster_2_sms = std::min(device.cluster_2_sms, device.sms);
            for (const ProblemSizes& sizes : {dense(64, 2112, 7168), dense(4096, 4096, 512)}) {
                const Plan chosen = plan(problem_of(sizes), device);
                EXPECT_GT(chosen.grid, 0) << field.name << " = " << value;
                EXPECT_TRUE(std::isfinite(chosen.cost.seconds) && chosen.cost.seconds > 0)
                    << field.name << " = " << value;
            }
        }
    }
}

}  // namespace
}  // namespace tilewright::planner
