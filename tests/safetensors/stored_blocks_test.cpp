// Scales in blocks of any size, with padding or without: each number is its own code times its own scale.
#include "safetensors/stored_formats.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

struct BlockCase {
    std::vector<int> block;  // of n and k
    std::string dtype;
    std::string recipe;
};

TEST(StoredFormats, BlocksOfAnySize) {
    const TemporaryFolder folder;
    constexpr std::size_t n = 300;
    constexpr std::size_t k = 260;
    for (const BlockCase& one :
         {BlockCase{{128, 128}, "BF16", "128x128"}, BlockCase{{64, 64}, "F32", "f32"},
          BlockCase{{64, 64}, "F8_E8M0", "mxfp8"}, BlockCase{{1, 128}, "F16", "1x128"},
          BlockCase{{256, 128}, "F32", "128x128"}, BlockCase{{64, 256}, "BF16", "1x128"},
          BlockCase{{128, 1}, "F32", "f32"}, BlockCase{{2, 2}, "BF16", "f32"}, BlockCase{{1, 32}, "F8_E8M0", "mxfp8"},
          BlockCase{{96, 160}, "F32", "f32"}, BlockCase{{1, 64}, "F8_E8M0", "mxfp8"}}) {
        const auto rows = static_cast<std::size_t>(one.block[0]);
        const auto columns = static_cast<std::size_t>(one.block[1]);
        const std::size_t per_line = (k + columns - 1) / columns;
        const std::vector<int> count{static_cast<int>((n + rows - 1) / rows), static_cast<int>(per_line)};
        const std::vector<FileTensor> tensors{
            random_bytes("a.weight", "F8_E4M3", {static_cast<int>(n), static_cast<int>(k)}, 0, 126),
            scales_of("a.weight_scale_inv", one.dtype, count)};
        const std::string config = "{\"quantization_config\":{\"weight_block_size\":[" + std::to_string(rows) + "," +
                                   std::to_string(columns) + "]},\"time_step_limit\":[0.0,Infinity]}";
        const Checkpoint checkpoint(folder_with(folder, tensors, config));
        const StoredMatrix matrix = only(checkpoint);
        EXPECT_EQ(name(matrix.recipe), one.recipe) << matrix.format();
        const std::vector<float> given = numbers(checkpoint, matrix);
        EXPECT_EQ(given, by_ranges(checkpoint, matrix));
        for (std::size_t i = 0; i < n * k; ++i) {
            const double scale =
                load(tensors[1], format_of_scales(one.dtype), i / k / rows * per_line + i % k / columns);
            ASSERT_EQ(given[i], static_cast<float>(load(tensors[0], Format::e4m3, i) * scale)) << matrix.format() << i;
        }
    }
}

