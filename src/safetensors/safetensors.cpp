#include "safetensors/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "output/digest.h"

namespace tilewright::safetensors {
namespace {

constexpr std::uint64_t length_bytes = 8;
constexpr std::uint64_t longest_header = 100'000'000;  // as the reference implementation

struct Pair {
    Format format;
    const char* dtype;
};
constexpr std::array pairs{Pair{Format::e4m3, "F8_E4M3"}, Pair{Format::ue4m3, "F8_E4M3"},
                           Pair{Format::e5m2, "F8_E5M2"}, Pair{Format::ue8m0, "F8_E8M0"},
                           Pair{Format::e2m1, "F4"},      Pair{Format::bf16, "BF16"},
                           Pair{Format::f16, "F16"},      Pair{Format::f32, "F32"},
                           Pair{Format::i32, "I32"},      Pair{Format::i64, "I64"}};

const std::string no_digest(16, '0');

/// As it is in the text of a header.
std::string digest_entry(const std::string& digest) { return fmt::format("\"{}\":\"{}\"", file_digest_key, digest); }

std::string header_text(const std::vector<StoredTensor>& tensors, Metadata metadata) {
    if (metadata.contains(file_digest_key)) metadata[file_digest_key] = no_digest;
    // Member by member: an object of nlohmann::ordered_json looks for each key among all.
    std::string text = "{";
    if (!metadata.empty()) text += "\"__metadata__\":" + nlohmann::json(metadata).dump();
    for (const StoredTensor& tensor : tensors) {
        const nlohmann::ordered_json one{
            {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}};
        text += (text.size() > 1 ? "," : "") + nlohmann::json(tensor.name).dump() + ":" + one.dump();
    }
    text += "}";
    text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data begins at a multiple of 8
    return text;
}

/// Wide elements first, then by name; the offsets follow from that order.
void arrange(std::vector<StoredTensor>& tensors) {
    std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& left, const StoredTensor& right) {
        const int left_bits = dtype_bits(left.dtype).value_or(0);
        const int right_bits = dtype_bits(right.dtype).value_or(0);
        return std::make_pair(-left_bits, std::cref(left.name)) < std::make_pair(-right_bits, std::cref(right.name));
    });
    std::uint64_t position = 0;
    for (StoredTensor& tensor : tensors) {
        const std::optional<std::uint64_t> bytes = stored_bytes(tensor.dtype, tensor.shape);
        if (!bytes) throw std::logic_error(tensor.name + ": no whole number of bytes");
        tensor.begin = position;
        tensor.end = position += *bytes;
    }
}

std::int64_t nanoseconds(const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

/// The digest of a header, which has `no_digest` itself, and of `bytes` bytes that `read(position, to, bytes)` gives.
template <class Read>
std::string digest_of_file(const std::string& header, std::uint64_t bytes, const Read& read) {
    constexpr std::uint64_t step = std::uint64_t{4} << 20;
    output::Digest digest;
    digest.add(header);
    std::string part;
    for (std::uint64_t at = 0; at < bytes; at += part.size()) {
        part.resize(std::min(step, bytes - at));
        read(at, part.data(), part.size());
        digest.add(part);
    }
    return digest.text();
}

}  // namespace

std::optional<Format> format_of(std::string_view dtype) {
    for (const Pair& pair : pairs) {
        if (pair.dtype == dtype) return pair.format;
    }
    return std::nullopt;
}

std::string dtype_of(Format format) {
    const auto* pair = std::find_if(pairs.begin(), pairs.end(), [=](const Pair& p) { return p.format == format; });
    return pair == pairs.end() ? "U8" : pair->dtype;
}

SafetensorsReader::SafetensorsReader(const std::string& path) : path_(path) {
    descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO would block
    struct stat status {};
    try {
        if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) throw SafetensorsError(std::strerror(errno));
        if (!S_ISREG(status.st_mode)) throw SafetensorsError("not a regular file");
        const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
        if (file_bytes < length_bytes) {
            throw SafetensorsError(fmt::format("{} bytes are too few for a safetensors file", file_bytes));
        }
        std::array<unsigned char, length_bytes> length{};
        read_at(0, length.data(), length.size());
        std::uint64_t header_bytes = 0;
        for (std::size_t i = 0; i < length.size(); ++i) header_bytes |= std::uint64_t{length[i]} << (8 * i);
        if (header_bytes > longest_header || header_bytes > file_bytes - length_bytes) {
            throw SafetensorsError(
                fmt::format("claims a header of {} bytes, but the file has {} and a header at most {}; it is truncated "
                            "or not a safetensors file",
                            header_bytes, file_bytes, longest_header));
        }
        std::string json(header_bytes, '\0');
        read_at(length_bytes, json.data(), header_bytes);
        data_begin_ = length_bytes + header_bytes;
        header_digest_ = output::digest_of(json);
        header_ = parse_header(json, file_bytes - data_begin_);
    } catch (const SafetensorsError& error) {
        if (descriptor_ >= 0) close(descriptor_);
        throw SafetensorsError(fmt::format("{}: {}", path, error.what()));
    }
}

