#include "output/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace tilewright::output {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
    throw std::runtime_error(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

// What the signal handler removes: static memory, because a handler may call no allocator. One file is written at a
// time.
std::array<char, 4096> temporary_name{};
volatile std::sig_atomic_t temporary_exists = 0;

constexpr std::array ending_signals{SIGINT, SIGTERM, SIGHUP};

void remove_and_die(int signal) {
    if (temporary_exists != 0) unlink(temporary_name.data());
    std::signal(signal, SIG_DFL);
    raise(signal);
}

/// A signal that the caller ignores (nohup) stays ignored. SIGXFSZ is ignored meanwhile, so that a write beyond the
/// limit of `ulimit -f` fails with EFBIG and the temporary file is removed as after any other error.
void guard(const std::string& path) {
    std::signal(SIGXFSZ, SIG_IGN);
    if (path.size() >= temporary_name.size()) return;
    std::strncpy(temporary_name.data(), path.c_str(), temporary_name.size() - 1);
    temporary_exists = 1;
    for (int signal : ending_signals) {
        if (std::signal(signal, remove_and_die) == SIG_IGN) std::signal(signal, SIG_IGN);
    }
}

void unguard() {
    temporary_exists = 0;
    std::signal(SIGXFSZ, SIG_DFL);
    for (int signal : ending_signals) {
        if (std::signal(signal, SIG_DFL) == SIG_IGN) std::signal(signal, SIG_IGN);
    }
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
    if (S_ISDIR(status.st_mode)) throw std::runtime_error(path + ": is a folder; name a file");
    if (S_ISREG(status.st_mode)) return true;
    throw std::runtime_error(path +
                             ": is no regular file (but a device, FIFO or socket); name a regular file or a new one");
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
    guard(temporary_);  // first: a signal that comes right after `open` finds it
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
        fmt::print("{}", text);
        return;
    }
    OutputFile file(path);
    file.write(text.data(), text.size());
    file.commit();
}

void append_text(const std::string& path, const std::string& text) {
    struct stat status {};
    replaces_file(path, status);
    std::FILE* file = std::fopen(path.c_str(), "ae");
    if (file == nullptr) fail(path, "cannot be opened");
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (std::fclose(file) != 0 || !written) fail(path, "cannot be written");
}

void finish_stdout() {
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
    throw std::runtime_error(fmt::format("stdout: cannot be written: {}", std::strerror(errno)));
}

}  // namespace tilewright::output
