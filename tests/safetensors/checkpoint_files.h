// Small checkpoints as people publish them, written here without the library's own writer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "output/temporary_folder.h"

namespace tilewright::safetensors {

struct FileTensor {
    std::string name;
    std::string dtype;
    std::vector<int> shape;
    std::string bytes;
};

inline std::size_t element_count(const std::vector<int>& shape) {
    std::size_t count = 1;
    for (const int size : shape) count *= static_cast<std::size_t>(size);
    return count;
}

/// Bytes at random, from `least` to `most`.
inline FileTensor random_bytes(const std::string& name, const std::string& dtype, const std::vector<int>& shape,
                               int least, int most) {
    static std::mt19937 random(11);
    std::string bytes(element_count(shape), '\0');
    for (char& byte : bytes)
        byte = static_cast<char>(least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1)));
    return {name, dtype, shape, bytes};
}

inline FileTensor floats(const std::string& name, const std::vector<int>& shape, const std::vector<float>& values) {
    std::string bytes(element_count(shape) * 4, '\0');
    for (std::size_t i = 0; i < element_count(shape); ++i)
        std::memcpy(bytes.data() + i * 4, &values[i % values.size()], 4);
    return {name, "F32", shape, bytes};
}

/// The format as its README has it: a length, a header, the data.
inline void write_shard(const std::string& path, const std::vector<FileTensor>& tensors) {
    std::string header = "{";
    std::string data;
    for (const FileTensor& tensor : tensors) {
        header += (header.size() > 1 ? "," : "") +
                  ("\"" + tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[");
        for (std::size_t i = 0; i < tensor.shape.size(); ++i)
            header += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
        header += "],\"data_offsets\":[" + std::to_string(data.size()) + ",";
        data += tensor.bytes;
        header += std::to_string(data.size()) + "]}";
    }
    header += "}";
    std::string length(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 255);
    test::write_file(path, length + header + data);
}

/// A folder with an index and a configuration.
inline void write_checkpoint(const std::string& folder, const std::vector<std::vector<FileTensor>>& shards) {
    std::filesystem::create_directories(folder);
    std::string map;
    for (std::size_t i = 0; i < shards.size(); ++i) {
        const std::string name =
            "model-" + std::to_string(i + 1) + "-of-" + std::to_string(shards.size()) + ".safetensors";
        write_shard(folder + "/" + name, shards[i]);
        for (const FileTensor& tensor : shards[i])
            map += (map.empty() ? "" : ",") + ("\"" + tensor.name + "\":\"" + name + "\"");
    }
    test::write_file(folder + "/model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":{" + map + "}}");
    test::write_file(
        folder + "/config.json",
        "{\"model_type\":\"tiny\",\"quantization_config\":{\"quant_method\":\"before\"},\"hidden_size\":96}");
}

inline const std::string experts = "model.layers.0.mlp.experts.";

/// gpt-oss: two experts, k = 2880 / 30, up and gate together; the scales of one in the other file.
inline std::vector<std::vector<FileTensor>> gpt_oss() {
    return {{random_bytes(experts + "gate_up_proj_blocks", "U8", {2, 192, 3, 16}, 0, 255),
             random_bytes(experts + "down_proj_scales", "U8", {2, 96, 3}, 118, 124),
             floats(experts + "gate_up_proj_bias", {2, 192}, {1.0F, -2.5F})},
            {random_bytes(experts + "gate_up_proj_scales", "U8", {2, 192, 3}, 110, 127),
             random_bytes(experts + "down_proj_blocks", "U8", {2, 96, 3, 16}, 0, 255)}};
}

/// DeepSeek-V4: FP4 experts, and the rest in fp8 with powers of two for blocks of 128 x 128.
inline std::vector<std::vector<FileTensor>> deepseek_v4() {
    return {{random_bytes("layers.3.ffn.experts.0.w1.weight", "I8", {64, 48}, 0, 255),
             random_bytes("layers.3.ffn.experts.0.w1.scale", "F8_E8M0", {64, 3}, 120, 122),
             random_bytes("layers.3.attn.wq_a.weight", "F8_E4M3", {130, 200}, 0, 120)},
            {random_bytes("layers.3.ffn.experts.1.w1.weight", "I8", {64, 48}, 0, 255),
             random_bytes("layers.3.ffn.experts.1.w1.scale", "F8_E8M0", {64, 3}, 100, 122),
             random_bytes("layers.3.attn.wq_a.scale", "F8_E8M0", {2, 2}, 120, 122)}};
}

inline std::vector<FileTensor> deepseek_v3() {
    return {random_bytes("model.layers.1.mlp.down_proj.weight", "F8_E4M3", {200, 130}, 0, 120),
            floats("model.layers.1.mlp.down_proj.weight_scale_inv", {2, 2}, {0.25F, 1.5F, 2.0F, 0.01F}),
            floats("model.norm.weight", {130}, {1.0F})};
}

inline std::vector<FileTensor> compressed_tensors() {
    return {random_bytes("model.layers.0.q_proj.weight_packed", "U8", {64, 32}, 0, 255),
            random_bytes("model.layers.0.q_proj.weight_scale", "F8_E4M3", {64, 4}, 8, 120),
            floats("model.layers.0.q_proj.weight_global_scale", {1}, {896.0F}),
            floats("model.layers.0.q_proj.input_global_scale", {1}, {12.0F})};
}

inline std::vector<FileTensor> modelopt() {
    return {random_bytes("model.layers.0.q_proj.weight", "U8", {64, 32}, 0, 255),
            random_bytes("model.layers.0.q_proj.weight_scale", "F8_E4M3", {64, 4}, 8, 120),
            floats("model.layers.0.q_proj.weight_scale_2", {}, {0.125F}),
            floats("model.layers.0.q_proj.input_scale", {}, {12.0F})};
}

}  // namespace tilewright::safetensors