SafetensorsReader::~SafetensorsReader() { close(descriptor_); }

void SafetensorsReader::read(const StoredTensor& tensor, std::uint64_t offset, void* to, std::uint64_t bytes) const {
    if (offset > tensor.bytes() || bytes > tensor.bytes() - offset) throw std::logic_error("read outside a tensor");
    try {
        read_at(data_begin_ + tensor.begin + offset, to, bytes);
    } catch (const SafetensorsError& error) {
        throw SafetensorsError(fmt::format("{}: tensor '{}': {}", path_, tensor.name, error.what()));
    }
}

FileIdentity SafetensorsReader::identity() const {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0) throw SafetensorsError(path_ + ": " + std::strerror(errno));
    return {.bytes = static_cast<std::uint64_t>(status.st_size),
            .inode = status.st_ino,
            .modified = nanoseconds(status.st_mtim),
            .changed = nanoseconds(status.st_ctim)};
}

bool SafetensorsReader::is_as_written() const {
    const auto expected = header_.metadata.find(file_digest_key);
    if (expected == header_.metadata.end()) return false;
    std::string header(data_begin_ - length_bytes, '\0');
    read_at(length_bytes, header.data(), header.size());
    const std::size_t begin = header.find(digest_entry(expected->second));
    if (begin == std::string::npos || expected->second.size() != no_digest.size()) return false;
    header.replace(begin, digest_entry(no_digest).size(), digest_entry(no_digest));
    const std::uint64_t bytes = header_.tensors.empty() ? 0 : header_.tensors.back().end;
    const auto read = [&](std::uint64_t at, void* to, std::uint64_t count) { read_at(data_begin_ + at, to, count); };
    return digest_of_file(header, bytes, read) == expected->second;
}

void SafetensorsReader::read_at(std::uint64_t position, void* to, std::uint64_t bytes) const {
    auto* target = static_cast<char*>(to);
    while (bytes > 0) {
        const ssize_t got = pread(descriptor_, target, bytes, static_cast<off_t>(position));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw SafetensorsError(std::strerror(errno));
        if (got == 0) throw SafetensorsError("the file became shorter while it was read");
        target += got;
        position += static_cast<std::uint64_t>(got);
        bytes -= static_cast<std::uint64_t>(got);
    }
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::vector<StoredTensor> tensors,
                                     const Metadata& metadata)
    : file_(path) {
    arrange(tensors);
    const std::string header = header_text(tensors, metadata);
    if (header.size() > longest_header) throw std::runtime_error(path + ": more tensors than a header can hold");
    std::array<unsigned char, length_bytes> length{};
    for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<unsigned char>(header.size() >> (8 * i));
    file_.write_at(0, length.data(), length.size());
    file_.write_at(length_bytes, header.data(), header.size());
    data_begin_ = length_bytes + header.size();
    if (metadata.contains(file_digest_key)) header_ = header;
    for (StoredTensor& tensor : tensors) {
        data_bytes_ = tensor.end;
        const std::string name = tensor.name;
        if (!tensors_.emplace(name, std::move(tensor)).second) throw std::logic_error(name + ": declared twice");
    }
}

void SafetensorsWriter::write(const std::string& name, std::uint64_t offset, const void* data, std::uint64_t bytes) {
    const StoredTensor& tensor = tensors_.at(name);
    if (offset > tensor.bytes() || bytes > tensor.bytes() - offset) throw std::logic_error("write outside " + name);
    file_.write_at(data_begin_ + tensor.begin + offset, data, bytes);
    written_bytes_ += bytes;
}

void SafetensorsWriter::commit() {
    if (written_bytes_ != data_bytes_) throw std::logic_error("a tensor was declared but not written");
    if (!header_.empty()) {
        const auto read = [&](std::uint64_t at, void* to, std::uint64_t bytes) {
            file_.read_at(data_begin_ + at, to, bytes);
        };
        const std::string entry = digest_entry(digest_of_file(header_, data_bytes_, read));
        file_.write_at(length_bytes + header_.find(digest_entry(no_digest)), entry.data(), entry.size());
    }
    file_.commit();
}

}  // namespace tilewright::safetensors
