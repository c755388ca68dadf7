// Checkpoints in a published format: the tensors and the description that engines look up, what is refused, and which
// checkpoints engines load.
#include "safetensors/published_format.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "safetensors/checkpoint_tests.h"
#include "safetensors/engines.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;
using Json = nlohmann::json;

const std::string file_name = "model-1-of-1.safetensors";

ConvertJob published_job(const std::string& in, const std::string& out, PublishedFormat format) {
    ConvertJob made = job(in, out, nullptr);
    made.published = format;
    return made;
}

std::string folder_to_publish(
    const TemporaryFolder& folder, const std::vector<FileTensor>& tensors,
    const std::string& config = "{\"quantization_config\": {\"quant_method\": \"modelopt\"}}") {
    std::string in = folder.file("in");
    std::filesystem::remove_all(in);
    std::filesystem::remove_all(folder.file("out"));
    write_checkpoint(in, {tensors});
    test::write_file(in + "/config.json", config);
    return in;
}

std::vector<FileTensor> with(std::vector<FileTensor> tensors, const std::vector<FileTensor>& more) {
    tensors.insert(tensors.end(), more.begin(), more.end());
    return tensors;
}

Json description_of(const std::string& folder) {
    return Json::parse(test::read_file(folder + "/config.json")).at("quantization_config");
}

std::string words_of(const std::string& path) {
    const Checkpoint checkpoint(path);
    return engine_words(checkpoint, stored_matrices(checkpoint));
}

/// The rules of `published_format.h` for FP4 weights, and the numbers.
TEST(PublishedFormat, Fp8HasTheNamesAndTheDescriptionOfDeepSeek) {
    const TemporaryFolder folder;
    const std::string out = folder.file("out"), name = "model.layers.0.q_proj.weight";
    const std::string in = folder_to_publish(
        folder, with(modelopt(), {floats("lm_head.weight", {8, 8}, {1.0F}), floats("e.bias", {2, 4}, {1.0F})}));
    EXPECT_EQ(words_of(in),
              "none: " + name +
                  " is nvfp4 by the names of modelopt. `tilewright convert --as fp8` writes one that they "
                  "load");
    const ConvertResult result = convert(published_job(in, out, PublishedFormat::fp8));
    EXPECT_EQ(result.matrices.at(0).to, "128x128");
    EXPECT_EQ(description_of(out), Json::parse(R"({"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
        "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]})"));
    const Checkpoint after(out);
    EXPECT_EQ(after.find(name)->stored.dtype, "F8_E4M3");
    EXPECT_EQ(after.find(name)->stored.shape, (std::vector<std::uint64_t>{64, 64}));
    EXPECT_EQ(after.find(name + "_scale_inv")->stored.dtype, "F32");
    EXPECT_EQ(after.find(name + "_scale_inv")->stored.shape, (std::vector<std::uint64_t>{1, 1}));
    EXPECT_EQ(after.find(name + ".scales"), nullptr);
    EXPECT_EQ(after.find("model.layers.0.q_proj.input_scale"), nullptr);
    const StoredMatrices found = stored_matrices(after);
    EXPECT_EQ(find(found, name).scheme, "deepseek");
    EXPECT_EQ(words_of(out), "transformers, vLLM and SGLang, and callers of deep_gemm");
    // The numbers are those of `--to 128x128`.
    convert(job(in, folder.file("own"), "128x128"));
    const Checkpoint own(folder.file("own"));
    EXPECT_EQ(numbers(after, find(found, name)), numbers(own, find(stored_matrices(own), name)));
}

TEST(PublishedFormat, Mxfp4IsGptOssAgain) {
    const TemporaryFolder folder;
    const std::string first = folder.file("first"), own = folder.file("own"), out = folder.file("out");
    write_checkpoint(first, gpt_oss());
    test::write_file(first + "/config.json", "{\"quantization_config\": {\"quant_method\": \"mxfp4\"}}");
    EXPECT_EQ(words_of(first), "transformers, vLLM and SGLang");
    convert(job(first, own, "mxfp4"));
    EXPECT_NE(words_of(own).find("none: "), std::string::npos);
    EXPECT_NE(words_of(own).find(" has the names of Tilewright's own programs"), std::string::npos) << words_of(own);
    const ConvertResult result = convert(published_job(own, out, PublishedFormat::mxfp4));
    for (const ConvertedMatrix& matrix : result.matrices) EXPECT_EQ(matrix.error, 0);
    const Checkpoint before(first), after(out);
    EXPECT_EQ(after.tensors().size(), before.tensors().size());
    for (const auto& [name, tensor] : before.tensors()) {
        ASSERT_NE(after.find(name), nullptr) << name;
        EXPECT_EQ(after.find(name)->stored.dtype, tensor.stored.dtype) << name;
        EXPECT_EQ(after.find(name)->stored.shape, tensor.stored.shape) << name;
        EXPECT_EQ(bytes_of(after, name), bytes_of(before, name)) << name;
    }
    EXPECT_EQ(description_of(out).at("quant_method"), "mxfp4");
    EXPECT_FALSE(description_of(out).contains("weight_block_size"));
    EXPECT_EQ(words_of(out), "transformers, vLLM and SGLang");
}

