// config.json of a conversion: what stays quantised is described, all other bytes stay, and a broken one is refused
// first.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "safetensors/checkpoint_tests.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;
using Json = nlohmann::json;

/// One folder with one file.
std::string folder_of(const TemporaryFolder& folder, const std::vector<FileTensor>& tensors,
                      const std::string& config) {
    std::string in = folder.file("in");
    write_checkpoint(in, {tensors});
    test::write_file(in + "/config.json", config);
    return in;
}

std::string converted(const TemporaryFolder& folder, const std::string& config) {
    const std::string in = folder_of(folder, deepseek_v3(), config);
    std::filesystem::remove_all(folder.file("out"));
    convert(job(in, folder.file("out"), "mxfp8"));
    return test::read_file(folder.file("out") + "/config.json");
}

TEST(ConvertConfig, KeepsEveryOtherByte) {
    const TemporaryFolder folder;
    const std::string ours = R"({"quant_method":"tilewright","version":"test","recipe":"mxfp8"})";
    const std::string odd =
        R"("time_step_limit": [0.0, Infinity], "x" : [-Infinity,NaN , 1e400], "n":123456789012345678901234567890, )"
        "\"u\":\"\\ud800 \xc3\xa9\", \"f\": 1.10 ,\"twice\":1,\"twice\":2,";
    EXPECT_EQ(converted(folder, "{" + odd + "\"quantization_config\" : {\"a\": NaN}, \"z\": 0}"),
              "{" + odd + "\"quantization_config\" : " + ours + ", \"z\": 0}");
    EXPECT_EQ(converted(folder, "{" + odd + "\"quantization_config\":1, \"quantization_config\": null}"),
              "{" + odd + "\"quantization_config\":" + ours + ", \"quantization_config\": " + ours + "}");
    EXPECT_EQ(converted(folder, "{}"), "{\"quantization_config\": " + ours + "}");
    EXPECT_EQ(
        converted(folder, "{\"text_config\": {\"quantization_config\": {}, \"x\": NaN}, \"quantization_config\": {}}"),
        "{\"text_config\": {\"quantization_config\": " + ours + ", \"x\": NaN}, \"quantization_config\": " + ours +
            "}");
    EXPECT_EQ(converted(folder, "{\"compression_config\": {\"quant_method\": \"compressed-tensors\"}}"),
              "{\"compression_config\": " + ours + "}");
    EXPECT_EQ(converted(folder, "{\n  \"a\": Infinity\n}\n"),
              "{\n  \"a\": Infinity,\n  \"quantization_config\": {\n    \"quant_method\": \"tilewright\",\n"
              "    \"version\": \"test\",\n    \"recipe\": \"mxfp8\"\n  }\n}\n");
}

TEST(ConvertConfig, FailsBeforeAnythingIsWritten) {
    const TemporaryFolder folder;
    for (const char* config : {"", " ", "{", "[]", "null", "{\"a\": 1,}", "{\"a\": Inf}",
                               "{\"quantization_config\": {]}", "{\"a\": \"\xff\"}", "{} {}", "\xef\xbb\xbf{}"}) {
        const std::string in = folder_of(folder, deepseek_v3(), config);
        const std::string error = refusal(job(in, folder.file("out"), "mxfp8"));
        EXPECT_NE(error.find(in + "/config.json: not a JSON object that Python can read: byte "), std::string::npos)
            << config << ": " << error;
        EXPECT_FALSE(std::filesystem::exists(folder.file("out"))) << config;
    }
    const std::string in = folder_of(folder, deepseek_v3(), "{}");
    std::filesystem::remove(in + "/config.json");
    std::filesystem::create_symlink("nowhere", in + "/config.json");
    EXPECT_NE(refusal(job(in, folder.file("out"), "mxfp8")).find("config.json: a broken link"), std::string::npos);
    test::write_file(in + "/" + index_name, "{\"weight_map\": {\"x\": NaN}}");
    EXPECT_NE(refusal(job(in, folder.file("out"), "mxfp8")).find(index_name), std::string::npos);
    const std::string map = "\"weight_map\": {\"model.norm.weight\": \"model-1-of-1.safetensors";
    for (const std::string& index :
         {"{" + map + "\"}}" + std::string("\0", 1), "{" + map + "\"}}{}", "{" + map + "\\u0000\"}}"}) {
        test::write_file(in + "/" + index_name, index);
        EXPECT_NE(refusal(job(in, folder.file("out"), "mxfp8")).find(index_name), std::string::npos) << index;
    }
    EXPECT_FALSE(std::filesystem::exists(folder.file("out")));
    // A file on its own has no config.json.
    EXPECT_EQ(refusal(job(in + "/model-1-of-1.safetensors", folder.file("single"), "mxfp8")), "");
}

