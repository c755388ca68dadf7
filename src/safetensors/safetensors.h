// Reads and writes safetensors files, tensor by tensor or part by part, never the whole file at once.
//
// The format (huggingface/safetensors, README):
// - 8 bytes, little endian: the header's length.
// - The header, a JSON object:
//   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__": {"word": "word"}}
// - The data, which the tensors cover without holes or overlaps.
//
// Files that contradict this are refused.
#pragma once

#include <tilewright/formats.h>

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "output/file.h"

namespace tilewright::safetensors {

/// The file violates the format; `what` names file, tensor and reason.
class SafetensorsError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct StoredTensor {
    std::string name{};
    std::string dtype{};  // "F32", "F8_E4M3", ...
    std::vector<std::uint64_t> shape{};
    std::uint64_t begin = 0;  // bytes from the beginning of the data
    std::uint64_t end = 0;

    std::uint64_t bytes() const { return end - begin; }
};

using Metadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
    std::vector<StoredTensor> tensors{};  // in the order of their data
    Metadata metadata{};
};

/// Bits of an element; nothing for an unknown dtype. F4 is packed, low nibble first; its shape counts elements.
std::optional<int> dtype_bits(std::string_view dtype);

/// The format with the same codes ("F8_E4M3" -> e4m3), where Tilewright has one that values can be quantized from or
/// to.
std::optional<Format> format_of(std::string_view dtype);

/// The inverse; ue4m3 is stored as F8_E4M3, whose non-negative half it is.
std::string dtype_of(Format format);

/// The number of elements and the number of bytes of a tensor; nothing if they exceed 64 bits or do not fill whole
/// bytes.
std::optional<std::uint64_t> stored_bytes(std::string_view dtype, const std::vector<std::uint64_t>& shape);

/// Parses and checks a header against the size of the data that follows it. Throws SafetensorsError without a file
/// name.
SafetensorsHeader parse_header(std::string_view json, std::uint64_t data_bytes);

/// Which file, as its file system knows it: another one, or one that was written to, differs.
struct FileIdentity {
    std::uint64_t bytes = 0;
    std::uint64_t inode = 0;
    std::int64_t modified = 0;  // nanoseconds, as st_mtim
    std::int64_t changed = 0;   // as st_ctim, which no program can set

    bool operator==(const FileIdentity&) const = default;
};

/// The metadata that has the digest of the file, where the writer was asked for it.
inline constexpr const char* file_digest_key = "tilewright.digest";

class SafetensorsReader {
public:
    /// Throws SafetensorsError, also when the file cannot be opened.
    explicit SafetensorsReader(const std::string& path);
    ~SafetensorsReader();
    SafetensorsReader(const SafetensorsReader&) = delete;
    SafetensorsReader& operator=(const SafetensorsReader&) = delete;

    const SafetensorsHeader& header() const { return header_; }
    /// output::digest_of the header's text.
    const std::string& header_digest() const { return header_digest_; }
    /// The identity of the open file, in its present state.
    FileIdentity identity() const;

    /// Reads all data. Whether the file is the one that was written, by `file_digest_key`; false where that is missing.
    bool is_as_written() const;

    /// Copies `bytes` of the tensor's data, from `offset` on, to `to`.
    void read(const StoredTensor& tensor, std::uint64_t offset, void* to, std::uint64_t bytes) const;

private:
    void read_at(std::uint64_t position, void* to, std::uint64_t bytes) const;

    std::string path_;
    int descriptor_ = -1;
    std::uint64_t data_begin_ = 0;
    SafetensorsHeader header_;
    std::string header_digest_;
};

/// Writes a file whose tensors are all declared in advance; their data may come in any order. `commit` gives the file
/// its name. If the metadata has `file_digest_key`, its value is replaced by the digest of the file.
class SafetensorsWriter {
public:
    /// `begin` and `end` of the tensors are set here. Tensors with wide elements come first, so that all are aligned.
    SafetensorsWriter(const std::string& path, std::vector<StoredTensor> tensors, const Metadata& metadata);

    /// Throws std::logic_error for an unknown name or a range outside the tensor.
    void write(const std::string& name, std::uint64_t offset, const void* data, std::uint64_t bytes);

    /// Throws std::logic_error when some data was never written.
    void commit();

    std::uint64_t file_bytes() const { return data_begin_ + data_bytes_; }

private:
    output::OutputFile file_;
    std::map<std::string, StoredTensor> tensors_;
    std::uint64_t data_begin_ = 0;
    std::uint64_t data_bytes_ = 0;
    std::uint64_t written_bytes_ = 0;
    std::string header_;  // empty: no digest is asked for
};

}  // namespace tilewright::safetensors
