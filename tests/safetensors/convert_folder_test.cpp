// Files of a folder that are no weights, files of earlier runs, and files of the user's.
#include <gtest/gtest.h>

#include "safetensors/checkpoint_tests.h"
#include "safetensors/side_files.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

std::string left(const ConvertResult& result) {
    std::string text;
    for (const auto& [file, reason] : result.files_not_copied) text += file + ": " + reason + "\n";
    return text;
}

TEST(ConvertFolder, CopiesWhatIsNoWeightAndNamesTheRest) {
    const TemporaryFolder folder;
    const std::string in = folder.file("in"), out = folder.file("out");
    write_checkpoint(in, deepseek_v4());
    const std::vector<std::string> copied{"LICENSE",         "chat_template.jinja", "generation_config.json",
                                          "merges.txt",      "modeling_x.py",       "tokenizer.json",
                                          "tokenizer.model", "vocab.JSON"};
    for (const std::string& name : copied) test::write_file(in + "/" + name, name + std::string("\0\xFF\r\n", 4));
    for (const char* name :
         {"pytorch_model-1.bin", "x.gguf", "consolidated.00.PTH", "extra.safetensors", ".gitattributes",
          "pytorch_model.bin.index.json", "tensors.unknown", "hf_quant_config.json"}) {
        test::write_file(in + "/" + name, "{}");
    }
    std::filesystem::create_directory(in + "/original");
    const ConvertJob once = job(in, out, "mxfp8");
    const ConvertResult result = convert(once);
    EXPECT_EQ(result.copied_files, copied);
    for (const std::string& name : copied) {
        EXPECT_EQ(test::read_file(out + "/" + name), test::read_file(in + "/" + name)) << name;
    }
    EXPECT_EQ(left(result),
              ".gitattributes: hidden\nconsolidated.00.PTH: weights of another format\nextra.safetensors: not in the "
              "index\nhf_quant_config.json: it describes how the input is quantized; config.json describes what is "
              "kept\noriginal: a folder\npytorch_model-1.bin: weights of another format\npytorch_model.bin.index.json: "
              "the index of other weights\ntensors.unknown: of an unknown kind\nx.gguf: weights of another format\n");
    for (const auto& [name, reason] : result.files_not_copied) EXPECT_FALSE(std::filesystem::exists(out + "/" + name));

    // Another tokenizer, and one file less.
    test::write_file(in + "/tokenizer.json", "another");
    std::filesystem::remove(in + "/merges.txt");
    const ConvertResult again = convert(once);
    EXPECT_EQ(again.kept_files.size(), 2U);
    EXPECT_EQ(again.removed_files, std::vector<std::string>{"merges.txt"});
    EXPECT_EQ(test::read_file(out + "/tokenizer.json"), "another");
    convert(job(in, folder.file("empty"), "mxfp8"));
    EXPECT_EQ(contents(out), contents(folder.file("empty")));
}

