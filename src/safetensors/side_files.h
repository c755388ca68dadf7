// The files of a checkpoint's folder that are not weights: a tokenizer's, a generation configuration, code, a licence.
// They are copied to the folder of a conversion. Files that are not copied are listed with the reason.
#pragma once

#include <string>
#include <vector>

#include "safetensors/convert.h"

namespace tilewright::safetensors {

struct SideFile {
    std::string name{};
    std::string path{};
    std::uint64_t bytes = 0;
    std::string digest{};  // output::digest_of its bytes
};

struct SideFiles {
    std::vector<SideFile> copied{};
    std::vector<FileAndReason> left{};
    /// Not copied, because they describe the quantization of the input. config.json of the output describes the
    /// output's.
    std::vector<SideFile> quantisation{};
};

/// By name. Links are followed. Throws SafetensorsError for a file that cannot be read.
SideFiles side_files(const Checkpoint& checkpoint);

/// output::digest_of the bytes of a file. Throws SafetensorsError where it cannot be read.
std::string file_digest(const std::string& path);

/// Copies the bytes. Throws SafetensorsError if they no longer have the digest.
void copy_side_file(const SideFile& file, const std::string& to);

/// The file by which a later run recognises the files of this one (output_folder.h).
inline constexpr const char* record_name = "tilewright.conversion.json";

}  // namespace tilewright::safetensors
