// Checkpoints as people publish them: found by their names, inspected.
#include "safetensors/checkpoint_tests.h"

#include <gtest/gtest.h>

#include "formats/element.h"
#include "safetensors/inspect.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

double code(const std::string& bytes, std::size_t index, Format format) {
    return formats::load(bytes.data(), format, static_cast<std::int64_t>(index));
}

/// One element as the publisher's own code would compute it.
struct Expected {
    const std::vector<FileTensor>& tensors;

    const std::string& bytes(const std::string& name) const {
        for (const FileTensor& tensor : tensors) {
            if (tensor.name == name) return tensor.bytes;
        }
        throw std::runtime_error(name + " is missing");
    }
    double fp4(const std::string& values, const std::string& scales, std::size_t index, std::size_t block,
               Format format) const {
        return code(bytes(values), index, Format::e2m1) * code(bytes(scales), index / block, format);
    }
};

TEST(Checkpoint, FindsGptOssWithScalesInAnotherFile) {
    const TemporaryFolder folder;
    const auto shards = gpt_oss();
    write_checkpoint(folder.file("in"), shards);
    const Checkpoint checkpoint(folder.file("in"));
    const StoredMatrices found = stored_matrices(checkpoint);
    const StoredMatrix& up = find(found, experts + "gate_up_proj");
    EXPECT_EQ(up.scheme, "gpt-oss");
    EXPECT_EQ(name(up.recipe), "mxfp4");
    EXPECT_TRUE((up.shape() == Dims{2, 192, 96}));
    std::vector<FileTensor> all = shards[0];
    all.insert(all.end(), shards[1].begin(), shards[1].end());
    const std::vector<float> given = numbers(checkpoint, up);
    for (std::size_t i = 0; i < given.size(); ++i) {
        ASSERT_EQ(given[i], Expected{all}.fp4(experts + "gate_up_proj_blocks", experts + "gate_up_proj_scales", i, 32,
                                              Format::ue8m0));
    }
}

TEST(Checkpoint, FindsDeepSeek) {
    const TemporaryFolder folder;
    write_checkpoint(folder.file("v4"), deepseek_v4());
    const Checkpoint v4(folder.file("v4") + "/model.safetensors.index.json");
    const StoredMatrices found = stored_matrices(v4);
    EXPECT_EQ(name(find(found, "layers.3.ffn.experts.1.w1.weight").recipe), "mxfp4");
    EXPECT_EQ(name(find(found, "layers.3.attn.wq_a.weight").recipe), "128x128.ue8m0");
    EXPECT_TRUE(found.others.empty());

    const auto tensors = deepseek_v3();
    const Checkpoint v3(single(folder, tensors));
    const StoredMatrices of_v3 = stored_matrices(v3);
    const StoredMatrix& down = find(of_v3, "model.layers.1.mlp.down_proj.weight");
    EXPECT_EQ(name(down.recipe), "128x128");
    const std::vector<float> given = numbers(v3, down);
    for (std::size_t i = 0; i < given.size(); ++i) {
        const std::size_t scale = i / 130 / 128 * 2 + i % 130 / 128;
        const double expected = code(tensors[0].bytes, i, Format::e4m3) * code(tensors[1].bytes, scale, Format::f32);
        ASSERT_EQ(given[i], static_cast<float>(expected));
    }
}

TEST(Checkpoint, FindsNvfp4WithFactorsAndDivisors) {
    const TemporaryFolder folder;
    for (const bool divides : {true, false}) {
        const auto tensors = divides ? compressed_tensors() : modelopt();
        const Checkpoint checkpoint(single(folder, tensors));
        const StoredMatrices found = stored_matrices(checkpoint);
        const StoredMatrix& matrix = find(found, "model.layers.0.q_proj.weight");
        EXPECT_EQ(matrix.scheme, divides ? "compressed-tensors" : "modelopt");
        EXPECT_EQ(found.others.size(), 1U);
        const std::vector<float> given = numbers(checkpoint, matrix);
        const double over = divides ? 1 / 896.0F : 0.125F;
        for (std::size_t i = 0; i < given.size(); ++i) {
            const double block = Expected{tensors}.fp4(tensors[0].name, tensors[1].name, i, 16, Format::ue4m3);
            ASSERT_EQ(given[i], static_cast<float>(block * over));
        }
    }
}

