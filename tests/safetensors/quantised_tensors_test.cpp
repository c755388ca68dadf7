// Quantised tensors and their scales, under the names that quantisers write; and that `quantize` leaves them alone.
#include "safetensors/quantised_tensors.h"

#include <gtest/gtest.h>

#include "safetensors/checkpoint_tests.h"
#include "safetensors/quantize_file.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

/// "values: scales; " for each, of tensors given as "name dtype".
std::string found(const std::vector<std::pair<std::string, std::string>>& names) {
    std::vector<StoredTensor> tensors;
    for (const auto& [name, dtype] : names) tensors.push_back({.name = name, .dtype = dtype, .shape = {4, 4}});
    std::vector<const StoredTensor*> all;
    for (const StoredTensor& tensor : tensors) all.push_back(&tensor);
    std::string text;
    for (const QuantisedTensor& one : quantised_tensors(all)) {
        text += (one.values != nullptr ? one.values->name : "") + ":";
        for (const StoredTensor* scale : one.scales) text += " " + scale->name;
        text += ";";
    }
    return text;
}

TEST(QuantisedTensors, UnderTheNamesOfTheirQuantisers) {
    EXPECT_EQ(found({{"P.weight", "F8_E4M3"}, {"P.weight_scale_inv", "BF16"}, {"P.bias", "BF16"}}),
              "P.weight: P.weight_scale_inv;");
    EXPECT_EQ(found({{"P.weight", "F8_E4M3FNUZ"}, {"P.weight_scale", "F32"}, {"P.input_scale", "F32"}}),
              "P.weight: P.weight_scale P.input_scale;");
    EXPECT_EQ(found({{"P.weight", "U8"}, {"P.weight_scale", "F8_E4M3"}, {"P.weight_scale_2", "F32"}}),
              "P.weight: P.weight_scale P.weight_scale_2;");
    EXPECT_EQ(found({{"P.weight_packed", "I32"}, {"P.weight_scale", "BF16"}, {"P.weight_shape", "I64"}}),
              "P.weight_packed: P.weight_scale P.weight_shape;");
    EXPECT_EQ(found({{"P.qweight", "I32"}, {"P.qzeros", "I32"}, {"P.scales", "F16"}, {"P.g_idx", "I32"}}),
              "P.qweight: P.scales P.qzeros P.g_idx;");
    EXPECT_EQ(found({{"P.weight", "U8"},
                     {"P.weight.absmax", "F32"},
                     {"P.weight.quant_map", "F32"},
                     {"P.weight.quant_state.bitsandbytes__nf4", "U8"}}),
              "P.weight: P.weight.absmax P.weight.quant_map P.weight.quant_state.bitsandbytes__nf4;");
    EXPECT_EQ(found({{"P.weight", "I8"}, {"P.SCB", "F32"}}), "P.weight: P.SCB;");
    EXPECT_EQ(found({{"P.weight", "U32"}, {"P.scales", "BF16"}, {"P.biases", "BF16"}}), "P.weight: P.scales P.biases;");
    EXPECT_EQ(found({{"P.weight._data", "F8_E4M3"}, {"P.weight._scale", "BF16"}}), "P.weight._data: P.weight._scale;");
    EXPECT_EQ(found({{"e.gate_up_proj_blocks", "U8"},
                     {"e.gate_up_proj_scales", "U8"},
                     {"e.gate_up_proj_bias", "BF16"},
                     {"e.down_proj_blocks", "U8"},
                     {"e.down_proj_scales", "U8"}}),
              "e.down_proj_blocks: e.down_proj_scales;e.gate_up_proj_blocks: e.gate_up_proj_scales;");
    EXPECT_EQ(found({{"b.mlp1_weight.blocks", "U8"}, {"b.mlp1_weight.scales", "U8"}}),
              "b.mlp1_weight.blocks: b.mlp1_weight.scales;");
    EXPECT_EQ(
        found({{"e.gate_up_proj", "F8_E4M3"},
               {"e.gate_up_proj_scale_inv", "F32"},
               {"e.down_proj", "U8"},
               {"e.down_proj_weight_scale", "F8_E4M3"},
               {"e.down_proj_weight_scale_2", "F32"}}),
        "e.down_proj: e.down_proj_weight_scale e.down_proj_weight_scale_2;e.gate_up_proj: e.gate_up_proj_scale_inv;");
    EXPECT_EQ(found({{"X", "F4"}, {"X.scales", "F8_E4M3"}, {"X.tensor_scale", "F32"}, {"Y.packed", "U8"}}),
              "X: X.scales X.tensor_scale;Y.packed:;");
    EXPECT_EQ(
        found({{"a.k_scale", "F32"}, {"a.v_scale", "F32"}, {"w_2", "F8_E5M2"}, {"w_2_scale", "F32"}, {"w", "F8_E5M2"}}),
        ": a.k_scale;: a.v_scale;w:;w_2: w_2_scale;");
    EXPECT_EQ(found({{"P.weight", "F8_E4M3"}, {"P.qscale_weight", "F32"}, {"P.qscale_act", "F32"}}),
              "P.weight: P.qscale_weight P.qscale_act;");
    EXPECT_EQ(found({{"P.weight", "F8_E4M3"}, {"P.scale_weight", "F32"}, {"P.scale_input", "F32"}}),
              "P.weight: P.scale_weight P.scale_input;");
    EXPECT_EQ(found({{"P.weight", "U8"}, {"P.weight_quantizer.scale", "U8"}, {"P.input_quantizer._amax", "F32"}}),
              ": P.input_quantizer._amax;P.weight: P.weight_quantizer.scale;");
    EXPECT_EQ(found({{"P.weight_packed", "U8"}, {"Q.qweight", "I32"}, {"e.up_blocks", "U8"}}),
              "P.weight_packed:;Q.qweight:;e.up_blocks:;");
}

