#include "output/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "output/streams.h"

namespace tilewright::output {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
    throw std::runtime_error(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

/// Signals that end a program and are no fault of its code: a batch system sends SIGUSR1 before time is over, SIGXCPU
/// after.
constexpr std::array ending_signals{SIGHUP,  SIGINT,  SIGQUIT, SIGPIPE, SIGALRM,  SIGTERM,
                                    SIGUSR1, SIGUSR2, SIGXCPU, SIGPROF, SIGVTALRM};

// What the signal handler needs: static memory, because a handler may call no allocator. One file is written at a time.
std::array<char, 4096> temporary_name{};
pthread_t writer{};
std::array<struct sigaction, ending_signals.size()> former_actions{};
struct sigaction former_file_size_action {};

void restore_actions() {
    for (std::size_t i = 0; i < ending_signals.size(); ++i) sigaction(ending_signals[i], &former_actions[i], nullptr);
}

/// Runs on the thread that writes, whichever the kernel chose: only that one knows whether the file is there.
void remove_and_die(int signal) {
    if (pthread_equal(pthread_self(), writer) == 0) {
        pthread_kill(writer, signal);
        return;
    }
    unlink(temporary_name.data());
    restore_actions();
    raise(signal);  // arrives when this function returns
}

sigset_t ending_set() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : ending_signals) sigaddset(&set, signal);
    return set;
}

/// While it lives no ending signal is handled by this thread.
class SignalsWait {
public:
    SignalsWait() {
        const sigset_t set = ending_set();
        pthread_sigmask(SIG_BLOCK, &set, &before_);
    }
    ~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsWait(const SignalsWait&) = delete;
    SignalsWait& operator=(const SignalsWait&) = delete;

private:
    sigset_t before_{};
};

/// A signal that the caller ignores (nohup) stays ignored. SIGXFSZ is ignored meanwhile, so that a write beyond the
/// limit of `ulimit -f` fails with EFBIG and the temporary file is removed as after any other error.
void guard(const std::string& path) {
    path.copy(temporary_name.data(), temporary_name.size() - 1);  // one that is longer cannot be opened
    temporary_name[std::min(path.size(), temporary_name.size() - 1)] = '\0';
    writer = pthread_self();
    struct sigaction ignored {};
    ignored.sa_handler = SIG_IGN;
    sigaction(SIGXFSZ, &ignored, &former_file_size_action);
    struct sigaction removing {};
    removing.sa_handler = remove_and_die;
    removing.sa_mask = ending_set();
    removing.sa_flags = SA_RESTART;
    for (std::size_t i = 0; i < ending_signals.size(); ++i) {
        sigaction(ending_signals[i], nullptr, &former_actions[i]);
        if (former_actions[i].sa_handler != SIG_IGN) sigaction(ending_signals[i], &removing, nullptr);
    }
}

void unguard() {
    restore_actions();
    sigaction(SIGXFSZ, &former_file_size_action, nullptr);
}

/// The rename itself is on the disk only when its folder is.
void sync_folder(const std::string& path) {
    std::string folder = std::filesystem::path(path).parent_path().string();
    if (folder.empty()) folder = ".";
    const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    fsync(descriptor);
    close(descriptor);
}

/// Throws unless the path names a regular file, which `status` then describes, or nothing; whether it names a file.
bool replaces_file(const std::string& path, struct stat& status) {
    if (stat(path.c_str(), &status) != 0) {
        if (errno == ENOENT) return false;
        fail(path, "cannot be created");
    }
    if (S_ISDIR(status.st_mode)) throw std::runtime_error(path + ": is a folder; pass the name of a file");
    if (S_ISREG(status.st_mode)) return true;
    throw std::runtime_error(path +
                             ": not a regular file (a device, FIFO or socket); choose a regular file or a new name");
}

}  // namespace

std::string behind_links(const std::string& path) {
    constexpr int most_links = 40;  // as Linux (path_resolution(7))
    std::filesystem::path target(path);
    std::error_code error;
    for (int i = 0; i < most_links; ++i) {
        if (!std::filesystem::is_symlink(target, error)) return target.string();
        target = target.parent_path() / std::filesystem::read_symlink(target, error);
    }
    errno = ELOOP;
    fail(path, "cannot be followed");
}

OutputFile::OutputFile(const std::string& path) : path_(behind_links(path)) {
    struct stat status {};
    const bool replaces = replaces_file(path_, status);
    const std::filesystem::path target(path_);
    const std::string name = fmt::format(".{}.{}.tmp", target.filename().string(), getpid());
    temporary_ = (target.parent_path() / name).string();
    const SignalsWait until_both_are_done;
    guard(temporary_);
    descriptor_ = open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
        const int error = errno;
        unguard();
        errno = error;
        fail(path_, "cannot be created");
    }
    if (!replaces) return;
    // Without the right to give the file to its owner it becomes the caller's, and then must not run as its owner.
    const bool same_owner = fchown(descriptor_, status.st_uid, status.st_gid) == 0;
    fchmod(descriptor_, status.st_mode & (same_owner ? 07777U : 0777U));
}

OutputFile::~OutputFile() {
    if (descriptor_ < 0) return;
    close(descriptor_);
    unlink(temporary_.c_str());
    unguard();
}

void OutputFile::write(const void* data, std::size_t bytes) {
    write_at(position_, data, bytes);
    position_ += bytes;
}

void OutputFile::write_at(std::uint64_t offset, const void* data, std::size_t bytes) {
    const auto* from = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t written = pwrite(descriptor_, from, bytes, static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail(path_, "cannot be written");
        from += written;
        offset += static_cast<std::uint64_t>(written);
        bytes -= static_cast<std::size_t>(written);
    }
}

void OutputFile::read_at(std::uint64_t offset, void* to, std::size_t bytes) const {
    auto* target = static_cast<char*>(to);
    while (bytes > 0) {
        const ssize_t got = pread(descriptor_, target, bytes, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) fail(path_, "cannot be read back");
        target += got;
        offset += static_cast<std::uint64_t>(got);
        bytes -= static_cast<std::size_t>(got);
    }
}

void OutputFile::commit() {
    if (fsync(descriptor_) != 0 && errno != EINVAL) fail(path_, "cannot be flushed to the disk");
    if (rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "cannot be replaced");
    close(descriptor_);
    descriptor_ = -1;
    unguard();
    sync_folder(path_);
}

void write_text(const std::string& path, std::string_view text) {
    if (path == "-") {
        print_text(text);
        return;
    }
    OutputFile file(path);
    file.write(text.data(), text.size());
    file.commit();
}

void append_text(const std::string& path, const std::string& text) {
    struct stat before {};
    if (!replaces_file(path, before)) before.st_size = 0;
    const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor < 0) fail(path, "cannot be opened");
    int error = write_all(descriptor, text);
    // Half a line would spoil the file for its readers.
    if (error != 0 && ftruncate(descriptor, before.st_size) != 0) error = errno;
    if (close(descriptor) != 0 && error == 0) error = errno;
    errno = error;
    if (error != 0) fail(path, "cannot be written");
}

}  // namespace tilewright::output
