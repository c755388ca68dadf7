// Formats as files have them: blocks of any size, experts either way round, fnuz codes, scales with padding. Numbers
// are compared with those of each element's own code and scale.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "formats/element.h"
#include "safetensors/checkpoint_tests.h"
#include "safetensors/fnuz.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

double load(const FileTensor& tensor, Format format, std::size_t i) {
    return formats::load(tensor.bytes.data(), format, static_cast<std::int64_t>(i));
}

/// A folder with these tensors in one file and this config.json.
std::string folder_with(const TemporaryFolder& folder, const std::vector<FileTensor>& tensors,
                        const std::string& config) {
    std::string path = folder.file("model");
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
    write_shard(path + "/model.safetensors", tensors);
    if (!config.empty()) test::write_file(path + "/config.json", config);
    return path;
}

FileTensor scales_of(const std::string& name, const std::string& dtype, const std::vector<int>& shape) {
    if (dtype == "F32") return floats(name, shape, {0.25F, 1.5F, 0.01F, 3.0F, 0.7F});
    if (dtype == "I32") return {name, dtype, shape, std::string(element_count(shape) * 4, '\0')};
    if (dtype == "F8_E8M0" || dtype == "U8") return random_bytes(name, dtype, shape, 120, 130);
    FileTensor scales{name, dtype, shape, std::string(element_count(shape) * 2, '\0')};
    for (std::size_t i = 0; i < element_count(shape); ++i) {
        formats::store(scales.bytes.data(), dtype == "F16" ? Format::f16 : Format::bf16, static_cast<std::int64_t>(i),
                       0.125 * static_cast<double>(i % 9 + 1));
    }
    return scales;
}

Format format_of_scales(const std::string& dtype) { return dtype == "U8" ? Format::ue8m0 : format_of(dtype).value(); }

/// The only matrix of a checkpoint that is not unquantised.
StoredMatrix only(const Checkpoint& checkpoint) {
    const StoredMatrices found = stored_matrices(checkpoint);
    for (const UnreadableMatrix& one : found.unreadable) throw std::runtime_error(one.finding.message());
    for (const StoredMatrix& matrix : found.matrices) {
        if (matrix.scheme != "unquantised") return matrix;
    }
    throw std::runtime_error("no matrix");
}

/// The numbers by ranges of rows, as conversions read them.
std::vector<float> by_ranges(const Checkpoint& checkpoint, const StoredMatrix& matrix) {
    std::vector<float> all;
    for (std::int64_t group = 0; group < matrix.groups; ++group) {
        for (std::int64_t row = 0; row < matrix.n; row += 128) {
            const std::int64_t rows = std::min<std::int64_t>(128, matrix.n - row);
            const LoadedRows loaded(checkpoint, matrix, group, row, rows);
            std::vector<float> some(static_cast<std::size_t>(rows * matrix.k));
            dequantize(loaded.operand(), row_major(some.data(), Format::f32, {rows, matrix.k}));
            all.insert(all.end(), some.begin(), some.end());
        }
    }
    return all;
}

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
              "a.weight_scale_inv: F32 [5, 8] given, [3, 4], because blocks of 64x64 and padded ones of 128x128 have "
              "that shape, expected for a.weight with F8_E4M3 [300, 512]");
    EXPECT_EQ(read_as("weight_scale", "F32", {512}),
              "a.weight_scale: F32 [512] given, one, [300, 1] or [3, 4] expected for a.weight with F8_E4M3 [300, 512]");
    EXPECT_EQ(read_as("weight_scale", "F32", {3}),
              "a.weight_scale: F32 [3] given, one, [300, 1] or [3, 4] expected for a.weight with F8_E4M3 [300, 512]");
    EXPECT_EQ(read_as("weight_scale", "U8", {300, 15}),
              "a.weight_scale: U8 [300, 15] given, [300, 16] expected for a.weight with F8_E4M3 [300, 512]");
    EXPECT_EQ(read_as("weight_scale", "U8", {384, 16}),
              "a.weight_scale: U8 [384, 16] given, [300, 16] (with 128 rows and 4 columns at a time they may be "
              "interleaved) expected for a.weight with F8_E4M3 [300, 512]");
    EXPECT_EQ(read_as("weight_scale", "I32", {3, 4}),
              "a.weight_scale: I32 [3, 4] given, F32, BF16, F16 or F8_E8M0 expected for a.weight with F8_E4M3 "
              "[300, 512]");
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
    const std::string odd = "an even number of columns, so that rows begin at whole bytes, expected";
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

