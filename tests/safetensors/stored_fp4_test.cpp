// FP4 under each dtype that its bytes have, and experts either way round, which scales tell.
#include "safetensors/stored_formats.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

/// Bytes of FP4 under each dtype that they have, with a last block that is short.
TEST(StoredFormats, Fp4BytesOfAnyDtype) {
    const TemporaryFolder folder;
    const FileTensor codes = random_bytes("", "U8", {40, 36}, 0, 255);
    for (const std::string dtype : {"U8", "I8", "F4"}) {
        const std::vector<int> shape{40, dtype == "F4" ? 72 : 36};
        const std::vector<int> stacked{2, 20, dtype == "F4" ? 72 : 36};
        const auto values = [&](const char* name) { return FileTensor{name, dtype, shape, codes.bytes}; };
        const FileTensor mx = random_bytes("a.weight_scale", "U8", {40, 3}, 120, 130);
        const FileTensor nv = random_bytes("a.weight_scale", "F8_E4M3", {40, 5}, 8, 120);
        const FileTensor e8m0{"a.scale", "F8_E8M0", mx.shape, mx.bytes};
        const FileTensor e8m0_stack{"x_scale_inv", "F8_E8M0", {2, 20, 3}, mx.bytes};
        const std::vector<std::vector<FileTensor>> of_mx{{values("a.weight"), mx},
                                                         {values("a.weight_packed"), mx},
                                                         {values("a.weight"), e8m0},
                                                         {{"x", dtype, stacked, codes.bytes}, e8m0_stack},
                                                         {values("x"), {"x.scales", "F8_E8M0", mx.shape, mx.bytes}}};
        const std::vector<std::vector<FileTensor>> of_nv{
            {values("a.weight"), nv, floats("a.weight_scale_2", {}, {0.5F})},
            {values("a.weight_packed"), nv, floats("a.weight_global_scale", {1}, {2.0F})},
            {values("x"), {"x.scales", "F8_E4M3", nv.shape, nv.bytes}, floats("x.tensor_scale", {1}, {0.5F})}};
        for (const auto& tensors : of_mx) {
            const Checkpoint checkpoint(folder_with(folder, tensors, ""));
            const std::vector<float> given = numbers(checkpoint, only(checkpoint));
            for (std::size_t i = 0; i < given.size(); ++i) {
                ASSERT_EQ(given[i], load(codes, Format::e2m1, i) * load(mx, Format::ue8m0, i / 72 * 3 + i % 72 / 32));
            }
        }
        for (const auto& tensors : of_nv) {
            const Checkpoint checkpoint(folder_with(folder, tensors, ""));
            const std::vector<float> given = numbers(checkpoint, only(checkpoint));
            for (std::size_t i = 0; i < given.size(); ++i) {
                const double scale = load(nv, Format::ue4m3, i / 72 * 5 + i % 72 / 16) * 0.5;
                ASSERT_EQ(given[i], static_cast<float>(load(codes, Format::e2m1, i) * scale));
            }
        }
    }
    const FileTensor lines{"p_blocks", "F4", {2, 20, 3, 32}, random_bytes("", "U8", {2, 20, 48}, 0, 255).bytes};
    const FileTensor mx = random_bytes("p_scales", "U8", {2, 20, 3}, 120, 130);
    const Checkpoint blocks(folder_with(folder, {lines, mx}, ""));
    const std::vector<float> given = numbers(blocks, only(blocks));
    for (std::size_t i = 0; i < given.size(); ++i) {
        ASSERT_EQ(given[i], load(lines, Format::e2m1, i) * load(mx, Format::ue8m0, i / 32));
    }
}

TEST(StoredFormats, RowsOfFp4ThatBeginInsideAByteAreRefused) {
    const TemporaryFolder folder;
    const auto refused = [&](const std::vector<FileTensor>& tensors) {
        const Checkpoint checkpoint(folder_with(folder, tensors, ""));
        const StoredMatrices found = stored_matrices(checkpoint);
        return found.unreadable.empty() ? "" : found.unreadable[0].finding.message();
    };
    const auto f4 = [](const std::string& name, const std::vector<int>& shape) {
        return FileTensor{name, "F4", shape, std::string(element_count(shape) / 2, '\x21')};
    };
    const std::string odd = "an even number of columns, because rows start on whole bytes";
    for (const int columns : {33, 1, 31}) {
        const int blocks = (columns + 31) / 32;
        for (const auto& tensors : std::vector<std::vector<FileTensor>>{
                 {f4("x", {8, columns}), random_bytes("x.scales", "F8_E8M0", {8, blocks}, 120, 122)},
                 {f4("x.weight", {8, columns}), random_bytes("x.scale", "F8_E8M0", {8, blocks}, 120, 122)},
                 {f4("x.weight_packed", {8, columns}), random_bytes("x.weight_scale", "U8", {8, blocks}, 120, 122)},
                 {f4("x", {2, 4, columns}), random_bytes("x_scale", "U8", {2, 4, blocks}, 120, 122)}}) {
            EXPECT_NE(refused(tensors).find(odd), std::string::npos) << refused(tensors);
        }
    }
}

