// Quantizing a file a block of rows at a time gives the same bytes as quantizing each matrix at once.
#include "safetensors/quantize_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "formats/element.h"
#include "output/temporary_folder.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

std::string bytes_of(const SafetensorsReader& reader, const std::string& name) {
    for (const StoredTensor& tensor : reader.header().tensors) {
        if (tensor.name != name) continue;
        std::string bytes(tensor.bytes(), '\0');
        reader.read(tensor, 0, bytes.data(), bytes.size());
        return bytes;
    }
    ADD_FAILURE() << name << " is missing";
    return "";
}

std::string random_elements(Format format, std::uint64_t count) {
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    std::string bytes(count * static_cast<std::uint64_t>(bits(format)) / 8, '\0');
    for (std::uint64_t i = 0; i < count; ++i) {
        formats::store(bytes.data(), format, static_cast<std::int64_t>(i), normal(random));
    }
    return bytes;
}

/// One 2-D and one 3-D matrix of every real dtype, and tensors that are not to be quantized.
std::string write_model(const TemporaryFolder& folder) {
    std::vector<StoredTensor> tensors{{.name = "bias", .dtype = "F32", .shape = {7}},
                                      {.name = "ids", .dtype = "I64", .shape = {2, 2}},
                                      {.name = "deep", .dtype = "F32", .shape = {1, 2, 2, 2}},
                                      {.name = "empty", .dtype = "F32", .shape = {0, 4}}};
    for (const char* dtype : {"F32", "BF16", "F16"}) {
        tensors.push_back({.name = std::string("flat.") + dtype, .dtype = dtype, .shape = {300, 200}});
        tensors.push_back({.name = std::string("experts.") + dtype, .dtype = dtype, .shape = {3, 130, 64}});
    }
    std::string path = folder.file("model.safetensors");
    SafetensorsWriter writer(path, tensors, {{"format", "pt"}});
    for (const StoredTensor& tensor : tensors) {
        const std::uint64_t bytes = stored_bytes(tensor.dtype, tensor.shape).value();
        const Format format = format_of(tensor.dtype).value();
        const std::string data = format == Format::i64
                                     ? std::string(bytes, '\x05')
                                     : random_elements(format, bytes * 8 / static_cast<std::uint64_t>(bits(format)));
        writer.write(tensor.name, 0, data.data(), data.size());
    }
    writer.commit();
    return path;
}

std::string raw(const Tensor& tensor) {
    return {static_cast<const char*>(tensor.data),
            static_cast<std::size_t>(row_major_bytes(tensor.format, tensor.shape))};
}

void expect_equals_whole_quantisation(const SafetensorsReader& before, const SafetensorsReader& after,
                                      const StoredTensor& tensor, const QuantizeOptions& options) {
    const std::string source = bytes_of(before, tensor.name);
    Dims shape;
    for (std::uint64_t size : tensor.shape) shape.push_back(static_cast<std::int64_t>(size));
    const Tensor view = row_major(static_cast<const void*>(source.data()), *format_of(tensor.dtype), shape);
    const OwnedOperand whole = quantize(view, options);
    const Operand& operand = whole.operand();
    EXPECT_TRUE(bytes_of(after, tensor.name) == raw(operand.values)) << tensor.name;
    EXPECT_TRUE(bytes_of(after, tensor.name + ".scales") == raw(operand.scales)) << tensor.name;
    if (operand.tensor_scale.given()) {
        EXPECT_TRUE(bytes_of(after, tensor.name + ".tensor_scale") == raw(operand.tensor_scale)) << tensor.name;
    }
}

TEST(QuantizeFile, EqualsQuantisingEachMatrixAtOnce) {
    const TemporaryFolder folder;
    const std::string input = write_model(folder);
    const SafetensorsReader before(input);
    for (const char* recipe :
         {"tensor", "row", "1x128", "128x128", "mxfp8", "mxfp4", "nvfp4", "e5m2.row", "e5m2.1x128.ue8m0"}) {
        for (bool round_up : {false, true}) {
            SCOPED_TRACE(std::string(recipe) + (round_up ? " rounded up" : ""));
            const QuantizeOptions options{.recipe = parse_operand_recipe(recipe).value(), .round_up = round_up};
            const std::string output = folder.file("out.safetensors");
            const QuantizeResult result = quantize_file({.input = input,
                                                         .output = output,
                                                         .options = options,
                                                         .wanted = [](const std::string&) { return true; },
                                                         .version = "1",
                                                         .block_bytes = 1000});
            EXPECT_EQ(result.quantized, 6U);
            EXPECT_EQ(result.copied, 4U);
            ASSERT_EQ(result.kept.size(), 1U);
            EXPECT_EQ(result.kept[0].name, "empty");
            const SafetensorsReader after(output);
            EXPECT_EQ(after.header().metadata.at("tilewright.recipe"), recipe);
            EXPECT_EQ(after.header().metadata.at("format"), "pt");
            for (const StoredTensor& tensor : before.header().tensors) {
                const bool quantised = tensor.name.find('.') != std::string::npos;
                if (quantised) {
                    expect_equals_whole_quantisation(before, after, tensor, options);
                } else {
                    EXPECT_TRUE(bytes_of(after, tensor.name) == bytes_of(before, tensor.name)) << tensor.name;
                }
            }
        }
    }
}

QuantizeJob job_for(const TemporaryFolder& folder, const std::string& input) {
    return {.input = input,
            .output = folder.file("out.safetensors"),
            .options = {.recipe = parse_operand_recipe("row").value()},
            .wanted = [](const std::string&) { return true; },
            .version = "1"};
}

std::string failure(const QuantizeJob& job) {
    try {
        quantize_file(job);
    } catch (const std::exception& error) {
        return error.what();
    }
    return "";
}

TEST(QuantizeFile, RefusesWhatItCannotDo) {
    const TemporaryFolder folder;
    const std::string input = write_model(folder);
    QuantizeJob none = job_for(folder, input);
    none.wanted = [](const std::string& name) { return name == "bias"; };
    EXPECT_NE(failure(none).find("no tensor to quantize"), std::string::npos);

    const QuantizeJob job = job_for(folder, input);
    EXPECT_EQ(failure(job), "");
    QuantizeJob again = job_for(folder, job.output);
    again.output = folder.file("again.safetensors");
    EXPECT_NE(failure(again).find("already quantized, as row"), std::string::npos);

    const std::string clashing = folder.file("clash.safetensors");
    SafetensorsWriter writer(
        clashing, {{.name = "x", .dtype = "F32", .shape = {1, 1}}, {.name = "x.scales", .dtype = "F32", .shape = {1}}},
        {});
    writer.write("x", 0, "1234", 4);
    writer.write("x.scales", 0, "1234", 4);
    writer.commit();
    EXPECT_NE(failure(job_for(folder, clashing)).find("'x.scales' would be written twice"), std::string::npos);
    EXPECT_EQ(folder.entries(), 3U);  // no other file was left
}

TEST(QuantizeFile, RefusesToReplaceItsInput) {
    const TemporaryFolder folder;
    QuantizeJob job = job_for(folder, write_model(folder));
    job.output = job.input;
    EXPECT_NE(failure(job).find("is the input itself"), std::string::npos);
    EXPECT_EQ(SafetensorsReader(job.input).header().metadata.count("tilewright.recipe"), 0U);
    EXPECT_EQ(folder.entries(), 1U);
}

}  // namespace
}  // namespace tilewright::safetensors