TEST(Checkpoint, InspectsExponents) {
    const TemporaryFolder folder;
    auto shards = deepseek_v4();
    FileTensor& codes = shards[0][0];
    FileTensor& scales = shards[0][1];
    std::ranges::fill(codes.bytes, '\x11');
    std::ranges::fill(scales.bytes, '\x7F');
    scales.bytes[0] = 0x70;  // row 0: 15 apart
    scales.bytes[3] = 0x01;  // row 1: 126 apart
    scales.bytes[6] = 0x00;  // row 2: zeros, which do not count
    for (std::size_t i = 0; i < 16; ++i) codes.bytes[2 * 48 + i] = '\x08';
    scales.bytes[9] = '\xFF';  // row 3: NaN
    write_checkpoint(folder.file("in"), shards);
    const Checkpoint checkpoint(folder.file("in"));
    const StoredMatrices found = stored_matrices(checkpoint);
    const InspectedMatrix one = inspect_matrix(checkpoint, find(found, "layers.3.ffn.experts.0.w1.weight"));
    EXPECT_EQ(one.exponents.rows, 64U);
    EXPECT_EQ(one.exponents.wide_for_fp8, 2U);
    EXPECT_EQ(one.exponents.wide_for_bf16, 1U);
    EXPECT_EQ(one.exponents.nan, 1U);
    EXPECT_EQ(one.exponents.row_difference, 126);
    std::vector<InspectedMatrix> all;
    for (const StoredMatrix& matrix : found.matrices) all.push_back(inspect_matrix(checkpoint, matrix));
    const std::vector<InspectedClass> classes = inspected_classes(all);
    ASSERT_EQ(classes.size(), 2U);
    EXPECT_EQ(classes[1].pattern, "layers.*.ffn.experts.*.w1.weight");
    EXPECT_EQ(classes[1].count, 2U);
}

/// The findings of a file, as one text.
std::string findings(const std::string& file) {
    std::string text;
    for (const UnreadableMatrix& matrix : stored_matrices(Checkpoint(file)).unreadable) {
        text += matrix.name + " <- " + matrix.finding.message() + "\n";
    }
    return text;
}

