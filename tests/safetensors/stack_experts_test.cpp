// Experts that are there one by one, as one matrix: the same bytes one after another, or a refusal.
#include <gtest/gtest.h>

#include <cstring>

#include "safetensors/checkpoint_tests.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

/// Two experts of one layer in two files, as one matrix.
std::string stacked(const Checkpoint& checkpoint, const std::string& what) {
    const std::string expert = "layers.3.ffn.experts.";
    return bytes_of(checkpoint, expert + "0." + what) + bytes_of(checkpoint, expert + "1." + what);
}

TEST(StackExperts, OfTwoFilesAndOfPackedOnes) {
    const TemporaryFolder folder;
    const std::string in = folder.file("in"), name = "layers.3.ffn.experts.w1.weight";
    write_checkpoint(in, deepseek_v4());
    ConvertJob stacking = job(in, folder.file("out"), "mxfp4");
    stacking.stack_experts = true;
    stacking.wanted = [](const std::string& one) { return one.find("experts") != std::string::npos; };
    const ConvertResult result = convert(stacking);
    ASSERT_EQ(result.matrices.size(), 1U);
    EXPECT_EQ(result.matrices[0].from, "mxfp4, 2 experts");
    const Checkpoint before(in), after(folder.file("out"));
    EXPECT_EQ(after.find(name)->stored.shape, (std::vector<std::uint64_t>{2, 64, 96}));
    EXPECT_EQ(bytes_of(after, name), stacked(before, "w1.weight"));
    EXPECT_EQ(bytes_of(after, name + ".scales"), stacked(before, "w1.scale"));
    EXPECT_EQ(after.find("layers.3.ffn.experts.0.w1.weight"), nullptr);
    EXPECT_EQ(bytes_of(after, "layers.3.attn.wq_a.scale"), bytes_of(before, "layers.3.attn.wq_a.scale"));

    // Packed, from codes and from experts that were packed one by one.
    stacking.recipe.reset();
    stacking.pack = PackedFor::bf16;
    stacking.output = folder.file("packed");
    EXPECT_TRUE(convert(stacking).kept_files.empty());
    ConvertJob one_by_one = stacking;
    one_by_one.stack_experts = false;
    one_by_one.output = folder.file("one by one");
    convert(one_by_one);
    stacking.input = one_by_one.output;
    stacking.output = folder.file("later");
    convert(stacking);
    const Checkpoint packed(folder.file("packed")), later(folder.file("later"));
    EXPECT_EQ(bytes_of(packed, name + ".packed"), bytes_of(later, name + ".packed"));
    const OwnedOperand unpacked = load_matrix(packed, find(stored_matrices(packed), name));
    EXPECT_TRUE((unpacked.operand().values.shape == Dims{2, 64, 96}));
    EXPECT_EQ(std::memcmp(unpacked.operand().values.data, stacked(before, "w1.weight").data(), 2 * 64 * 48), 0);
    EXPECT_EQ(std::memcmp(unpacked.operand().scales.data, stacked(before, "w1.scale").data(), 2 * 64 * 3), 0);
}

TEST(StackExperts, InAnotherFormatAsOneByOne) {
    const TemporaryFolder folder;
    std::vector<FileTensor> tensors;
    for (const std::string expert : {"e.experts.0.up.weight", "e.experts.1.up.weight"}) {
        tensors.push_back(random_bytes(expert, "U8", {130, 64}, 0, 255));
        tensors.push_back(random_bytes(expert + "_scale", "F8_E4M3", {130, 8}, 8, 120));
        tensors.push_back(floats(expert + "_scale_2", {}, {expert[10] == '0' ? 0.125F : 3.0F}));
    }
    const std::string file = single(folder, tensors);
    for (const char* recipe : {"nvfp4", "mxfp8", "128x128"}) {
        ConvertJob stacking = job(file, folder.file("stacked"), recipe);
        stacking.stack_experts = true;
        convert(stacking);
        convert(job(file, folder.file("single"), recipe));
        const Checkpoint one(folder.file("single")), all(folder.file("stacked"));
        for (const std::string suffix : {"", ".scales", ".tensor_scale"}) {
            if (one.find("e.experts.0.up.weight" + suffix) == nullptr) continue;
            EXPECT_EQ(bytes_of(all, "e.experts.up.weight" + suffix),
                      bytes_of(one, "e.experts.0.up.weight" + suffix) + bytes_of(one, "e.experts.1.up.weight" + suffix))
                << recipe << suffix;
        }
    }
}

TEST(StackExperts, NotWhereTheyDiffer) {
    const TemporaryFolder folder;
    const auto error_of = [&](const std::vector<FileTensor>& others) {
        std::vector<FileTensor> tensors{random_bytes("experts.0.w", "F8_E4M3", {8, 64}, 0, 100),
                                        random_bytes("experts.0.w.scales", "F8_E8M0", {8, 2}, 120, 122)};
        tensors.insert(tensors.end(), others.begin(), others.end());
        ConvertJob stacking = job(single(folder, tensors), folder.file("out"), "mxfp4");
        stacking.stack_experts = true;
        stacking.wanted = [](const std::string& name) { return name != "experts.3.w"; };
        return refusal(stacking);
    };
    const auto expert = [](const std::string& name, int n) {
        return std::vector<FileTensor>{random_bytes(name, "F8_E4M3", {n, 64}, 0, 100),
                                       random_bytes(name + ".scales", "F8_E8M0", {n, 2}, 120, 122)};
    };
    EXPECT_EQ(error_of(expert("experts.1.w", 8)), "");
    EXPECT_EQ(error_of(expert("experts.2.w", 8)), "experts.w cannot be stacked: expert 1 is missing");
    EXPECT_EQ(error_of(expert("experts.1.w", 9)),
              "experts.w cannot be stacked: experts.1.w is mxfp8 [9, 64], experts.0.w is mxfp8 [8, 64]");
    EXPECT_EQ(error_of({floats("experts.1.w", {8, 64}, {1.0F})}),
              "experts.w cannot be stacked: experts.1.w is not quantized");
    std::vector<FileTensor> all = expert("experts.1.w", 8);
    for (const char* name : {"experts.2.w", "experts.3.w"}) {
        for (const FileTensor& tensor : expert(name, 8)) all.push_back(tensor);
    }
    EXPECT_EQ(error_of(all), "experts.w cannot be stacked: experts.3.w is not chosen");
    EXPECT_EQ(error_of({floats("experts.w", {4, 4}, {1.0F})}),
              "'experts.w' would be written twice: the input already has a tensor of that name");
}

}  // namespace
}  // namespace tilewright::safetensors
