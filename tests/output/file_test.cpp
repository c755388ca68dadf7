// Files appear whole, over regular files alone, and nothing is left of those that could not be written.
#include "output/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>
#include <vector>

#include "output/temporary_folder.h"

namespace tilewright::output {
namespace {

using test::read_file;
using test::TemporaryFolder;
using test::write_file;

std::string refusal(const std::string& path) {
    try {
        write_text(path, "new");
        return "";
    } catch (const std::runtime_error& error) {
        return error.what();
    }
}

unsigned mode_of(const std::string& path) {
    struct stat status {};
    stat(path.c_str(), &status);
    return status.st_mode & 07777U;
}

TEST(OutputFile, ReplacesNothingButRegularFiles) {
    const TemporaryFolder folder;
    const std::string fifo = folder.file("fifo");
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    EXPECT_NE(refusal(fifo).find("not a regular file"), std::string::npos) << refusal(fifo);
    EXPECT_THROW(append_text(fifo, "new"), std::runtime_error);
    EXPECT_TRUE(std::filesystem::is_fifo(fifo));
    EXPECT_NE(refusal(folder.path().string()).find("is a folder"), std::string::npos);
    EXPECT_EQ(folder.entries(), 1U);
}

TEST(OutputFile, FollowsLinks) {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder.file("elsewhere"));
    const std::string target = folder.file("elsewhere/target"), link = folder.file("link"), far = folder.file("far");
    std::filesystem::create_symlink("elsewhere/target", link);
    std::filesystem::create_symlink("link", far);
    EXPECT_EQ(refusal(far), "");  // the target is new
    EXPECT_EQ(read_file(target), "new");
    write_file(target, "old");
    EXPECT_EQ(refusal(link), "");
    EXPECT_EQ(read_file(target), "new");
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_TRUE(std::filesystem::is_symlink(far));

    std::filesystem::create_symlink("circle", folder.file("circle"));
    EXPECT_NE(refusal(folder.file("circle")).find("cannot be followed"), std::string::npos);
}

TEST(OutputFile, KeepsTheModeOfWhatItReplaces) {
    const TemporaryFolder folder;
    const std::string path = folder.file("file");
    for (const mode_t mode : {0400, 0600, 0755}) {
        std::filesystem::remove(path);
        write_file(path, "old");
        ASSERT_EQ(chmod(path.c_str(), mode), 0);
        EXPECT_EQ(refusal(path), "");
        EXPECT_EQ(mode_of(path), mode);
    }
}

TEST(OutputFile, LeavesNothingBehindTheLimitOfFileSizes) {
    const TemporaryFolder folder;
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    rlimit small = before;
    small.rlim_cur = 4096;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    EXPECT_THROW(write_text(folder.file("file"), std::string(8192, 'x')), std::runtime_error);
    EXPECT_EQ(folder.entries(), 0U);
    // Part of a line that is added would remain too.
    append_text(folder.file("records"), "first\n");
    auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
    EXPECT_THROW(append_text(folder.file("records"), std::string(8192, 'x')), std::runtime_error);
    std::signal(SIGXFSZ, handler);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(read_file(folder.file("records")), "first\n");
}

TEST(OutputFile, ASignalThatIsIgnoredStaysIgnored) {
    const TemporaryFolder folder;
    std::signal(SIGHUP, SIG_IGN);  // as nohup does
    {
        OutputFile file(folder.file("file"));
        raise(SIGHUP);
        file.commit();
    }
    raise(SIGHUP);
    EXPECT_EQ(std::signal(SIGHUP, SIG_DFL), SIG_IGN);
}

/// The kernel gives a signal of the process to any thread.
TEST(OutputFile, IsRemovedWhenAnotherThreadGetsTheSignal) {
    const TemporaryFolder folder;
    EXPECT_EXIT(
        {
            const OutputFile file(folder.file("file"));
            std::thread([] { raise(SIGTERM); }).join();
            std::this_thread::sleep_for(std::chrono::seconds(10));
        },
        testing::KilledBySignal(SIGTERM), "");
    EXPECT_EQ(folder.entries(), 0U);
}

}  // namespace
}  // namespace tilewright::output
