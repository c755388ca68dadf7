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
#include <fstream>
#include <stdexcept>
#include <utility>

namespace tilewright::output {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
    throw std::runtime_error(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

// What the signal handler removes. One file is written at a time; the handler may only use memory that stands still.
std::array<char, 4096> temporary_name{};
volatile std::sig_atomic_t temporary_exists = 0;

void remove_and_die(int signal) {
    if (temporary_exists != 0) unlink(temporary_name.data());
    std::signal(signal, SIG_DFL);
    raise(signal);
}

void guard(const std::string& path) {
    if (path.size() >= temporary_name.size()) return;
    std::strncpy(temporary_name.data(), path.c_str(), temporary_name.size() - 1);
    temporary_exists = 1;
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, remove_and_die);
}

void unguard() {
    temporary_exists = 0;
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
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

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
    if (std::filesystem::is_directory(path_)) throw std::runtime_error(path_ + ": is a folder; name a file");
    const std::filesystem::path target(path_);
    const std::string name = fmt::format(".{}.{}.tmp", target.filename().string(), getpid());
    temporary_ = (target.parent_path() / name).string();
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail(path_, "cannot be created");
    guard(temporary_);
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
    std::ofstream file(path, std::ios::app | std::ios::binary);
    file << text;
    file.close();
    if (!file) throw std::runtime_error(path + ": cannot be written");
}

}  // namespace tilewright::output