TEST(QuantisedTensors, AreNotIntegersAndNorms) {
    EXPECT_EQ(found({{"ids", "I32"}, {"mask", "U8"}, {"n.weight", "BF16"}, {"zeros", "F32"}, {"P.biases", "F32"}}), "");
    EXPECT_EQ(found({{"norm.scale", "BF16"}}), ": norm.scale;");
    EXPECT_FALSE(scales_activations("norm.scale") || scales_activations("logit_scale"));
    EXPECT_TRUE(scales_activations("a.k_scale") && scales_activations("a.input_global_scale"));
}

QuantizeResult quantised(const TemporaryFolder& folder, const std::vector<FileTensor>& tensors) {
    return quantize_file({.input = single(folder, tensors),
                          .output = folder.file("out.safetensors"),
                          .options = {.recipe = parse_operand_recipe("row").value()},
                          .wanted = [](const std::string&) { return true; },
                          .version = "1"});
}

void expect_copied_but_for(const std::string& before, const std::string& after, const std::string& quantised_one) {
    const Checkpoint input(before), output(after);
    for (const auto& [name, tensor] : input.tensors()) {
        ASSERT_NE(output.find(name), nullptr) << name;
        if (name == quantised_one) continue;
        EXPECT_EQ(output.find(name)->stored.dtype, tensor.stored.dtype) << name;
        EXPECT_EQ(bytes_of(output, name), bytes_of(input, name)) << name;
    }
    EXPECT_EQ(output.tensors().size(), input.tensors().size() + 1);
}

