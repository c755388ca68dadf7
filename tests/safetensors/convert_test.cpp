// Converting checkpoints: to other formats, packed, in several runs, and never over the input.
#include "safetensors/convert.h"

#include <gtest/gtest.h>

#include <cmath>

#include "safetensors/checkpoint_tests.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

TEST(Convert, MxfpCheckpointsToEveryFormat) {
    const TemporaryFolder folder;
    write_checkpoint(folder.file("in"), gpt_oss());
    const Checkpoint before(folder.file("in"));
    const StoredMatrices old = stored_matrices(before);
    for (const char* recipe : {"mxfp4", "mxfp8", "128x128", "nvfp4"}) {
        const std::string output = folder.file(std::string("to-") + recipe);
        const ConvertResult result = convert(job(folder.file("in"), output, recipe));
        EXPECT_EQ(result.matrices.size(), 2U);
        const Checkpoint after(output);
        EXPECT_EQ(after.shards().size(), 2U);
        const StoredMatrices found = stored_matrices(after);
        for (const ConvertedMatrix& converted : result.matrices) {
            const StoredMatrix& matrix = find(found, converted.name);
            EXPECT_EQ(name(matrix.recipe), recipe);
            const std::vector<float> x = numbers(before, find(old, converted.name));
            const std::vector<float> y = numbers(after, matrix);
            double errors = 0;
            double squares = 0;
            for (std::size_t i = 0; i < x.size(); ++i) {
                errors += (double{y[i]} - x[i]) * (double{y[i]} - x[i]);
                squares += double{x[i]} * x[i];
            }
            EXPECT_NEAR(converted.error, std::sqrt(errors / squares), 1e-12) << recipe;
            if (recipe == std::string("mxfp4") || recipe == std::string("mxfp8")) {
                EXPECT_EQ(converted.error, 0) << recipe;
            }
        }
    }
}

TEST(Convert, PacksAndUnpacksBitForBit) {
    const TemporaryFolder folder;
    write_checkpoint(folder.file("in"), gpt_oss());
    ConvertJob packing = job(folder.file("in"), folder.file("packed"), nullptr);
    packing.pack = PackedFor::bf16;
    convert(packing);
    convert(job(folder.file("packed"), folder.file("back"), "mxfp4"));
    const Checkpoint before(folder.file("in"));
    const Checkpoint packed(folder.file("packed"));
    const Checkpoint after(folder.file("back"));
    EXPECT_NE(packed.find(experts + "down_proj.packed"), nullptr);
    EXPECT_EQ(bytes_of(after, experts + "down_proj"), bytes_of(before, experts + "down_proj_blocks"));
    EXPECT_EQ(bytes_of(after, experts + "down_proj.scales"), bytes_of(before, experts + "down_proj_scales"));
    EXPECT_EQ(bytes_of(after, experts + "gate_up_proj_bias"), bytes_of(before, experts + "gate_up_proj_bias"));
    EXPECT_EQ(after.config(),
              "{\"model_type\":\"tiny\",\"quantization_config\":{\"quant_method\":\"tilewright\",\"version\":\"test\","
              "\"recipe\":\"mxfp4\"},\"hidden_size\":96}");
}

TEST(Convert, TakesAFolderWithOneFileAndNoIndex) {
    const TemporaryFolder folder;
    const std::string in = folder.file("in"), out = folder.file("out");
    std::filesystem::create_directories(in);
    write_shard(in + "/model.safetensors", deepseek_v3());
    test::write_file(in + "/config.json", "{\"hidden_size\": 96}");
    EXPECT_EQ(convert(job(in, out, "mxfp4")).matrices.size(), 1U);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(out), {}), 3);
    const Checkpoint after(out);
    EXPECT_EQ(name(find(stored_matrices(after), "model.layers.1.mlp.down_proj.weight").recipe), "mxfp4");
    EXPECT_NE(after.config().find("\"quant_method\":\"tilewright\""), std::string::npos) << after.config();
    EXPECT_NE(after.config().find("\"hidden_size\": 96"), std::string::npos) << after.config();
    EXPECT_EQ(convert(job(in, out, "mxfp4")).kept_files.size(), 1U);
    EXPECT_NE(refusal(job(in, in, "mxfp4")).find("is the input itself"), std::string::npos);
}

