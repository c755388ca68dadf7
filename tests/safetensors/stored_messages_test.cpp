// What is said of tensors that are not read, and of files that have the same tensors.
#include "safetensors/stored_formats.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

TEST(StoredFormats, TheIndexDecidesBetweenFiles) {
    const TemporaryFolder folder;
    const std::string in = folder.file("in");
    const FileTensor codes = random_bytes("a.weight", "F8_E4M3", {200, 130}, 0, 120);
    const FileTensor old_scales = floats("a.weight_scale_inv", {2, 2}, {1.0F});
    const FileTensor new_scales = floats("a.weight_scale_inv", {2, 2}, {2.0F});
    write_checkpoint(in, {{codes, old_scales}, {new_scales}});  // the last one is what the index names
    test::write_file(in + "/model.safetensors.index.json",
                     "{\"weight_map\":{\"a.weight\":\"model-1-of-2.safetensors\",\"a.weight_scale_inv\":"
                     "\"model-2-of-2.safetensors\"}}");
    const Checkpoint overlaid(in);
    EXPECT_EQ(numbers(overlaid, only(overlaid))[0], 2 * static_cast<float>(load(codes, Format::e4m3, 0)));
    EXPECT_EQ(overlaid.overridden(),
              std::vector<std::string>{"a.weight_scale_inv is in model-1-of-2.safetensors too; the index names "
                                       "model-2-of-2.safetensors"});
    // A file with scales that the index does not name is not read, and said.
    write_shard(in + "/model-1-of-2.safetensors", {codes});
    test::write_file(in + "/model.safetensors.index.json",
                     "{\"weight_map\":{\"a.weight\":\"model-1-of-2.safetensors\"}}");
    const Checkpoint without(in);
    EXPECT_EQ(without.unlisted(), std::vector<std::string>{"model-2-of-2.safetensors"});
    const StoredMatrices found = stored_matrices(without);
    ASSERT_EQ(found.unreadable.size(), 1U);
    EXPECT_EQ(found.unreadable[0].finding.message(),
              "a.weight: got F8_E4M3 [200, 130] without scales; expected a tensor with its scales. The index does not "
              "name model-2-of-2.safetensors.");
    std::filesystem::remove(in + "/model.safetensors.index.json");
    EXPECT_THROW(Checkpoint{in}, SafetensorsError);
}

TEST(StoredFormats, MessagesNameWhatIsThere) {
    const TemporaryFolder folder;
    const auto message = [&](const std::vector<FileTensor>& tensors) {
        const Checkpoint checkpoint(folder_with(folder, tensors, ""));
        const StoredMatrices found = stored_matrices(checkpoint);
        std::string text;
        for (const UnreadableMatrix& one : found.unreadable) text += one.finding.message() + "\n";
        return text;
    };
    const FileTensor codes = random_bytes("a.weight", "F8_E4M3", {200, 130}, 0, 120);
    EXPECT_EQ(message({codes, floats("a.weight_scale", {2, 3}, {1.0F})}),
              "a.weight_scale: got F32 [2, 3]; expected one scale, [200, 1] or [2, 2] for a.weight with F8_E4M3 [200, "
              "130].\n");
    EXPECT_EQ(message({codes, floats("a.weight_scale", {}, {1.0F}), floats("a.weight_scale_inv", {2, 2}, {1.0F})}),
              "a.weight: got a.weight_scale_inv and a.weight_scale; expected the scales of one scheme.\n");
    EXPECT_EQ(message({codes, floats("a.weight_scale", {}, {1.0F}), floats("a.weight_scale_2", {}, {1.0F})}),
              "a.weight_scale_2: got F32 []; expected no second scale for a.weight with F8_E4M3 [200, 130].\n");
    EXPECT_EQ(message({random_bytes("conv.weight", "F8_E4M3", {8, 3, 3, 3}, 0, 120)}),
              "conv.weight: got F8_E4M3 [8, 3, 3, 3]; expected 2 or 3 dimensions.\n");
    EXPECT_EQ(message({random_bytes("a.weight", "I8", {8, 64}, 0, 120), floats("a.SCB", {8}, {1.0F})}),
              "a.weight: got I8 [8, 64] with a.SCB, int8 of bitsandbytes; expected fp8 or FP4 weights.\n");
    EXPECT_EQ(
        message({random_bytes("a.weight", "U8", {8, 64}, 0, 120), floats("a.weight_scale", {8, 1}, {1.0F})}),
        "a.weight: got U8 [8, 64] with a.weight_scale F32 [8, 1], which are integers; expected fp8 or FP4 weights.\n");
    EXPECT_EQ(message({random_bytes("a.experts.up_proj", "U8", {2, 64, 32}, 0, 120),
                       random_bytes("a.experts.up_proj_weight_scale", "F8_E4M3", {2, 64, 4}, 8, 100),
                       floats("a.experts.up_proj_weight_scale_2", {2, 2}, {1.0F})}),
              "a.experts.up_proj_weight_scale_2: got F32 [2, 2]; expected F32 [1] or [2] for a.experts.up_proj with U8 "
              "[2, 64, 32].\n");
    EXPECT_EQ(message({codes, floats("a.weight_scale", {}, {1.0F}), floats("a.weight_zero_point", {1}, {1.0F})}),
              "a.weight_zero_point: got F32 [1] other than zeros; expected weights without zero points.\n");
    EXPECT_EQ(message({codes, floats("a.weight_scale", {}, {1.0F}), floats("a.weight_zero_point", {1}, {0.0F})}), "");
    EXPECT_EQ(message({{"a.weight", "F6_E2M3", {8, 4}, std::string(24, '\1')}}),
              "a.weight: got F6_E2M3 [8, 4]; expected fp8 or FP4 weights.\n");
    // Scales whose weights are in another file are no weights.
    EXPECT_EQ(message({random_bytes("a.weight_scale", "F8_E4M3", {8, 4}, 0, 120), floats("b", {2, 2}, {1.0F})}), "");
}

}  // namespace
}  // namespace tilewright::safetensors
