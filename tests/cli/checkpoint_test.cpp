// `tilewright inspect` and `tilewright convert` as a user calls them.
#include <gtest/gtest.h>

#include "cli/model_file.h"
#include "cli/running.h"
#include "safetensors/checkpoint_files.h"

namespace tilewright::cli {
namespace {

using test::contains;
using test::Outcome;
using test::run_program;
using test::TemporaryFolder;
using test::write_model;

TEST(ProgramCheckpoint, QuantisesInspectsPacksAndInspectsAgain) {
    const TemporaryFolder folder;
    const std::string quantised = folder.file("mxfp4.safetensors");
    const std::string packed = folder.file("packed.safetensors");
    ASSERT_EQ(run_program({"quantize", write_model(folder, 8), quantised, "--recipe", "mxfp4"}).exit_code, 0);
    const Outcome before = run_program({"inspect", quantised});
    EXPECT_EQ(before.exit_code, 0) << before.err;
    EXPECT_TRUE(contains(before.out, "mxfp4") && contains(before.out, "all uniform")) << before.out;
    const Outcome conversion = run_program({"convert", quantised, packed, "--pack", "bf16"});
    EXPECT_EQ(conversion.exit_code, 0) << conversion.err;
    EXPECT_TRUE(contains(conversion.out, "mxfp4 packed for bf16") && contains(conversion.out, "exact"))
        << conversion.out;
    EXPECT_TRUE(contains(run_program({"inspect", packed, "--each"}).out, "packed"));
    EXPECT_TRUE(contains(run_program({"convert", quantised, packed, "--pack", "bf16"}).out,
                         "already complete, from an earlier run"));
}

TEST(ProgramCheckpoint, StacksExpertsAndPacksThem) {
    const TemporaryFolder folder;
    safetensors::write_checkpoint(folder.file("in"), safetensors::deepseek_v4());
    const Outcome conversion = run_program(
        {"convert", folder.file("in"), folder.file("out"), "--pack", "fp8", "--include", "experts", "--stack-experts"});
    EXPECT_EQ(conversion.exit_code, 0) << conversion.err;
    EXPECT_TRUE(contains(conversion.out, "layers.3.ffn.experts.w1.weight") &&
                contains(conversion.out, "mxfp4, 2 experts") && contains(conversion.out, "exact"))
        << conversion.out;
    EXPECT_TRUE(contains(run_program({"inspect", folder.file("out")}).out, "[2, 64, 96]"));
}

TEST(ProgramCheckpoint, WarnsOfMatricesThatCannotBeRead) {
    const TemporaryFolder folder;
    const std::string file = folder.file("in.safetensors"), out = folder.file("out");
    auto tensors = safetensors::deepseek_v3();
    tensors.erase(tensors.begin() + 1);
    safetensors::write_shard(file, tensors);
    const std::string expected =
        "down_proj.weight: got F8_E4M3 [200, 130] without scales; expected a tensor with its scales.";
    const Outcome inspection = run_program({"inspect", file});
    EXPECT_EQ(inspection.exit_code, 0) << inspection.err;
    EXPECT_TRUE(contains(inspection.out, "warning: 1 matrices cannot be read") && contains(inspection.out, expected))
        << inspection.out;
    const Outcome conversion = run_program({"convert", file, out, "--to", "mxfp4"});
    EXPECT_EQ(conversion.exit_code, 1);
    EXPECT_TRUE(contains(conversion.err, expected)) << conversion.err;
    EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(ProgramCheckpoint, SaysWhatItKeptCopiedAndMadeAgain) {
    const TemporaryFolder folder;
    const std::string in = folder.file("in"), out = folder.file("out");
    auto tensors = safetensors::deepseek_v3();
    for (const std::string number : {"0", "1"}) {
        tensors.push_back(safetensors::random_bytes("e." + number + ".w", "F8_E5M2", {8, 8}, 0, 100));
        tensors.push_back(safetensors::floats("e." + number + ".w_scale", {1}, {0.5F}));
    }
    safetensors::write_checkpoint(in, {tensors});
    test::write_file(in + "/config.json",
                     "{\"limit\": Infinity, \"quantization_config\": {\"quant_method\": \"fp8\"}}");
    test::write_file(in + "/tokenizer.json", "{}");
    test::write_file(in + "/old.bin", "");
    const Outcome first = run_program({"convert", in, out, "--to", "mxfp8", "--exclude", "w$"});
    EXPECT_EQ(first.exit_code, 0) << first.err;
    EXPECT_TRUE(contains(first.out, "copied: tokenizer.json\n") &&
                contains(first.out, "not copied: old.bin: weights of another format\n") &&
                contains(first.out, "kept unchanged: e.*.w (2): ") &&
                contains(first.out, ", with e.*.w_scale: not chosen by --include and --exclude\n"))
        << first.out;
    const std::string config = test::read_file(out + "/config.json");
    EXPECT_TRUE(contains(config, "{\"limit\": Infinity,") && contains(config, "{\"quant_method\": \"fp8\"}")) << config;
    const std::string shard = "model-1-of-1.safetensors";
    const Outcome second = run_program({"convert", in, out, "--to", "mxfp8", "--exclude", "e\\.[01]"});
    EXPECT_TRUE(contains(second.out, shard + ": made again: --exclude is 'e\\.[01]', and was 'w$'\n")) << second.out;
    test::write_file(out + "/mine.safetensors", "");
    const Outcome third = run_program({"convert", in, out, "--to", "mxfp8"});
    EXPECT_EQ(third.exit_code, 1);
    EXPECT_TRUE(contains(third.err, "mine.safetensors: not a file of this conversion")) << third.err;
    test::write_file(in + "/config.json", "");
    const Outcome broken = run_program({"convert", in, folder.file("none"), "--to", "mxfp8"});
    EXPECT_EQ(broken.exit_code, 1);
    EXPECT_TRUE(contains(broken.err, "config.json: not a JSON object that Python can read: byte 0")) << broken.err;
    EXPECT_FALSE(std::filesystem::exists(folder.file("none")));
}

TEST(ProgramCheckpoint, QuantizeKeepsScalesAndSaysSo) {
    const TemporaryFolder folder;
    const std::string file = folder.file("in.safetensors");
    auto tensors = safetensors::deepseek_v3();
    tensors.push_back(safetensors::floats("free.weight", {8, 8}, {1.0F}));
    safetensors::write_shard(file, tensors);
    const Outcome outcome = run_program({"quantize", file, folder.file("out"), "--recipe", "mxfp8"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_TRUE(contains(outcome.out,
                         "kept unchanged: model.layers.1.mlp.down_proj.weight: F8_E4M3 [200, 130], already quantized; "
                         "its scales: model.layers.1.mlp.down_proj.weight_scale_inv\n") &&
                contains(outcome.out, "1 tensors quantized (mxfp8), 3 copied"))
        << outcome.out;
}

TEST(ProgramCheckpoint, WritesWhatEnginesLoad) {
    const TemporaryFolder folder;
    const std::string in = folder.file("in"), out = folder.file("out");
    safetensors::write_checkpoint(in, {safetensors::modelopt()});
    test::write_file(in + "/config.json", "{}");
    EXPECT_TRUE(contains(run_program({"inspect", in}).out, "\nengines with Tilewright: none: model.layers.0"));
    const Outcome conversion = run_program({"convert", in, out, "--as", "fp8"});
    EXPECT_EQ(conversion.exit_code, 0) << conversion.err;
    EXPECT_TRUE(contains(run_program({"inspect", out}).out,
                         "\nengines with Tilewright: transformers, vLLM and SGLang, and callers of deep_gemm\n"));
    const Outcome both = run_program({"convert", in, folder.file("none"), "--as", "fp8", "--pack", "fp8"});
    EXPECT_EQ(both.exit_code, 2);
    EXPECT_TRUE(contains(both.err, "expected neither --to, --pack nor --stack-experts")) << both.err;
    EXPECT_EQ(run_program({"convert", in, folder.file("none"), "--as", "gptq"}).exit_code, 2);
}

TEST(ProgramCheckpoint, SaysWhatItNeeds) {
    const TemporaryFolder folder;
    const std::string model = write_model(folder, 8);
    const Outcome nothing = run_program({"convert", model, folder.file("out")});
    EXPECT_EQ(nothing.exit_code, 2);
    EXPECT_TRUE(contains(nothing.err, "expected --to, --pack or both")) << nothing.err;
    const Outcome unquantised = run_program({"convert", model, folder.file("out"), "--to", "mxfp8"});
    EXPECT_EQ(unquantised.exit_code, 1);
    EXPECT_TRUE(contains(unquantised.err, "no matrix to convert") && contains(unquantised.err, "`tilewright quantize`"))
        << unquantised.err;
    const std::string fp8 = folder.file("fp8.safetensors");
    ASSERT_EQ(run_program({"quantize", model, fp8, "--recipe", "128x128"}).exit_code, 0);
    const Outcome not_fp4 = run_program({"convert", fp8, folder.file("out"), "--pack", "fp8"});
    EXPECT_EQ(not_fp4.exit_code, 1);
    EXPECT_TRUE(contains(not_fp4.err,
                         "no matrix to convert: 1 chosen, the first is w (128x128): only mxfp4 and nvfp4 can be "
                         "packed; convert it with --to mxfp4"))
        << not_fp4.err;
    EXPECT_EQ(run_program({"convert", model, folder.file("out"), "--to", "128x128", "--pack", "fp8"}).exit_code, 2);
    EXPECT_EQ(run_program({"inspect", folder.file("missing")}).exit_code, 1);
}

}  // namespace
}  // namespace tilewright::cli