/// Without a word of config.json: what the shape says on its own, or a refusal.
TEST(StoredFormats, BlocksThatConfigDoesNotName) {
    const TemporaryFolder folder;
    const auto read_as = [&](const char* scale_name, const std::string& dtype, const std::vector<int>& shape) {
        const std::vector<FileTensor> tensors{random_bytes("a.weight", "F8_E4M3", {300, 512}, 0, 126),
                                              scales_of(std::string("a.") + scale_name, dtype, shape)};
        const Checkpoint checkpoint(folder_with(folder, tensors, ""));
        const StoredMatrices found = stored_matrices(checkpoint);
        if (!found.unreadable.empty()) return found.unreadable[0].finding.message();
        return find(found, "a.weight").format();
    };
    EXPECT_EQ(read_as("weight_scale", "F32", {}), "tensor");
    EXPECT_EQ(read_as("weight_scale", "BF16", {1}), "tensor, scales BF16");
    EXPECT_EQ(read_as("weight_scale", "F32", {1, 1}), "tensor");
    EXPECT_EQ(read_as("weight_scale", "F32", {300, 1}), "row");
    EXPECT_EQ(read_as("weight_scale", "F16", {300}), "row, scales F16");
    EXPECT_EQ(read_as("weight_scale", "BF16", {3, 4}), "128x128, scales BF16");
    EXPECT_EQ(read_as("weight_scale", "F32", {300, 4}), "1x128");
    EXPECT_EQ(read_as("weight_scale", "U8", {300, 16}), "mxfp8");
    EXPECT_EQ(read_as("qscale_weight", "F32", {1}), "tensor");
    EXPECT_EQ(read_as("scale_weight", "F32", {1}), "tensor");
    EXPECT_EQ(read_as("weight_quantizer.scale", "F32", {}), "tensor");
    EXPECT_EQ(read_as("weight_scale_inv", "F32", {2, 2}), "e4m3 256x256");
    EXPECT_EQ(read_as("weight_scale_inv", "F32", {3, 5}), "128x128, scales padded");
    EXPECT_EQ(read_as("weight_scale_inv", "F32", {4, 4}), "128x128, scales padded");
    EXPECT_EQ(read_as("weight_scale_inv", "F32", {5, 8}),
              "a.weight_scale_inv: got F32 [5, 8]; expected [3, 4], because blocks of 64x64 and padded blocks of "
              "128x128 both have that shape, for a.weight with F8_E4M3 [300, 512].");
    EXPECT_EQ(
        read_as("weight_scale", "F32", {512}),
        "a.weight_scale: got F32 [512]; expected one scale, [300, 1] or [3, 4] for a.weight with F8_E4M3 [300, 512].");
    EXPECT_EQ(
        read_as("weight_scale", "F32", {3}),
        "a.weight_scale: got F32 [3]; expected one scale, [300, 1] or [3, 4] for a.weight with F8_E4M3 [300, 512].");
    EXPECT_EQ(read_as("weight_scale", "U8", {300, 15}),
              "a.weight_scale: got U8 [300, 15]; expected [300, 16] for a.weight with F8_E4M3 [300, 512].");
    EXPECT_EQ(read_as("weight_scale", "U8", {384, 16}),
              "a.weight_scale: got U8 [384, 16]; expected [300, 16], or its form interleaved in tiles of 128 rows and "
              "4 columns, for a.weight with F8_E4M3 [300, 512].");
    EXPECT_EQ(
        read_as("weight_scale", "I32", {3, 4}),
        "a.weight_scale: got I32 [3, 4]; expected F32, BF16, F16 or F8_E8M0 for a.weight with F8_E4M3 [300, 512].");
}

TEST(StoredFormats, ScalesWithPadding) {
    const TemporaryFolder folder;
    const std::vector<FileTensor> fp8{random_bytes("a.weight", "F8_E4M3", {200, 300}, 0, 126),
                                      scales_of("a.weight_scale_inv", "F32", {3, 5})};
    const Checkpoint blocks(folder_with(folder, fp8, "{\"quantization_config\":{\"weight_block_size\":[128,128]}}"));
    std::vector<float> given = numbers(blocks, only(blocks));
    for (std::size_t i = 0; i < given.size(); ++i) {
        const double scale = load(fp8[1], Format::f32, i / 300 / 128 * 5 + i % 300 / 128);
        ASSERT_EQ(given[i], static_cast<float>(load(fp8[0], Format::e4m3, i) * scale));
    }
    // 72 columns: 3 blocks, the last one short, and a fourth that is padding.
    const std::vector<FileTensor> fp4{random_bytes("a.weight_packed", "U8", {10, 36}, 0, 255),
                                      scales_of("a.weight_scale", "U8", {10, 4})};
    const Checkpoint mx(folder_with(folder, fp4, ""));
    EXPECT_EQ(only(mx).format(), "mxfp4, scales padded");
    given = numbers(mx, only(mx));
    for (std::size_t i = 0; i < given.size(); ++i) {
        ASSERT_EQ(given[i], load(fp4[0], Format::e2m1, i) * load(fp4[1], Format::ue8m0, i / 72 * 4 + i % 72 / 32));
    }
}

TEST(StoredFormats, NumbersThatF32DoesNotHoldAreRefused) {
    const TemporaryFolder folder;
    for (const float scale : {1e36F, 1e-40F}) {
        const std::vector<FileTensor> tensors{random_bytes("a.weight", "F8_E4M3", {128, 128}, 1, 120),
                                              floats("a.weight_scale_inv", {2, 2}, {scale})};
        const std::string in =
            folder_with(folder, tensors, "{\"quantization_config\":{\"weight_block_size\":[64,64]}}");
        const std::string error = refusal(job(in, folder.file("out"), "mxfp8"));
        EXPECT_NE(error.find("a.weight: a scale of 1e"), std::string::npos) << error;
    }
}

}  // namespace
}  // namespace tilewright::safetensors