struct Case {
    std::string what;
    std::vector<FileTensor> tensors;
    std::string kept;  // names
};

/// Next to a matrix that is converted.
std::vector<Case> kept_cases() {
    const auto of = [](const std::string& name, const std::string& dtype, const std::vector<int>& shape) {
        return random_bytes(name, dtype, shape, 0, 100);
    };
    return {{"fused experts in FP8",
             {of("e.gate_up_proj", "F8_E4M3", {2, 64, 33}), floats("e.gate_up_proj_scale", {2, 1, 33}, {0.5F})},
             "e.gate_up_proj"},
            {"fused experts in NVFP4",
             {of("e.down_proj", "U8", {2, 64, 16}), of("e.down_proj_weight_scale", "F8_E4M3", {2, 64, 2}),
              floats("e.down_proj_weight_scale_2", {2}, {0.5F})},
             "e.down_proj"},
            {"e5m2", {of("P.weight", "F8_E5M2", {64, 64}), floats("P.weight_scale", {1}, {0.5F})}, "P.weight"},
            {"e5m2fnuz", {of("P.weight", "F8_E5M2FNUZ", {64, 64}), floats("P.weight_scale", {1}, {0.5F})}, "P.weight"},
            {"no scales", {of("P.q", "F8_E4M3", {64, 64})}, "P.q"},
            {"int8", {of("P.q", "I8", {64, 64}), floats("P.q_scale", {64, 1}, {0.5F})}, "P.q"},
            {"f6", {{"P.q", "F6_E2M3", {8, 4}, std::string(24, '\1')}}, "P.q"},
            {"a cache", {floats("a.k_scale", {1}, {0.5F}), floats("a.v_scale", {1}, {0.5F})}, "a.k_scale a.v_scale"},
            {"activations",
             {floats("model.layers.1.mlp.down_proj.input_scale", {1}, {0.5F})},
             "model.layers.1.mlp.down_proj.input_scale"}};
}

TEST(ConvertConfig, DescribesWhatStaysQuantised) {
    const TemporaryFolder folder;
    const std::string before = "{\"quant_method\" : \"fp8\", \"ignored_layers\": [\"lm_head\"], \"limit\": Infinity}";
    for (const Case& one : kept_cases()) {
        std::vector<FileTensor> tensors = deepseek_v3();
        tensors.insert(tensors.end(), one.tensors.begin(), one.tensors.end());
        const std::string in = folder_of(folder, tensors, "{\"quantization_config\": " + before + "}");
        std::filesystem::remove_all(folder.file("out"));
        ConvertJob some = job(in, folder.file("out"), "mxfp8");
        some.wanted = [](const std::string& name) { return name.find("layers.1.mlp.down_proj") != std::string::npos; };
        const ConvertResult result = convert(some);
        std::string names;
        for (const KeptTensors& kept : result.kept) names += (names.empty() ? "" : " ") + kept.name;
        EXPECT_EQ(names, one.kept) << one.what;
        std::string config = test::read_file(folder.file("out") + "/config.json");
        const std::size_t at = config.find(before);
        ASSERT_NE(at, std::string::npos) << one.what << ": " << config;  // byte for byte
        const Json kept = Json::parse(config.replace(at, before.size(), "{}"))["quantization_config"]["kept"];
        ASSERT_EQ(kept["tensors"].size(), result.kept.size()) << one.what;
        EXPECT_EQ(kept["tensors"][0]["name"], result.kept[0].name);
        EXPECT_TRUE(kept.contains("quantization_config")) << one.what;
        const Checkpoint input(in), output(folder.file("out"));
        for (const FileTensor& tensor : one.tensors) {
            EXPECT_EQ(bytes_of(output, tensor.name), tensor.bytes) << one.what;
            EXPECT_EQ(output.find(tensor.name)->stored.dtype, tensor.dtype) << one.what;
        }
    }
}

