#include "safetensors/side_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>

#include "output/digest.h"
#include "output/file.h"

namespace tilewright::safetensors {
namespace {

namespace fs = std::filesystem;

// Files are copied by what they are known to be: a list of formats of weights would never be complete.
constexpr std::array copied_extensions{".json", ".jsonl", ".model", ".txt",  ".jinja", ".py",   ".md",  ".tiktoken",
                                       ".bpe",  ".vocab", ".spm",   ".yaml", ".yml",   ".toml", ".cfg", ".rst",
                                       ".html", ".pdf",   ".png",   ".jpg",  ".jpeg",  ".gif",  ".svg", ".webp"};
constexpr std::array weight_extensions{".safetensors", ".bin",  ".pt",   ".pth", ".gguf",  ".ggml", ".ckpt",
                                       ".h5",          ".onnx", ".npz",  ".npy", ".ot",    ".pkl",  ".msgpack",
                                       ".tflite",      ".nemo", ".exl2", ".pte", ".engine"};
// hf_quant_config.json is Model-Optimizer's, quantize_config.json that of GPTQ, quant_config.json that of AWQ.
constexpr std::array quantisation_names{"hf_quant_config.json", "quantize_config.json", "quant_config.json"};

template <class List>
bool has(const List& list, const std::string& text) {
    return std::ranges::find(list, text) != list.end();
}

std::string extension_of(const fs::path& name) {
    std::string extension = name.extension().string();
    for (char& letter : extension) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    return extension;
}

/// LICENSE, NOTICE, USE_POLICY; a version as in "Notice-1.5" is no extension.
bool has_no_extension(const std::string& extension) {
    return std::ranges::none_of(extension, [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; });
}

/// Why a file is not copied; empty if it is.
std::string reason_to_leave(const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    const std::string extension = extension_of(entry.path().filename());
    if (!fs::exists(entry.status())) throw SafetensorsError(entry.path().string() + ": a broken link");
    if (entry.is_directory()) return "a folder";
    if (!entry.is_regular_file()) return "not a regular file";
    if (name.starts_with('.')) return "hidden";
    if (extension == ".safetensors") return "not in the index";
    if (name.ends_with(".index.json")) return "the index of other weights";
    if (has(weight_extensions, extension)) return "weights of another format";
    if (has(quantisation_names, name))
        return "it describes how the input is quantized; config.json describes what is kept";
    return has(copied_extensions, extension) || has_no_extension(extension) ? "" : "of an unknown kind";
}

SideFile side_file(const fs::path& path) {
    return {.name = path.filename().string(),
            .path = path.string(),
            .bytes = fs::file_size(path),
            .digest = file_digest(path.string())};
}

/// Reads a file part by part.
template <class Take>
void read_parts(const std::string& path, const Take& take) {
    std::ifstream file(path, std::ios::binary);
    std::string part(std::size_t{1} << 20, '\0');
    while (file) {
        file.read(part.data(), static_cast<std::streamsize>(part.size()));
        take(part.data(), static_cast<std::size_t>(file.gcount()));
    }
    if (!file.eof()) throw SafetensorsError(path + ": cannot be read");
}

}  // namespace

std::string file_digest(const std::string& path) {
    output::Digest digest;
    read_parts(path, [&](const char* data, std::size_t bytes) { digest.add(data, bytes); });
    return digest.text();
}

void copy_side_file(const SideFile& file, const std::string& to) {
    output::OutputFile copy(to);
    output::Digest digest;
    read_parts(file.path, [&](const char* data, std::size_t bytes) {
        digest.add(data, bytes);
        copy.write(data, bytes);
    });
    if (digest.text() != file.digest) throw SafetensorsError(file.path + ": changed while it was read; run again");
    copy.commit();
}

SideFiles side_files(const Checkpoint& checkpoint) {
    std::set<std::string> read;
    for (const std::string& file : checkpoint.files()) read.insert(fs::path(file).filename().string());
    std::vector<fs::directory_entry> entries(fs::directory_iterator(checkpoint.folder()), {});
    std::ranges::sort(entries);
    SideFiles found;
    for (const fs::directory_entry& entry : entries) {
        const std::string name = entry.path().filename().string();
        if (read.contains(name) || name == record_name) continue;
        const std::string reason = reason_to_leave(entry);
        if (reason.empty()) {
            found.copied.push_back(side_file(entry.path()));
        } else {
            found.left.push_back({.name = name, .reason = reason});
        }
        if (has(quantisation_names, name) && entry.is_regular_file())
            found.quantisation.push_back(side_file(entry.path()));
    }
    return found;
}

}  // namespace tilewright::safetensors