TEST(PublishedFormat, RefusesWhatAnEngineWouldReadOtherwise) {
    const TemporaryFolder folder;
    const std::string out = folder.file("out");
    const auto refused = [&](const std::vector<FileTensor>& tensors, PublishedFormat format) {
        std::string error = refusal(published_job(folder_to_publish(folder, tensors), out, format));
        EXPECT_FALSE(std::filesystem::exists(out)) << error;
        return error;
    };
    EXPECT_EQ(refused(with(modelopt(), {floats("a.k_scale", {1}, {0.5F})}), PublishedFormat::fp8),
              "--as fp8: got a.k_scale that stays F32 [1] (it scales activations or a cache, or is not needed for the "
              "weights); expected that all quantized tensors are converted. One description in config.json holds for "
              "all of them.");
    const std::vector<FileTensor> by_columns{random_bytes("e.gate_up_proj", "F8_E4M3", {2, 64, 33}, 0, 100),
                                             floats("e.gate_up_proj_scale", {2, 1, 33}, {0.5F})};
    EXPECT_EQ(
        refused(by_columns, PublishedFormat::fp8),
        "--as fp8: got e.gate_up_proj [2, 33, 64], stored as [experts, k, n]; expected experts [experts, n, k] in "
        "the input too.");
    EXPECT_EQ(refused(modelopt(), PublishedFormat::mxfp4),
              "--as mxfp4: got model.layers.0.q_proj.weight [64, 64]; expected experts of a layer in one tensor "
              "[experts, n, k], as gpt-oss has them.");
    const std::vector<FileTensor> odd{random_bytes("e.down_proj", "F8_E4M3", {2, 64, 48}, 0, 100),
                                      floats("e.down_proj_scale", {2, 64, 1}, {0.5F})};
    EXPECT_EQ(refused(odd, PublishedFormat::mxfp4),
              "--as mxfp4: got e.down_proj [2, 64, 48]; expected k of a multiple of 32.");
}

TEST(PublishedFormat, IsPartOfTheRecordOfAFile) {
    const TemporaryFolder folder;
    const std::string in = folder_to_publish(folder, deepseek_v3()), out = folder.file("out");
    convert(job(in, out, "128x128"));
    const ConvertResult again = convert(published_job(in, out, PublishedFormat::fp8));
    ASSERT_EQ(again.made_again.size(), 1U);
    EXPECT_EQ(convert(published_job(in, out, PublishedFormat::fp8)).kept_files, std::vector<std::string>{file_name});
}

TEST(Engines, ReadOneFormatAsConfigJsonDeclaresIt) {
    const TemporaryFolder folder;
    EXPECT_EQ(words_of(folder_to_publish(folder, {floats("a.weight", {8, 8}, {1.0F})}, "{}")),
              "transformers, which quantizes the experts; nothing is quantized here");
    EXPECT_EQ(
        words_of(folder_to_publish(folder, deepseek_v3(), "{}")),
        "none: quant_method is '' in config.json, and they expect 'fp8'. `tilewright convert --as fp8` writes one "
        "that they load");
    const std::string fp8 = "{\"quantization_config\": {\"quant_method\": \"fp8\"}}";
    EXPECT_EQ(words_of(folder_to_publish(folder, deepseek_v3(), fp8)),
              "transformers, vLLM and SGLang, and callers of deep_gemm");
    EXPECT_EQ(words_of(folder_to_publish(folder, with(deepseek_v3(), modelopt()), fp8)).find("none: model.layers."),
              0U);
    const std::string v4 = folder.file("v4");
    write_checkpoint(v4, deepseek_v4());
    test::write_file(v4 + "/config.json", fp8);
    EXPECT_EQ(words_of(v4), "transformers, vLLM and SGLang");
    std::vector<FileTensor> broken = deepseek_v3();
    broken.erase(broken.begin() + 1);
    EXPECT_EQ(words_of(folder_to_publish(folder, broken, fp8)), "none: 1 matrices cannot be read");
}

}  // namespace
}  // namespace tilewright::safetensors
