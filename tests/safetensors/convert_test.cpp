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
    const auto bytes = [](const Checkpoint& checkpoint, const std::string& name) {
        const Checkpoint::Tensor* tensor = checkpoint.find(name);
        std::string data(tensor->stored.bytes(), '\0');
        checkpoint.read(*tensor, 0, data.data(), data.size());
        return data;
    };
    EXPECT_EQ(bytes(after, experts + "down_proj"), bytes(before, experts + "down_proj_blocks"));
    EXPECT_EQ(bytes(after, experts + "down_proj.scales"), bytes(before, experts + "down_proj_scales"));
    EXPECT_EQ(bytes(after, experts + "gate_up_proj_bias"), bytes(before, experts + "gate_up_proj_bias"));
    EXPECT_NE(after.config().find("\"quant_method\": \"tilewright\""), std::string::npos) << after.config();
    EXPECT_NE(after.config().find("\"hidden_size\": 96"), std::string::npos) << after.config();
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
    EXPECT_NE(refusal(job(file, "/dev/null", "mxfp8")).find("is no regular file"), std::string::npos);
    EXPECT_NE(refusal(job(folder.file("in"), file, "mxfp8")).find("is no folder"), std::string::npos);
    const auto bare = std::vector<FileTensor>{floats("x", {4, 4}, {1.0F})};
    const std::string unquantised = folder.file("bare.safetensors");
    write_shard(unquantised, bare);
    EXPECT_NE(refusal(job(unquantised, folder.file("y"), "mxfp8")).find("no matrix to convert"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(folder.file("y")));
}

/// The bytes of all regular files of a folder, by name.
std::map<std::string, std::string> contents(const std::string& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.is_regular_file()) files[entry.path().filename().string()] = test::read_file(entry.path().string());
    }
    return files;
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