TEST(Checkpoint, SaysWhatIsWrongWithScales) {
    const TemporaryFolder folder;
    const auto bytes = [](const char* name, const char* dtype, const std::vector<int>& shape) {
        return random_bytes(name, dtype, shape, 0, 100);
    };
    const auto number = [](const char* name) { return floats(name, {1}, {1.0F}); };
    const std::vector<std::pair<std::vector<FileTensor>, std::string>> cases{
        {{bytes("p_blocks", "U8", {2, 4, 3, 16})},
         "p <- p_blocks: got U8 [2, 4, 3, 16] without scales; expected a tensor with its scales."},
        {{bytes("p_blocks", "U8", {2, 4, 3, 16}), bytes("p_scales", "U8", {2, 4, 2})},
         "p <- p_scales: got U8 [2, 4, 2]; expected [2, 4, 3] for p_blocks with U8 [2, 4, 3, 16]."},
        {{bytes("a.weight", "F8_E4M3", {200, 130})},
         "a.weight <- a.weight: got F8_E4M3 [200, 130] without scales; expected a tensor with its scales."},
        {{bytes("a.weight", "F8_E4M3", {200, 130}), bytes("a.weight_scale_inv", "U8", {2, 2})},
         "a.weight <- a.weight_scale_inv: got U8 [2, 2]; expected [200, 5]"},
        {{bytes("a.weight", "F8_E4M3", {200, 130}), bytes("a.weight_scale", "F8_E4M3", {2, 2})},
         "a.weight <- a.weight_scale: got F8_E4M3 [2, 2]; expected F32, BF16, F16 or F8_E8M0"},
        {{bytes("a.weight", "F8_E4M3", {200, 130}), bytes("a.scale", "F8_E8M0", {1, 2})},
         "a.weight <- a.scale: got F8_E8M0 [1, 2]"},
        {{bytes("a.weight", "I8", {8, 48}), bytes("a.scale", "F8_E8M0", {8, 6})},
         "a.weight <- a.scale: got F8_E8M0 [8, 6]; expected [8, 3] for a.weight with I8 [8, 48]."},
        {{bytes("a.weight_packed", "U8", {8, 32}), bytes("a.weight_scale", "F8_E4M3", {8, 4})},
         "a.weight <- a.weight_scale: got F8_E4M3 [8, 4] without an F32 scale per tensor; expected an F32 scale "
         "per tensor too, for a.weight_packed with U8 [8, 32]."},
        {{bytes("a.weight", "U8", {8, 32}), bytes("a.weight_scale", "F8_E4M3", {8, 2}), number("a.weight_scale_2")},
         "a.weight <- a.weight_scale: got F8_E4M3 [8, 2]; expected [8, 4]"},
        {{bytes("x", "F8_E4M3", {8, 64}), bytes("x.scales", "F8_E8M0", {8, 3})},
         "x <- x.scales: got F8_E8M0 [8, 3]; expected scales of a known recipe for x with F8_E4M3 [8, 64]."},
        {{{"x", "F4", {8, 32}, std::string(128, '\1')}, bytes("x.scales", "F8_E4M3", {8, 2})},
         "x <- x.scales: got F8_E4M3 [8, 2]; expected nvfp4 scales and an F32 scale per tensor"}};
    for (const auto& [tensors, expected] : cases) {
        const std::string file = single(folder, tensors);
        const std::string found = findings(file);
        EXPECT_EQ(found.rfind(expected, 0), 0U) << "found: " << found << "expected: " << expected;
        EXPECT_EQ(std::ranges::count(found, '\n'), 1) << found;
    }
    for (const auto& tensors : {deepseek_v3(), compressed_tensors(), modelopt()}) {
        EXPECT_EQ(findings(single(folder, tensors)), "");
    }
    // Bytes of someone else.
    EXPECT_EQ(findings(single(folder, {bytes("x.packed", "U8", {200}), bytes("x", "F32", {4, 0}),
                                       floats("y", {4, 4}, {1.0F}), floats("y.scales", {3}, {1.0F})})),
              "");
}

TEST(Checkpoint, OneLineForFindingsThatAreAlike) {
    const TemporaryFolder folder;
    std::vector<FileTensor> tensors;
    for (int i = 0; i < 12; ++i) {
        tensors.push_back(random_bytes("m." + std::to_string(i) + ".up.weight", "F8_E4M3", {8, 130}, 0, 100));
    }
    const StoredMatrices found = stored_matrices(Checkpoint(single(folder, tensors)));
    EXPECT_EQ(unreadable_lines(found, true).size(), 12U);
    EXPECT_EQ(
        unreadable_lines(found, false),
        std::vector<std::string>{
            "m.0.up.weight: got F8_E4M3 [8, 130] without scales; expected a tensor with its scales. (and 11 more)"});
}

TEST(Checkpoint, RefusesIndexesThatAreWrong) {
    const TemporaryFolder folder;
    write_checkpoint(folder.file("in"), deepseek_v4());
    const std::string index = folder.file("in") + "/model.safetensors.index.json";
    for (const char* text : {"", "[]", "{\"weight_map\":3}", "{\"weight_map\":{\"x\":\"../secret\"}}",
                             "{\"weight_map\":{\"x\":\"model-1-of-2.safetensors\"}}",
                             "{\"weight_map\":{\"x\":\"missing.safetensors\"}}"}) {
        test::write_file(index, text);
        EXPECT_THROW(Checkpoint{folder.file("in")}, SafetensorsError) << text;
    }
    EXPECT_THROW(Checkpoint{folder.file("nothing")}, SafetensorsError);
}

}  // namespace
}  // namespace tilewright::safetensors
