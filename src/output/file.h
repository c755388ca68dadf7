// Writing whole files that are either the old one or the new one, never half of one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tilewright::output {

/// A file that gets its name only when it is complete: bytes go to a temporary file in the same folder, `commit`
/// flushes them to the disk and renames. Without a commit, on an error or when a signal ends the program, the temporary
/// file is removed. A link is followed, and a file that is replaced keeps its mode, and its owner where that is
/// allowed. All functions throw std::runtime_error with the path and the reason, the constructor also for a path that
/// names anything but a regular file or nothing.
class OutputFile {
public:
    explicit OutputFile(const std::string& path);
    ~OutputFile();
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    void write(const void* data, std::size_t bytes);
    void write_at(std::uint64_t offset, const void* data, std::size_t bytes);
    /// What was written there.
    void read_at(std::uint64_t offset, void* to, std::size_t bytes) const;
    void commit();

private:
    std::string path_;
    std::string temporary_;
    int descriptor_ = -1;
    std::uint64_t position_ = 0;
};

/// The path that a link, or a link to a link, names; also one that is still missing, which std::filesystem::canonical
/// refuses. Throws std::runtime_error for links in a circle.
std::string behind_links(const std::string& path);

/// A whole text file; "-" is stdout.
void write_text(const std::string& path, std::string_view text);

/// Adds all of it to a regular file or makes a new one. Throws std::runtime_error where that is impossible.
void append_text(const std::string& path, const std::string& text);

}  // namespace tilewright::output
