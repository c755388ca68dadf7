// The program as users run it, for tests: started, signalled, waited for.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "output/temporary_folder.h"

namespace tilewright::test {

struct Outcome {
    int exit_code = -1;
    std::string out{};
    std::string err{};
};

/// Where the standard streams go, when not to files of a folder, and which of them are closed.
struct Streams {
    std::string out{};
    std::string err{};
    std::vector<int> closed{};
    int out_descriptor = -1;  // instead of `out`
};

class Running {
public:
    Running(const TemporaryFolder& folder, std::vector<std::string> arguments,
            std::vector<std::string> environment = {}, const Streams& streams = {})
        : out_(streams.out.empty() ? folder.file("stdout") : streams.out),
          err_(streams.err.empty() ? folder.file("stderr") : streams.err) {
        arguments.insert(arguments.begin(), TILEWRIGHT_PROGRAM);
        for (char** variable = environ; *variable != nullptr; ++variable) environment.emplace_back(*variable);
        posix_spawn_file_actions_t actions{};
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 1, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        posix_spawn_file_actions_addopen(&actions, 2, err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (streams.out_descriptor >= 0) posix_spawn_file_actions_adddup2(&actions, streams.out_descriptor, 1);
        for (const int stream : streams.closed) posix_spawn_file_actions_addclose(&actions, stream);
        const int error = posix_spawn(&process_, TILEWRIGHT_PROGRAM, &actions, nullptr, pointers(arguments).data(),
                                      pointers(environment).data());
        posix_spawn_file_actions_destroy(&actions);
        if (error != 0) throw std::runtime_error("the program does not start");
    }

    void kill(int signal) const { ::kill(process_, signal); }

    /// Kills a program that takes longer; its exit code is then -SIGKILL.
    Outcome wait(std::chrono::seconds most = std::chrono::seconds(200)) const {
        const auto begin = std::chrono::steady_clock::now();
        int status = 0;
        while (waitpid(process_, &status, WNOHANG) == 0) {
            if (std::chrono::steady_clock::now() - begin > most) kill(SIGKILL);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
                .out = is_device(out_) ? "" : read_file(out_),
                .err = is_device(err_) ? "" : read_file(err_)};
    }

private:
    static bool is_device(const std::string& path) { return path.rfind("/dev/", 0) == 0; }

    static std::vector<char*> pointers(std::vector<std::string>& words) {
        std::vector<char*> list;
        list.reserve(words.size() + 1);
        for (std::string& word : words) list.push_back(word.data());
        list.push_back(nullptr);
        return list;
    }

    std::string out_;
    std::string err_;
    pid_t process_ = 0;
};

inline Outcome run_program(const std::vector<std::string>& arguments,
                           const std::vector<std::string>& environment = {}) {
    const TemporaryFolder folder;
    return Running(folder, arguments, environment).wait();
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace tilewright::test
