// Signals end the program at once and as signals do, and leave no part of a file.
#include <gtest/gtest.h>

#include "cli/model_file.h"
#include "cli/running.h"

namespace tilewright::cli {
namespace {

using test::run_program;
using test::Running;
using test::TemporaryFolder;
using test::write_model;

TEST(ProgramSignals, CtrlCEndsALongCallAtOnce) {
    // Tens of seconds of work.
    for (const char* arithmetic : {"bit_exact", "fast"}) {
        const TemporaryFolder folder;
        const Running program(folder, {"bench", "--backend", "cpu", "--arithmetic", arithmetic, "--m", "16384", "--n",
                                       "16384", "--k", "4096"});
        std::this_thread::sleep_for(std::chrono::seconds(2));
        const auto begin = std::chrono::steady_clock::now();
        program.kill(SIGINT);
        EXPECT_EQ(program.wait().exit_code, -SIGINT);  // to a shell: 130
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500)) << arithmetic;
    }
}

/// Kills the program as soon as it writes to `folder`, and gives the names of the files that are new there.
std::vector<std::string> left_after(int signal, const TemporaryFolder& folder, std::vector<std::string> arguments) {
    const std::size_t before = folder.entries();
    arguments.insert(arguments.begin() + 2, folder.file("out.safetensors"));
    const TemporaryFolder logs;
    const Running program(logs, arguments);
    while (folder.entries() == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    program.kill(signal);
    EXPECT_EQ(program.wait().exit_code, -signal);
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        if (entry.path() != arguments[1]) names.push_back(entry.path().filename().string());
    }
    return names;
}

TEST(ProgramSignals, LeaveNothingOfAFileThatIsBeingWritten) {
    const TemporaryFolder folder, other;
    const std::string model = write_model(folder, 8 * 1024), quantised = other.file("mxfp4.safetensors");
    ASSERT_EQ(run_program({"quantize", model, quantised, "--recipe", "mxfp4"}).exit_code, 0);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGXCPU}) {
        EXPECT_TRUE(left_after(signal, folder, {"quantize", model, "--recipe", "nvfp4"}).empty()) << signal;
        EXPECT_TRUE(left_after(signal, other, {"convert", quantised, "--to", "nvfp4"}).empty()) << signal;
    }
    for (const std::string& name : left_after(SIGKILL, folder, {"quantize", model})) {
        EXPECT_NE(name, "out.safetensors");
    }
}

}  // namespace
}  // namespace tilewright::cli
