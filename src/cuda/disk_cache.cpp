#include "cuda/disk_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cuda/digest.h"

namespace tilewright::cuda {
namespace {

namespace fs = std::filesystem;

// The form of a file: this line, the digest of the rest, a line with the function's name, the machine code.
constexpr std::string_view first_line = "tilewright kernel 1\n";
constexpr std::size_t digest_length = 32;

std::string file_text(const CompiledKernel& kernel) {
    const std::string rest = kernel.name + "\n" + kernel.cubin;
    return std::string(first_line) + Digest().add(rest).text() + "\n" + rest;
}

std::optional<CompiledKernel> parse(std::string_view text) {
    if (text.substr(0, first_line.size()) != first_line) return std::nullopt;
    text.remove_prefix(first_line.size());
    if (text.size() <= digest_length || text[digest_length] != '\n') return std::nullopt;
    const std::string_view digest = text.substr(0, digest_length);
    const std::string_view rest = text.substr(digest_length + 1);
    const std::size_t line_end = rest.find('\n');
    if (line_end == std::string_view::npos || Digest().add(rest).text() != digest) return std::nullopt;
    return CompiledKernel{.name = std::string(rest.substr(0, line_end)),
                          .cubin = std::string(rest.substr(line_end + 1))};
}

/// Different for every process and thread that writes at the same time.
std::string temporary_name(const std::string& path) {
    static std::atomic<unsigned> count{0};
    return fmt::format("{}.{}.{}.part", path, getpid(), count.fetch_add(1));
}

}  // namespace

std::optional<CompiledKernel> DiskCache::load(const std::string& key) const {
    if (folder_.empty()) return std::nullopt;
    std::ifstream file(path(key), std::ios::binary);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf())) return std::nullopt;
    return parse(text.view());
}

void DiskCache::store(const std::string& key, const CompiledKernel& kernel) const noexcept try {
    if (folder_.empty()) return;
    std::error_code error;
    fs::create_directories(folder_, error);
    const std::string part = temporary_name(path(key));
    const std::string text = file_text(kernel);
    std::ofstream file(part, std::ios::binary);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    // Readers see either the old file or the whole new one.
    if (file.good()) fs::rename(part, path(key), error);
    if (!file.good() || error) fs::remove(part, error);
} catch (...) {
}

DiskCache::Contents DiskCache::contents() const {
    Contents found;
    std::error_code error;
    for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
        if (it->path().extension() != ".kernel") continue;
        const auto bytes = it->file_size(error);
        if (error) continue;
        ++found.kernels;
        found.bytes += static_cast<std::int64_t>(bytes);
    }
    return found;
}

}  // namespace tilewright::cuda