TEST(Convert, KeepsFilesOfAnEarlierRun) {
    const TemporaryFolder folder;
    write_checkpoint(folder.file("in"), deepseek_v4());
    const ConvertJob first = job(folder.file("in"), folder.file("out"), "mxfp8");
    EXPECT_TRUE(convert(first).kept_files.empty());
    EXPECT_EQ(convert(first).kept_files.size(), 2U);
    std::filesystem::remove(folder.file("out") + "/model-1-of-2.safetensors");
    const ConvertResult again = convert(first);
    EXPECT_EQ(again.kept_files, std::vector<std::string>{"model-2-of-2.safetensors"});
    EXPECT_EQ(Checkpoint(folder.file("out")).shards().size(), 2U);
    EXPECT_TRUE(convert(job(folder.file("in"), folder.file("out"), "nvfp4")).kept_files.empty());
}

TEST(Convert, RefusesOutputsThatWouldLoseSomething) {
    const TemporaryFolder folder;
    write_checkpoint(folder.file("in"), deepseek_v4());
    const std::string file = single(folder, deepseek_v3());
    EXPECT_NE(refusal(job(folder.file("in"), folder.file("in"), "mxfp8")).find("is the input itself"),
              std::string::npos);
    EXPECT_NE(refusal(job(file, file, "mxfp8")).find("is the input itself"), std::string::npos);
    EXPECT_NE(refusal(job(file, "/dev/null", "mxfp8")).find("not a regular file"), std::string::npos);
    EXPECT_NE(refusal(job(folder.file("in"), file, "mxfp8")).find("not a folder"), std::string::npos);
    const auto bare = std::vector<FileTensor>{floats("x", {4, 4}, {1.0F})};
    const std::string unquantised = folder.file("bare.safetensors");
    write_shard(unquantised, bare);
    EXPECT_NE(refusal(job(unquantised, folder.file("y"), "mxfp8")).find("no matrix to convert"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(folder.file("y")));
}

TEST(Convert, KeepsCodesAndScalesThatTheNewFormatHasToo) {
    const TemporaryFolder folder;
    // All e2m1 codes, with the smallest, the largest and the scale that is NaN: f32 has no room for 6 * 2^127.
    std::string codes;
    for (int i = 0; i < 3 * 16; ++i) codes += static_cast<char>(i % 8 * 2 | (i % 8 * 2 + 1) << 4);
    const std::string file = single(folder, {{"w.weight", "I8", {1, 48}, codes},
                                             {"w.scale", "F8_E8M0", {1, 3}, std::string("\0\xFE\xFF", 3)},
                                             random_bytes("v.weight", "F8_E4M3", {130, 130}, 0, 126),
                                             {"v.scale", "F8_E8M0", {2, 2}, std::string("\0\x7F\xFD\xFF", 4)}});
    const std::string e4m3("\x00\x30\x38\x3C\x40\x44\x48\x4C\x80\xB0\xB8\xBC\xC0\xC4\xC8\xCC", 16);
    for (const bool round_up : {false, true}) {
        ConvertJob mxfp8 = job(file, folder.file("mxfp8"), "mxfp8");
        mxfp8.round_up = round_up;
        mxfp8.wanted = [](const std::string& name) { return name == "w.weight"; };
        EXPECT_EQ(convert(mxfp8).matrices[0].error, 0);
        const Checkpoint after(folder.file("mxfp8"));
        EXPECT_EQ(bytes_of(after, "w.weight"), e4m3 + e4m3 + e4m3 + e4m3 + e4m3 + e4m3);
        EXPECT_EQ(bytes_of(after, "w.weight.scales"), std::string("\0\xFE\xFF", 3));
    }
    ConvertJob wide = job(file, folder.file("wide"), "128x128");
    wide.wanted = [](const std::string& name) { return name == "v.weight"; };
    EXPECT_EQ(convert(wide).matrices[0].error, 0);
    const Checkpoint after(folder.file("wide"));
    EXPECT_EQ(bytes_of(after, "v.weight"), bytes_of(Checkpoint(file), "v.weight"));
    float scales[4];
    std::memcpy(scales, bytes_of(after, "v.weight.scales").data(), sizeof scales);
    EXPECT_EQ(scales[0], 0x1p-127F);
    EXPECT_EQ(scales[1], 1.0F);
    EXPECT_EQ(scales[2], 0x1p126F);
    EXPECT_TRUE(std::isnan(scales[3]));
}

TEST(Convert, RefusesToMakeNumbersNaN) {
    const TemporaryFolder folder;
    const std::string out = folder.file("out");
    const auto expect = [&](const std::vector<FileTensor>& tensors, const char* recipe, const std::string& said) {
        const std::string error = refusal(job(single(folder, tensors), out, recipe));
        EXPECT_NE(error.find(said), std::string::npos) << recipe << ": " << error;
        EXPECT_FALSE(std::filesystem::exists(out));
    };
    const std::vector<FileTensor> large{{"w.weight", "I8", {2, 32}, std::string(64, '\x77')},
                                        {"w.scale", "F8_E8M0", {2, 2}, std::string("\x7F\xFE\x7F\x7F", 4)}};
    // All of the tensor's or row's amax is infinite, but for that the finite ones of other blocks stay.
    expect(large, "128x128", "w.weight: 32 finite numbers of 128 would become NaN or infinite");
    expect(large, "nvfp4", "w.weight: 32 finite numbers of 128 would become NaN or infinite");
    const std::vector<FileTensor> fp8{{"w.weight", "F8_E4M3", {1, 64}, std::string(32, '\x7E') + std::string(32, '\1')},
                                      floats("w.weight_scale_inv", {1, 1}, {2e36F})};
    expect(fp8, "mxfp4", "w.weight: 32 finite numbers of 64 would become NaN or infinite as 128x128 is made mxfp4");
    // e2m1 has no NaN, so that a block's scale is, and 31 numbers are lost.
    std::string nan(64, '\x38');
    nan[3] = '\x7F';
    const std::vector<FileTensor> one_nan{{"w.weight", "F8_E4M3", {1, 64}, nan},
                                          floats("w.weight_scale_inv", {1, 1}, {1.0F})};
    expect(one_nan, "mxfp4", "w.weight: 31 finite numbers of 64");
    EXPECT_EQ(convert(job(single(folder, one_nan), out, "mxfp8")).matrices[0].error, 0);
}

TEST(Convert, SaysThatNumbersTooSmallForF32AreLost) {
    const TemporaryFolder folder;
    const std::vector<FileTensor> tiny{{"w.weight", "F8_E4M3", {1, 64}, std::string(64, '\1')},
                                       floats("w.weight_scale_inv", {1, 1}, {1e-45F})};
    EXPECT_EQ(convert(job(single(folder, tiny), folder.file("out"), "mxfp4")).matrices[0].error, 1);
}

TEST(Convert, RefusesWhatItWouldCopyAsAnotherFormat) {
    const TemporaryFolder folder;
    std::vector<FileTensor> tensors = deepseek_v3();
    tensors.push_back(random_bytes("model.layers.1.mlp.up_proj.weight", "F8_E4M3", {200, 130}, 0, 120));
    const std::string file = single(folder, tensors);
    ConvertJob broken = job(file, folder.file("out"), "mxfp4");
    const std::string error = refusal(broken);
    EXPECT_NE(error.find("1 matrices cannot be read"), std::string::npos) << error;
    EXPECT_NE(error.find("\n  model.layers.1.mlp.up_proj.weight: got F8_E4M3 [200, 130] without scales"),
              std::string::npos)
        << error;
    EXPECT_FALSE(std::filesystem::exists(folder.file("out")));
    broken.wanted = [](const std::string& name) { return name.find("up_proj") == std::string::npos; };
    EXPECT_EQ(convert(broken).matrices.size(), 1U);
}

TEST(Convert, RefusesWeightsPackedByAnotherVersion) {
    const TemporaryFolder folder;
    write_checkpoint(folder.file("in"), deepseek_v4());
    ConvertJob packing = job(folder.file("in") + "/model-1-of-2.safetensors", folder.file("packed"), nullptr);
    packing.pack = PackedFor::fp8;
    const std::string scale_of_other_file = refusal(packing);
    EXPECT_NE(scale_of_other_file.find("layers.3.attn.wq_a.weight: got F8_E4M3 [130, 200] without scales"),
              std::string::npos)
        << scale_of_other_file;
    packing.wanted = [](const std::string& name) { return name.find("experts") != std::string::npos; };
    convert(packing);
    std::string bytes = test::read_file(folder.file("packed"));
    const std::size_t version = bytes.find("TWPACKED") + 8;
    ASSERT_EQ(bytes[version], packed_version);
    bytes[version] = packed_version - 1;
    test::write_file(folder.file("packed"), bytes);
    const std::string error = refusal(job(folder.file("packed"), folder.file("out"), "mxfp4"));
    EXPECT_NE(error.find("layers.3.ffn.experts.0.w1.weight.packed: got layout version 2; expected version 3. Pack the "
                         "weights again with this version of Tilewright."),
              std::string::npos)
        << error;
}

TEST(Convert, WritesNothingWhereAnyFileWouldReplaceTheInputsOrNoFile) {
    const TemporaryFolder folder;
    const std::string in = folder.file("in");
    write_checkpoint(in, deepseek_v4());
    const auto before = contents(in);
    const std::string shard = "model-2-of-2.safetensors";
    const std::vector<std::pair<std::string, std::string>> cases{{shard, in + "/" + shard},
                                                                 {shard, in + "/config.json"},
                                                                 {config_name, in + "/" + shard},
                                                                 {index_name, in + "/" + index_name},
                                                                 {shard, "/dev/null"},
                                                                 {config_name, "/dev/null"},
                                                                 {shard, folder.path().string()},
                                                                 {shard, folder.file("out/model-1-of-2.safetensors")},
                                                                 {shard, folder.file("circle")}};
    std::filesystem::create_symlink("circle", folder.file("circle"));
    for (const auto& [name, target] : cases) {
        const std::string out = folder.file("out");
        std::filesystem::create_directory(out);
        std::filesystem::create_symlink(target, out + "/" + name);
        const std::string error = refusal(job(in, out, "mxfp8"));
        EXPECT_EQ(error.rfind(out + "/" + name + ": ", 0), 0U) << name << " -> " << target << ": " << error;
        EXPECT_EQ(contents(in), before);
        EXPECT_EQ(std::distance(std::filesystem::directory_iterator(out), {}), 1) << name << " -> " << target;
        std::filesystem::remove_all(out);
    }
    std::filesystem::create_directory(folder.file("out"));
    std::filesystem::create_hard_link(in + "/" + shard, folder.file("out/" + shard));
    EXPECT_NE(refusal(job(in, folder.file("out"), "mxfp8")).find("is the input itself"), std::string::npos);
    EXPECT_NE(refusal(job(in + "/model-1-of-2.safetensors", in + "/config.json", "mxfp8")).find("is the input itself"),
              std::string::npos);
    EXPECT_EQ(contents(in), before);
}

}  // namespace
}  // namespace tilewright::safetensors
