// Writing whole files that are either the old one or the new one, never half of one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tilewright::output {

/// A file that gets its name only when it is complete.
///
/// - Bytes go to a temporary file in the same folder; `commit` flushes them to the disk and renames the file.
/// - Without a commit, on an error or when a signal ends the program, the temporary file is removed.
/// - A link is followed. A file that is replaced keeps its mode, and its owner where that is allowed.
/// - All functions throw std::runtime_error with the path and the reason. The constructor also throws it if the path
///   exists and is not a regular file.
class OutputFile {
public:
    explicit OutputFile(const std::string& path);
    ~OutputFile();
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    void write(const void* data, std::size_t bytes);
    void write_at(std::uint64_t offset, const void* data, std::size_t bytes);
    /// Reads back what was written at `offset`.
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