TEST(QuantisedTensors, AreCopiedByQuantizeAndListed) {
    const std::vector<std::vector<FileTensor>> files{
        {random_bytes("P.weight", "F8_E4M3", {200, 130}, 0, 120), floats("P.weight_scale_inv", {2, 2}, {0.5F})},
        {random_bytes("P.weight", "F8_E4M3", {64, 64}, 0, 120), floats("P.weight_scale", {64, 1}, {0.5F})},
        {random_bytes("P.qweight", "I32", {32}, 0, 255), floats("P.scales", {4, 8}, {0.5F}),
         random_bytes("P.qzeros", "I32", {2}, 0, 255)},
        {random_bytes("P.weight", "I8", {64, 64}, 0, 255), floats("P.weight_scale", {64, 1}, {0.5F})},
        {random_bytes("X", "F8_E5M2", {64, 256}, 0, 100), floats("X.scales", {64, 2}, {0.5F})},
        {random_bytes("P.weight", "U32", {16}, 0, 255), floats("P.scales", {4, 4}, {0.5F}),
         floats("P.biases", {4, 4}, {1.0F})},
        {random_bytes("e.up", "F8_E4M3", {2, 8, 8}, 0, 120), floats("e.up_scale_inv", {2, 1, 1}, {2.0F})}};
    for (std::vector<FileTensor> tensors : files) {
        for (FileTensor& tensor : tensors) {  // random_bytes counts elements of a byte
            const int width = tensor.dtype == "I32" || tensor.dtype == "U32" ? 4 : 1;
            if (width > 1) tensor.bytes = std::string(element_count(tensor.shape) * 4, '\x11');
        }
        const TemporaryFolder folder;
        tensors.push_back(floats("free.weight", {8, 8}, {1.0F, -2.0F}));
        const QuantizeResult result = quantised(folder, tensors);
        EXPECT_EQ(result.quantized, 1U) << tensors[0].name;
        ASSERT_EQ(result.kept.size(), 1U) << tensors[0].name;
        EXPECT_EQ(result.kept[0].name, tensors[0].name);
        EXPECT_NE(result.kept[0].reason.find("is quantised already; its scales: " + tensors[1].name), std::string::npos)
            << result.kept[0].reason;
        expect_copied_but_for(folder.file("model.safetensors"), folder.file("out.safetensors"), "free.weight");
    }
}

TEST(QuantisedTensors, OfAConversionAreCopiedByQuantize) {
    for (const char* recipe : {"128x128", "nvfp4", "1x128"}) {
        const TemporaryFolder folder;
        std::vector<FileTensor> tensors = deepseek_v3();
        tensors.push_back(floats("free.weight", {8, 8}, {1.0F, -2.0F}));
        convert(job(single(folder, tensors), folder.file("converted"), recipe));
        std::filesystem::rename(folder.file("converted"), folder.file("model.safetensors"));
        const QuantizeResult result = quantize_file({.input = folder.file("model.safetensors"),
                                                     .output = folder.file("out.safetensors"),
                                                     .options = {.recipe = parse_operand_recipe("mxfp8").value()},
                                                     .wanted = [](const std::string&) { return true; },
                                                     .version = "1"});
        EXPECT_EQ(result.quantized, 1U);
        expect_copied_but_for(folder.file("model.safetensors"), folder.file("out.safetensors"), "free.weight");
        EXPECT_FALSE(
            SafetensorsReader(folder.file("out.safetensors")).header().metadata.contains("tilewright.conversion"));
    }
}

TEST(QuantisedTensors, AloneAreRefusedByName) {
    const TemporaryFolder folder;
    try {
        quantised(folder,
                  {random_bytes("P.weight", "F8_E4M3", {64, 64}, 0, 120), floats("P.weight_scale", {64, 1}, {1.0F})});
        ADD_FAILURE();
    } catch (const std::runtime_error& error) {
        EXPECT_NE(std::string(error.what()).find("P.weight: F8_E4M3 [64, 64], already quantized"), std::string::npos)
            << error.what();
    }
    // A scale of nothing that is there, in the shape of a matrix.
    const QuantizeResult result =
        quantised(folder, {floats("a.k_scale", {4, 1}, {1.0F}), floats("free.weight", {8, 8}, {1.0F})});
    ASSERT_EQ(result.kept.size(), 1U);
    EXPECT_EQ(result.kept[0].name + ": " + result.kept[0].reason, "a.k_scale: it is named as a scale");
}

}  // namespace
}  // namespace tilewright::safetensors