TEST(ConvertConfig, SaysWhyAndByPatternWhereAllAreAlike) {
    const TemporaryFolder folder;
    std::vector<FileTensor> tensors = deepseek_v3();
    for (const std::string layer : {"0", "1", "2"}) {
        const std::string name = "layers." + layer + ".q.weight";
        tensors.push_back(random_bytes(name, "U8", {64, 32}, 0, 255));
        tensors.push_back(random_bytes(name + "_scale", "F8_E4M3", {64, 4}, 8, 120));
        tensors.push_back(floats(name + "_scale_2", {}, {0.125F}));
    }
    const std::string in = folder_of(folder, tensors, "{\n  \"quantization_config\": {\"a\": 1}\n}");
    ConvertJob some = job(in, folder.file("out"), "mxfp8");
    some.wanted = [](const std::string& name) { return name.find("q.weight") == std::string::npos; };
    const ConvertResult all = convert(some);
    ASSERT_EQ(all.kept.size(), 1U);
    EXPECT_EQ(all.kept[0].name, "layers.*.q.weight");
    EXPECT_EQ(all.kept[0].count, 3U);
    EXPECT_EQ(all.kept[0].format, "nvfp4 [64, 64]");
    EXPECT_EQ(all.kept[0].scales, (std::vector<std::string>{"layers.*.q.weight_scale", "layers.*.q.weight_scale_2"}));
    EXPECT_EQ(all.kept[0].reason, "not chosen by --include and --exclude");
    some.output = folder.file("two");
    some.wanted = [](const std::string& name) { return name.find("layers.1.q") == std::string::npos; };
    EXPECT_EQ(convert(some).kept[0].name, "layers.1.q.weight");
    some.wanted = [](const std::string& name) { return name.find("layers.1.q") != std::string::npos; };
    some.output = folder.file("one");
    EXPECT_EQ(convert(some).kept.size(), 3U);  // two of a pattern that has three, and FP8
    ConvertJob packed = job(in, folder.file("packed"), nullptr);
    packed.pack = PackedFor::bf16;
    const ConvertResult fp8_stays = convert(packed);
    ASSERT_EQ(fp8_stays.kept.size(), 1U);
    EXPECT_EQ(fp8_stays.kept[0].reason, "only mxfp4 and nvfp4 can be packed; convert it with --to mxfp4");

    // Once more: what the first conversion says describes what it has converted and this one keeps.
    ConvertJob again = job(folder.file("out"), folder.file("again"), "mxfp4");
    again.wanted = [](const std::string& name) { return name.find("q.weight") != std::string::npos; };
    convert(again);
    const Json config = Json::parse(test::read_file(folder.file("again") + "/config.json"))["quantization_config"];
    EXPECT_EQ(config["recipe"], "mxfp4");
    EXPECT_EQ(config["kept"]["tensors"][0]["name"], "model.layers.1.mlp.down_proj.weight");
    EXPECT_EQ(config["kept"]["quantization_config"]["recipe"], "mxfp8");
    EXPECT_EQ(config["kept"]["quantization_config"]["kept"]["quantization_config"]["a"], 1);
}

TEST(ConvertConfig, HasWhatAnotherFileSaysOfTheQuantisation) {
    const TemporaryFolder folder;
    std::vector<FileTensor> tensors = deepseek_v3();
    tensors.push_back(random_bytes("P.weight", "F8_E5M2", {8, 8}, 0, 100));
    const std::string in = folder_of(folder, tensors, "{}");
    test::write_file(in + "/hf_quant_config.json", "{\"quantization\": {\"quant_algo\": \"MIXED_PRECISION\"}}\n");
    ConvertJob some = job(in, folder.file("out"), "mxfp8");
    some.wanted = [](const std::string& name) { return name != "P.weight"; };
    convert(some);
    EXPECT_FALSE(std::filesystem::exists(folder.file("out") + "/hf_quant_config.json"));
    const Json config = Json::parse(test::read_file(folder.file("out") + "/config.json"));
    EXPECT_EQ(config["quantization_config"]["kept"]["hf_quant_config.json"]["quantization"]["quant_algo"],
              "MIXED_PRECISION");
    test::write_file(in + "/hf_quant_config.json", "{");
    some.output = folder.file("y");
    EXPECT_NE(refusal(some).find("hf_quant_config.json: not valid JSON"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(folder.file("y")));
}

TEST(ConvertConfig, LeavesWhatStaysReadable) {
    const TemporaryFolder folder;
    std::vector<FileTensor> tensors = deepseek_v3();
    tensors.push_back(random_bytes("P.weight", "F8_E4M3", {128, 128}, 0, 100));
    tensors.push_back(floats("P.weight_scale_inv", {2, 2}, {0.5F, 1.0F, 2.0F, 4.0F}));
    const std::string in = folder_of(folder, tensors, R"({"quantization_config": {"weight_block_size": [64, 64]}})");
    const Checkpoint before(in);
    const std::vector<float> x = numbers(before, find(stored_matrices(before), "P.weight"));
    std::string input = in;
    for (const std::string name : {"first", "second"}) {
        ConvertJob some = job(input, folder.file(name), name == "first" ? "mxfp8" : "mxfp4");
        some.wanted = [](const std::string& one) { return one.find("down_proj") != std::string::npos; };
        convert(some);
        input = some.output;
        const Checkpoint after(input);
        EXPECT_EQ(numbers(after, find(stored_matrices(after), "P.weight")), x) << name;
    }
}

}  // namespace
}  // namespace tilewright::safetensors
