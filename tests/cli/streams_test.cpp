// Every command with standard streams that are closed, full or broken: it ends in an exit code, and files are whole.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <array>
#include <csignal>

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

/// Each command but bench, --help, --version, errors and misuse; those with files work in `folder`.
std::vector<std::vector<std::string>> calls(const TemporaryFolder& folder) {
    const std::string model = write_model(folder, 8), quantised = folder.file("quantised.safetensors");
    run_program({"quantize", model, quantised, "--recipe", "mxfp4"});
    return {{},
            {"--help"},
            {"--version"},
            {"convert", "--help"},
            {"verfy"},
            {"doctor"},
            {"inspect", quantised},
            {"inspect", folder.file("missing")},
            {"quantize", model, folder.file("out.safetensors")},
            {"convert", quantised, folder.file("converted.safetensors"), "--to", "mxfp8"},
            {"explain", "--m", "64", "--n", "128", "--k", "128"},
            {"tune", "--m", "1", "--n", "8", "--k", "16", "--tile", "no tile"},
            {"verify", "--backend", "cpu", "--quick", "--filter", "quantize tensor"}};
}

std::string command_of(const std::vector<std::string>& arguments) {
    return arguments.empty() ? "nothing" : arguments.front();
}

bool prints(const Outcome& outcome) { return !outcome.out.empty(); }

TEST(ProgramStreams, ClosedOnesAreAsDevNull) {
    const TemporaryFolder files;
    for (const std::vector<std::string>& arguments : calls(files)) {
        const Outcome open = run_program(arguments);
        const std::string command = command_of(arguments);
        for (const std::vector<int>& closed :
             std::vector<std::vector<int>>{{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}}) {
            const TemporaryFolder folder;
            const Outcome outcome = Running(folder, arguments, {}, {.closed = closed}).wait();
            EXPECT_EQ(outcome.exit_code, open.exit_code) << command << ", " << closed.size() << " closed";
        }
    }
}

/// A file that is opened after stdout was closed must not become it.
TEST(ProgramStreams, MessagesDoNotGetIntoFiles) {
    const TemporaryFolder folder;
    const std::string model = write_model(folder, 8), expected = folder.file("expected"), out = folder.file("out");
    ASSERT_EQ(run_program({"quantize", model, expected}).exit_code, 0);
    for (const std::vector<int>& closed : std::vector<std::vector<int>>{{1}, {2}, {0, 1, 2}}) {
        const TemporaryFolder logs;
        EXPECT_EQ(Running(logs, {"quantize", model, out}, {}, {.closed = closed}).wait().exit_code, 0);
        EXPECT_TRUE(read_file(out) == read_file(expected));
    }
}

TEST(ProgramStreams, AFullDiskIsAnError) {
    const TemporaryFolder files;
    for (const std::vector<std::string>& arguments : calls(files)) {
        const Outcome to_file = run_program(arguments);
        const std::string command = command_of(arguments);
        const TemporaryFolder folder;
        const Outcome full = Running(folder, arguments, {}, {.out = "/dev/full"}).wait();
        EXPECT_EQ(full.exit_code, prints(to_file) ? 1 : to_file.exit_code) << command;
        EXPECT_EQ(contains(full.err, "tilewright: stdout: cannot be written: No space left on device"), prints(to_file))
            << command << ": " << full.err;
        const Outcome mute = Running(folder, arguments, {}, {.err = "/dev/full"}).wait();
        EXPECT_EQ(mute.exit_code, to_file.exit_code) << command;
        const Outcome both = Running(folder, arguments, {}, {.out = "/dev/full", .err = "/dev/full"}).wait();
        EXPECT_EQ(both.exit_code, full.exit_code) << command;
    }
}

/// A pipe whose reader has gone, with SIGPIPE as it is by default and ignored as servers do.
TEST(ProgramStreams, AClosedPipeEndsTheProgramQuietly) {
    const TemporaryFolder files;
    for (const std::vector<std::string>& arguments : calls(files)) {
        const Outcome to_file = run_program(arguments);
        for (auto* const handler : {SIG_DFL, SIG_IGN}) {
            std::array<int, 2> ends{};
            ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
            close(ends[0]);
            auto* const before = std::signal(SIGPIPE, handler);
            const TemporaryFolder folder;
            const Running program(folder, arguments, {}, {.out_descriptor = ends[1]});
            std::signal(SIGPIPE, before);
            close(ends[1]);
            const Outcome outcome = program.wait();
            EXPECT_EQ(outcome.exit_code, prints(to_file) ? -SIGPIPE : to_file.exit_code) << command_of(arguments);
            EXPECT_EQ(outcome.err, prints(to_file) ? "" : to_file.err);
        }
    }
}

/// It measures the machine first, which takes a second.
TEST(ProgramStreams, BenchDoesTheSame) {
    const std::vector<std::string> arguments{"bench", "--backend", "cpu", "--m",       "1",   "--n",
                                             "8",     "--k",       "16",  "--seconds", "0.01"};
    const TemporaryFolder folder;
    EXPECT_EQ(Running(folder, arguments, {}, {.closed = {0, 1, 2}}).wait().exit_code, 0);
    EXPECT_EQ(Running(folder, arguments, {}, {.out = "/dev/full", .err = "/dev/full"}).wait().exit_code, 1);
}

/// A parent may have made its pipe non-blocking: writes then fail while it is full.
TEST(ProgramStreams, AFullPipeIsWaitedFor) {
    const TemporaryFolder folder;
    const std::string all = run_program({"explain", "--m", "64", "--n", "128", "--k", "128", "--all", "--json"}).out;
    ASSERT_GT(all.size(), 4096U);
    const std::string fifo = folder.file("fifo");
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const int writer = open(fifo.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GT(fcntl(writer, F_SETPIPE_SZ, 4096), 0);
    const Running program(folder, {"explain", "--m", "64", "--n", "128", "--k", "128", "--all", "--json"}, {},
                          {.out_descriptor = writer});
    close(writer);
    std::string got;
    std::array<char, 1000> part{};
    for (;;) {
        const ssize_t bytes = read(reader, part.data(), part.size());
        if (bytes == 0) break;
        if (bytes > 0) got.append(part.data(), static_cast<std::size_t>(bytes));
        if (bytes < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    close(reader);
    EXPECT_EQ(program.wait().exit_code, 0);
    EXPECT_EQ(got, all);
}

}  // namespace
}  // namespace tilewright::cli