/// A number of each code by the definition: exponents have one more of bias, 0x80 is NaN, there is no infinity.
double fnuz(Format sibling, unsigned code) {
    const int digits = sibling == Format::e4m3 ? 3 : 2;
    const int bias = sibling == Format::e4m3 ? 8 : 16;
    if (code == 0x80) return NAN;
    const int exponent = static_cast<int>((code & 127) >> digits);
    const double fraction = (code & ((1U << digits) - 1)) / static_cast<double>(1 << digits);
    const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
    return (code & 128) != 0 ? -magnitude : magnitude;
}

TEST(StoredFormats, FnuzCodes) {
    for (const Format sibling : {Format::e4m3, Format::e5m2}) {
        for (unsigned code = 0; code < 256; ++code) {
            const float number = fnuz_number(sibling, static_cast<std::uint8_t>(code));
            if (code == 0x80) {
                EXPECT_TRUE(std::isnan(number));
            } else {
                EXPECT_EQ(number, fnuz(sibling, code)) << code;
            }
        }
    }
}

TEST(StoredFormats, FnuzIsReadWithHalfTheScaleOrAsItsNumbers) {
    const TemporaryFolder folder;
    const std::string e4m3 = "F8_E4M3FNUZ", e5m2 = "F8_E5M2FNUZ";
    struct Case {
        std::string dtype;
        std::function<unsigned(std::size_t)> code;
        bool exact;
        std::string scales;
    };
    const auto any = [](std::size_t i) { return static_cast<unsigned>(i * 37 % 127) | (i % 2 != 0 ? 128U : 0U); };
    const auto large = [](std::size_t i) {
        return i % 5 == 0 ? 0x7FU : i % 7 == 0 ? 0xFFU : 16U + static_cast<unsigned>(i % 110);
    };
    for (const Case& one :
         {Case{e4m3, any, true, "F32"},    // 0x80 in it, which is NaN
          Case{e4m3, large, true, "F32"},  // 240, and nothing below 2^-6
          Case{e4m3, [&](std::size_t i) { return i == 3 ? 0x7FU : 1U; }, false, "F32"}, Case{e5m2, any, false, "F32"},
          Case{e5m2, [&](std::size_t i) { return any(i) & 0xBFU; }, true, "F32"}, Case{e4m3, any, true, "BF16"},
          Case{e4m3, large, true, "F8_E8M0"}}) {
        const Format sibling = one.dtype == e4m3 ? Format::e4m3 : Format::e5m2;
        std::string bytes(static_cast<std::size_t>(130) * 140, '\0');
        for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(one.code(i));
        const std::vector<FileTensor> tensors{{"a.weight", one.dtype, {130, 140}, bytes},
                                              scales_of("a.weight_scale_inv", one.scales, {2, 2})};
        const Checkpoint checkpoint(folder_with(folder, tensors, ""));
        const StoredMatrix matrix = only(checkpoint);
        EXPECT_EQ(matrix.recipe.values, sibling);
        const std::vector<float> given = by_ranges(checkpoint, matrix);
        for (std::size_t i = 0; i < given.size(); ++i) {
            const double scale = load(tensors[1], format_of_scales(one.scales), i / 140 / 128 * 2 + i % 140 / 128);
            const double expected = fnuz(sibling, static_cast<unsigned char>(bytes[i])) * scale;
            ASSERT_TRUE(given[i] == static_cast<float>(expected) || (std::isnan(given[i]) && std::isnan(expected)))
                << one.dtype << " " << i << ": " << given[i] << " " << expected;
        }
        if (one.exact) {
            EXPECT_NO_THROW(load_matrix(checkpoint, matrix));
        } else {
            EXPECT_THROW(load_matrix(checkpoint, matrix), std::runtime_error);
        }
        const ConvertResult result =
            convert(job(folder.file("model"), folder.file("out"), one.dtype == e4m3 ? "128x128" : "e5m2.128x128"));
        EXPECT_EQ(result.matrices[0].error == 0, one.exact) << one.dtype;
        std::filesystem::remove_all(folder.file("out"));
    }
}

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
              "a.weight: F8_E4M3 [200, 130] without scales given, a tensor of scales next to it expected; the index "
              "does not name model-2-of-2.safetensors");
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
              "a.weight_scale: F32 [2, 3] given, one, [200, 1] or [2, 2] expected for a.weight with F8_E4M3 [200, "
              "130]\n");
    EXPECT_EQ(message({codes, floats("a.weight_scale", {}, {1.0F}), floats("a.weight_scale_inv", {2, 2}, {1.0F})}),
              "a.weight: a.weight_scale_inv and a.weight_scale given, the scales of one scheme expected\n");
    EXPECT_EQ(message({codes, floats("a.weight_scale", {}, {1.0F}), floats("a.weight_scale_2", {}, {1.0F})}),
              "a.weight_scale_2: F32 [] given, no second scale expected for a.weight with F8_E4M3 [200, 130]\n");
    EXPECT_EQ(message({random_bytes("conv.weight", "F8_E4M3", {8, 3, 3, 3}, 0, 120)}),
              "conv.weight: F8_E4M3 [8, 3, 3, 3] given, 2 or 3 dimensions expected\n");
    EXPECT_EQ(message({random_bytes("a.weight", "I8", {8, 64}, 0, 120), floats("a.SCB", {8}, {1.0F})}),
              "a.weight: I8 [8, 64] with a.SCB, int8 of bitsandbytes, given, fp8 or FP4 weights expected\n");
    EXPECT_EQ(message({random_bytes("a.weight", "U8", {8, 64}, 0, 120), floats("a.weight_scale", {8, 1}, {1.0F})}),
              "a.weight: U8 [8, 64] with a.weight_scale F32 [8, 1], which are integers, given, fp8 or FP4 weights "
              "expected\n");
    EXPECT_EQ(message({random_bytes("a.experts.up_proj", "U8", {2, 64, 32}, 0, 120),
                       random_bytes("a.experts.up_proj_weight_scale", "F8_E4M3", {2, 64, 4}, 8, 100),
                       floats("a.experts.up_proj_weight_scale_2", {2, 2}, {1.0F})}),
              "a.experts.up_proj_weight_scale_2: F32 [2, 2] given, F32 [1] or [2] expected for a.experts.up_proj with "
              "U8 [2, 64, 32]\n");
    EXPECT_EQ(message({codes, floats("a.weight_scale", {}, {1.0F}), floats("a.weight_zero_point", {1}, {1.0F})}),
              "a.weight_zero_point: F32 [1] other than zeros given, weights without zero points expected\n");
    EXPECT_EQ(message({codes, floats("a.weight_scale", {}, {1.0F}), floats("a.weight_zero_point", {1}, {0.0F})}), "");
    EXPECT_EQ(message({{"a.weight", "F6_E2M3", {8, 4}, std::string(24, '\1')}}),
              "a.weight: F6_E2M3 [8, 4] given, fp8 or FP4 weights expected\n");
    // Scales whose weights are in another file are no weights.
    EXPECT_EQ(message({random_bytes("a.weight_scale", "F8_E4M3", {8, 4}, 0, 120), floats("b", {2, 2}, {1.0F})}), "");
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
