// Conversions that end early: on a full disk, at a limit of file sizes, by a signal; and the run that goes on.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "safetensors/checkpoint_tests.h"
#include "safetensors/side_files.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

const std::string small_shard = "model-1-of-2.safetensors";
const std::string large_shard = "model-2-of-2.safetensors";

/// As deepseek_v4, the smaller file first: as MXFP8 about 7,000 bytes, the other one more than 30,000.
std::vector<std::vector<FileTensor>> small_then_large() {
    const auto shards = deepseek_v4();
    return {shards[1], shards[0]};
}

std::vector<std::string> names(const std::string& folder) {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        all.push_back(entry.path().filename().string());
    std::ranges::sort(all);
    return all;
}

void expect_the_rest(const ConvertJob& again, const std::string& whole) {
    EXPECT_EQ(convert(again).kept_files, std::vector<std::string>{small_shard});
    ConvertJob at_once = again;
    at_once.output = whole;
    EXPECT_TRUE(convert(at_once).kept_files.empty());
    EXPECT_EQ(contents(again.output), contents(whole));
}

TEST(ConvertRuns, LeaveWhatIsCompleteAtALimitOfFileSizes) {
    const TemporaryFolder folder;
    write_checkpoint(folder.file("in"), small_then_large());
    const ConvertJob limited = job(folder.file("in"), folder.file("out"), "mxfp8");
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    rlimit small = before;
    small.rlim_cur = 20'000;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const std::string error = refusal(limited);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_NE(error.find(large_shard + ": cannot be written: File too large"), std::string::npos) << error;
    EXPECT_EQ(names(limited.output), (std::vector<std::string>{small_shard, record_name}));
    expect_the_rest(limited, folder.file("whole"));
}

TEST(ConvertRuns, SayThatTheDiskIsFullBeforeTheyWrite) {
    const TemporaryFolder folder;
    write_checkpoint(folder.file("in"), small_then_large());
    const std::string disk = folder.file("disk");
    std::filesystem::create_directory(disk);
    if (mount("none", disk.c_str(), "tmpfs", 0, "size=24k") != 0) GTEST_SKIP() << "mounting needs root";
    const std::string error = refusal(job(folder.file("in"), disk + "/out", "mxfp8"));
    const bool made = std::filesystem::exists(disk + "/out");
    umount(disk.c_str());
    EXPECT_NE(error.find("bytes are needed"), std::string::npos) << error;
    EXPECT_FALSE(made);
}

TEST(ConvertRuns, GoOnAfterASignalInTheMiddleOfAFile) {
    for (const int signal : {SIGTERM, SIGKILL}) {
        const TemporaryFolder folder;
        write_checkpoint(folder.file("in"), small_then_large());
        ConvertJob ended = job(folder.file("in"), folder.file("out"), "mxfp8");
        ended.wanted = [](const std::string& name) { return name.find("experts") != std::string::npos; };
        ended.progress = [=](std::uint64_t, std::uint64_t, const std::string& what) {
            if (what == "layers.3.ffn.experts.0.w1.weight") raise(signal);  // written to a file without its name
        };
        // MXFP4 is made MXFP8 without OpenMP, which does not survive a fork.
        const pid_t child = fork();
        if (child == 0) {
            convert(ended);
            _exit(0);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
        const std::vector<std::string> left = names(ended.output);
        ASSERT_EQ(left.size(), signal == SIGTERM ? 2U : 3U);  // SIGKILL leaves the temporary file
        EXPECT_EQ(left[left.size() - 2], small_shard);
        EXPECT_EQ(left.back(), record_name);
        EXPECT_EQ(left.front().ends_with(".tmp"), signal == SIGKILL) << left.front();
        ended.progress = nullptr;
        expect_the_rest(ended, folder.file("whole"));
    }
}

}  // namespace
}  // namespace tilewright::safetensors