struct Fused {
    std::string what;
    std::vector<FileTensor> tensors;  // of [experts, n, k]
    std::string config;
};

/// [experts, rows, columns] with the last two changed.
FileTensor turned(const FileTensor& from, std::size_t element) {
    FileTensor out = from;
    if (from.shape.size() != 3) return out;
    const std::size_t rows = static_cast<std::size_t>(from.shape[1]);
    const std::size_t columns = static_cast<std::size_t>(from.shape[2]);
    std::swap(out.shape[1], out.shape[2]);
    for (std::size_t i = 0; i < element_count(from.shape); ++i) {
        const std::size_t group = i / (rows * columns);
        const std::size_t row = i / columns % rows;
        const std::size_t to = (group * columns + i % columns) * rows + row;
        std::memcpy(out.bytes.data() + to * element, from.bytes.data() + i * element, element);
    }
    return out;
}

TEST(StoredFormats, ExpertsEitherWayRound) {
    const TemporaryFolder folder;
    const std::string name = "l.0.mlp.experts.gate_up_proj";
    const std::string config = "{\"text_config\":{\"hidden_size\":160,\"moe_intermediate_size\":100}}";
    const FileTensor fp8 = random_bytes(name, "F8_E4M3", {2, 200, 160}, 0, 126);
    const FileTensor fp4 = random_bytes(name, "U8", {2, 200, 80}, 0, 255);
    const FileTensor over = floats(name + "_weight_scale_2", {2}, {0.5F, 2.0F});
    const std::vector<Fused> cases{
        {"blocks", {fp8, scales_of(name + "_scale_inv", "F32", {2, 2, 2})}, config},
        {"rows", {fp8, scales_of(name + "_scale", "F32", {2, 200, 1})}, ""},
        {"a scale for each expert", {fp8, scales_of(name + "_scale_inv", "F32", {2, 1, 1})}, config},
        {"mxfp8", {fp8, random_bytes(name + "_scale", "U8", {2, 200, 5}, 120, 130)}, ""},
        {"mxfp4", {fp4, random_bytes(name + "_scale", "U8", {2, 200, 5}, 120, 130)}, ""},
        {"nvfp4", {fp4, random_bytes(name + "_weight_scale", "F8_E4M3", {2, 200, 10}, 8, 120), over}, ""}};
    for (const Fused& one : cases) {
        const Checkpoint straight(folder_with(folder, one.tensors, one.config));
        const StoredMatrix matrix = only(straight);
        EXPECT_FALSE(matrix.transposed) << one.what;
        const std::vector<float> expected = numbers(straight, matrix);
        const TemporaryFolder other;
        std::vector<FileTensor> tensors{turned(one.tensors[0], 1),
                                        turned(one.tensors[1], one.tensors[1].dtype == "F32" ? 4 : 1)};
        if (one.tensors.size() == 3) tensors.push_back(one.tensors[2]);
        const Checkpoint changed(folder_with(other, tensors, one.config));
        const StoredMatrix same = only(changed);
        EXPECT_TRUE(same.transposed) << one.what;
        EXPECT_TRUE((same.shape() == Dims{2, 200, 160})) << one.what;
        EXPECT_EQ(numbers(changed, same), expected) << one.what;
        EXPECT_EQ(by_ranges(changed, same), expected) << one.what;
    }
    // Nothing says which way round these are.
    const auto refused = [&](const std::vector<FileTensor>& tensors, const std::string& said) {
        const Checkpoint checkpoint(folder_with(folder, tensors, said));
        const StoredMatrices found = stored_matrices(checkpoint);
        ASSERT_EQ(found.unreadable.size(), 1U);
        EXPECT_NE(found.unreadable[0].finding.message().find("tell [experts, n, k] from [experts, k, n]"),
                  std::string::npos);
    };
    refused(cases[0].tensors, "");
    refused(cases[2].tensors, "{\"hidden_size\":200,\"moe_intermediate_size\":17}");
    refused({random_bytes(name, "F8_E4M3", {2, 160, 160}, 0, 126), cases[2].tensors[1]},
            "{\"hidden_size\":160,\"moe_intermediate_size\":80}");
}

}  // namespace
}  // namespace tilewright::safetensors
