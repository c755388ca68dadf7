// What the program does with files, links and pipes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cli/model_file.h"
#include "cli/running.h"

namespace tilewright::cli {
namespace {

using test::contains;
using test::Outcome;
using test::read_file;
using test::run_program;
using test::Running;
using test::TemporaryFolder;
using test::write_model;

TEST(ProgramFiles, AFifoIsNoInput) {
    const TemporaryFolder folder;
    const std::string fifo = folder.file("fifo");
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    const Outcome outcome =
        Running(folder, {"quantize", fifo, folder.file("out.safetensors")}).wait(std::chrono::seconds(20));
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_TRUE(contains(outcome.err, fifo + ": not a regular file")) << outcome.err;
}

TEST(ProgramFiles, NothingButARegularFileIsReplaced) {
    const TemporaryFolder folder;
    const std::string input = write_model(folder, 8);
    const std::string fifo = folder.file("fifo");
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"quantize", input, fifo}, {"doctor", "--json", fifo}}) {
        const Outcome outcome = run_program(arguments);
        EXPECT_EQ(outcome.exit_code, 1);
        EXPECT_TRUE(contains(outcome.err, fifo + ": not a regular file")) << outcome.err;
        EXPECT_TRUE(std::filesystem::is_fifo(fifo));
    }
}

TEST(ProgramFiles, TheInputIsNotReplacedByTheOutput) {
    const TemporaryFolder folder;
    const std::string input = write_model(folder, 8);
    const std::string before = read_file(input);
    const std::string link = folder.file("link"), hard_link = folder.file("hard link");
    std::filesystem::create_symlink(input, link);
    std::filesystem::create_hard_link(input, hard_link);
    for (const std::string& output : {input, link, hard_link, folder.file("./model.safetensors")}) {
        const Outcome outcome = run_program({"quantize", input, output});
        EXPECT_EQ(outcome.exit_code, 1) << output;
        EXPECT_TRUE(contains(outcome.err, output + ": is the input itself")) << outcome.err;
        EXPECT_EQ(read_file(input), before);
    }
}

}  // namespace
}  // namespace tilewright::cli