TEST(ConvertFolder, FollowsLinksAsInACacheOfDownloads) {
    const TemporaryFolder folder;
    const std::string blobs = folder.file("blobs"), in = folder.file("snapshot"), out = folder.file("out");
    write_checkpoint(blobs, deepseek_v4());
    test::write_file(blobs + "/tokenizer.json", "words");
    std::filesystem::create_directory(in);
    for (const auto& [name, bytes] : contents(blobs))
        std::filesystem::create_symlink("../blobs/" + name, in + "/" + name);
    convert(job(in, out, "mxfp8"));
    convert(job(blobs, folder.file("from blobs"), "mxfp8"));
    EXPECT_EQ(contents(out), contents(folder.file("from blobs")));
    EXPECT_FALSE(std::filesystem::is_symlink(out + "/tokenizer.json"));
    // A blob that was never downloaded.
    std::filesystem::create_symlink("../blobs/gone", in + "/vocab.json");
    EXPECT_NE(refusal(job(in, folder.file("y"), "mxfp8")).find("vocab.json: a broken link"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(folder.file("y")));
}

TEST(ConvertFolder, RemovesItsOwnFilesOfAnEarlierRunOnly) {
    const TemporaryFolder folder;
    const std::string in = folder.file("in"), out = folder.file("out");
    const auto shards = deepseek_v4();
    write_checkpoint(in, shards);
    convert(job(in, out, "mxfp8"));
    std::vector<FileTensor> all = shards[0];
    all.insert(all.end(), shards[1].begin(), shards[1].end());
    std::filesystem::remove_all(in);
    write_checkpoint(in, {all});
    test::write_file(out + "/notes.txt", "mine");
    const ConvertResult result = convert(job(in, out, "mxfp8"));
    EXPECT_EQ(result.removed_files, (std::vector<std::string>{"model-1-of-2.safetensors", "model-2-of-2.safetensors"}));
    EXPECT_EQ(test::read_file(out + "/notes.txt"), "mine");
    std::filesystem::remove(out + "/notes.txt");
    convert(job(in, folder.file("empty"), "mxfp8"));
    EXPECT_EQ(contents(out), contents(folder.file("empty")));
    // A folder with one file and no index, where there was an index.
    std::filesystem::remove(in + "/model.safetensors.index.json");
    EXPECT_EQ(convert(job(in, out, "mxfp8")).removed_files, std::vector<std::string>{index_name});
    EXPECT_EQ(Checkpoint(out).shards().size(), 1U);
}

TEST(ConvertFolder, RefusesToLoseFilesOfTheUsers) {
    const TemporaryFolder folder;
    const std::string in = folder.file("in"), out = folder.file("out");
    write_checkpoint(in, deepseek_v4());
    test::write_file(in + "/tokenizer.json", "words");
    write_shard(folder.file("other.safetensors"), deepseek_v3());
    const std::string other = test::read_file(folder.file("other.safetensors"));
    const std::vector<std::array<std::string, 3>> files{
        {"model-1-of-2.safetensors", other, "exists, and no earlier run wrote it"},
        {"model-2-of-2.safetensors", "no weights", "exists, and no earlier run wrote it"},
        {"mine.safetensors", other, "not a file of this conversion"},
        {"config.json", "{}", "is there with other contents"},
        {"tokenizer.json", "mine", "is there with other contents"},
        {record_name, "mine", "is not what a run writes there"},
        {index_name, R"({"weight_map":{"gone":"gone.safetensors"}})", "is there with other contents"}};
    for (const bool after_a_run : {false, true}) {
        for (const auto& [name, bytes, said] : files) {
            std::filesystem::remove_all(out);
            std::filesystem::create_directory(out);
            if (after_a_run) convert(job(in, out, "mxfp4"));
            if (after_a_run && name == "model-2-of-2.safetensors") continue;  // damaged: made again
            test::write_file(out + "/" + name, bytes);
            const auto before = contents(out);
            const std::string error = refusal(job(in, out, "mxfp8"));
            EXPECT_EQ(error.rfind(out + "/" + name + ": ", 0), 0U) << error;
            EXPECT_TRUE(after_a_run || error.find(said) != std::string::npos) << error;
            EXPECT_EQ(contents(out), before) << name;
        }
    }
    // What is there already needs no writing.
    std::filesystem::remove_all(out);
    std::filesystem::create_directory(out);
    test::write_file(out + "/tokenizer.json", "words");
    EXPECT_EQ(refusal(job(in, out, "mxfp8")), "");
    // A stale file that the user has changed since stays, and is named.
    std::filesystem::remove(in + "/tokenizer.json");
    test::write_file(out + "/tokenizer.json", "mine");
    EXPECT_NE(left(convert(job(in, out, "mxfp8"))).find("tokenizer.json: it is in the output, changed"),
              std::string::npos);
    EXPECT_EQ(test::read_file(out + "/tokenizer.json"), "mine");
}

TEST(ConvertFolder, IsNoCheckpointWhileItIsWritten) {
    const TemporaryFolder folder;
    const std::string in = folder.file("in"), out = folder.file("out");
    write_checkpoint(in, deepseek_v4());
    convert(job(in, out, "mxfp8"));
    ConvertJob ended = job(in, out, "nvfp4");
    ended.progress = [](std::uint64_t, std::uint64_t, const std::string& what) {
        if (what == "layers.3.ffn.experts.1.w1.weight") throw std::runtime_error("ended");
    };
    EXPECT_EQ(refusal(ended), "ended");
    EXPECT_FALSE(std::filesystem::exists(out + "/" + index_name));
    EXPECT_FALSE(std::filesystem::exists(out + "/" + config_name));
    ended.progress = nullptr;
    EXPECT_EQ(convert(ended).kept_files, std::vector<std::string>{"model-1-of-2.safetensors"});
    convert(job(in, folder.file("empty"), "nvfp4"));
    EXPECT_EQ(contents(out), contents(folder.file("empty")));
}

TEST(ConvertFolder, KeepsTheMetadataOfFiles) {
    const TemporaryFolder folder;
    const std::string in = folder.file("in.safetensors"), out = folder.file("out.safetensors");
    write_shard(in, deepseek_v3());
    std::string bytes = test::read_file(in);
    const std::string metadata = R"({"__metadata__":{"format":"tf","who":"me","tilewright.recipe":"mxfp8"},)";
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < 8; ++i) length |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    bytes.replace(8, 1, metadata);
    length += metadata.size() - 1;
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i) & 255);
    test::write_file(in, bytes);
    convert(job(in, out, "mxfp8"));
    const Metadata kept = SafetensorsReader(out).header().metadata;
    EXPECT_EQ(kept.at("who"), "me");
    EXPECT_EQ(kept.at("format"), "tf");
    EXPECT_FALSE(kept.contains("tilewright.recipe"));
}

}  // namespace
}  // namespace tilewright::safetensors
