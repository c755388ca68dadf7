// A run into a used folder leaves what a run into an empty one does, whatever was changed between the two.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <functional>
#include <regex>
#include <thread>

#include "safetensors/checkpoint_tests.h"
#include "safetensors/conversion_record.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

const std::string shard_1 = "model-1-of-2.safetensors";
const std::string shard_2 = "model-2-of-2.safetensors";

/// Runs `job` into the folder that is there and into an empty one.
ConvertResult expect_as_into_an_empty_folder(ConvertJob job, const std::string& what) {
    const TemporaryFolder folder;
    ConvertResult result = convert(job);
    const auto used = contents(job.output);
    job.output = folder.file("empty");
    convert(job);
    EXPECT_EQ(used, contents(job.output)) << what;
    return result;
}

std::string reasons(const ConvertResult& result) {
    std::string text;
    for (const auto& [file, reason] : result.made_again) text += file + ": " + reason + "\n";
    return text;
}

ConvertJob with_filter(ConvertJob job, const std::string& include, const std::string& exclude) {
    job.include = include;
    job.exclude = exclude;
    job.wanted = [=](const std::string& name) {
        return std::regex_search(name, std::regex(include)) &&
               (exclude.empty() || !std::regex_search(name, std::regex(exclude)));
    };
    return job;
}

/// The last byte of a file's data, in place.
void change_in_place(const std::string& path) {
    std::string bytes = test::read_file(path);
    bytes.back() ^= 1;
    test::write_file(path, bytes);
}

void set_times(const std::string& path, const struct stat& status) {
    const timespec times[2]{status.st_atim, status.st_mtim};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST(ConvertResume, TakesNothingOfAnInputThatWasReplaced) {
    const TemporaryFolder folder;
    const std::string in = folder.file("in"), input = in + "/" + shard_1;
    write_checkpoint(in, deepseek_v4());
    const ConvertJob again = job(in, folder.file("out"), "mxfp8");
    struct stat before {};
    ASSERT_EQ(stat(input.c_str(), &before), 0);
    const std::vector<std::pair<std::string, std::function<void()>>> changes{
        {"modified", [&] { change_in_place(input); }},
        {"changed",
         [&] {
             change_in_place(input);
             set_times(input, before);
         }},
        {"inode",
         [&] {
             test::write_file(input + ".new", test::read_file(input));
             change_in_place(input + ".new");
             set_times(input + ".new", before);
             std::filesystem::rename(input + ".new", input);
         }},
        {"size, modified, changed, header", [&] {
             std::string bytes = test::read_file(input);
             bytes.insert(8 + static_cast<unsigned char>(bytes[0]) + 256UL * static_cast<unsigned char>(bytes[1]), 8,
                          ' ');
             bytes[0] = static_cast<char>(bytes[0] + 8);
             test::write_file(input, bytes);
         }}};
    convert(again);
    for (const auto& [field, change] : changes) {
        change();
        const ConvertResult result = expect_as_into_an_empty_folder(again, field);
        EXPECT_NE(reasons(result).find(shard_1 + ": " + shard_1 + " of the input has changed since this file was made"),
                  std::string::npos)
            << reasons(result);
        EXPECT_NE(reasons(result).find(field), std::string::npos) << reasons(result);
        EXPECT_TRUE(convert(again).made_again.empty());
    }
}

TEST(ConvertResume, TakesNothingOfAnInputThatWasReplacedAtOnce) {
    const TemporaryFolder folder;
    const std::string in = folder.file("in");
    for (int round = 0; round < 20; ++round) {  // within one tick of the clock for files
        write_checkpoint(in, deepseek_v4());
        const ConvertJob again = job(in, folder.file("out"), "mxfp4");
        convert(again);
        const Checkpoint before(in), after(again.output);
        ASSERT_EQ(bytes_of(after, "layers.3.ffn.experts.0.w1.weight"),
                  bytes_of(before, "layers.3.ffn.experts.0.w1.weight"));
    }
}

TEST(ConvertResume, NamesAndOptionsNeedNotBeUtf8) {
    const TemporaryFolder folder;
    const std::string in = folder.file("in");
    std::filesystem::create_directories(in);
    write_shard(in + "/model\xFE.safetensors", deepseek_v4()[0]);
    test::write_file(in + "/notes\xFE.txt", "text");
    const ConvertJob again = with_filter(job(in, folder.file("out"), "mxfp8"), "experts|\xFF", "");
    convert(again);
    EXPECT_EQ(convert(again).kept_files.size(), 1U);
}

TEST(ConvertResume, TakesNothingOfOtherOptions) {
    const TemporaryFolder folder;
    const std::string in = folder.file("in");
    write_checkpoint(in, deepseek_v4());
    const ConvertJob first = job(in, folder.file("out"), "nvfp4");
    convert(first);
    ConvertJob packed = job(in, first.output, nullptr);
    packed.pack = PackedFor::bf16;
    packed = with_filter(packed, "experts", "");
    ConvertJob stacked = packed, rounded = first, newer = first, packed_for_fp8 = packed;
    stacked.stack_experts = true;
    rounded.round_up = true;
    newer.version = "later";
    packed_for_fp8.pack = PackedFor::fp8;
    const std::vector<std::pair<std::string, ConvertJob>> runs{
        {"--exclude is 'experts.1', and was ''", with_filter(first, "", "experts.1")},
        {"--exclude is '', and was 'experts.1'", first},
        {"--include is 'experts', and was ''", with_filter(first, "experts", "")},
        {"--round-up is 'true', and was 'false'", with_filter(rounded, "experts", "")},
        {"--to is 'mxfp8', and was 'nvfp4'", job(in, first.output, "mxfp8")},
        {"--to is '', and was 'mxfp8'", packed},
        {"--pack is 'fp8', and was 'bf16'", packed_for_fp8},
        {"--pack is 'bf16', and was 'fp8'", stacked},
        {"version is 'later', and was 'test'", newer},
        {"version is 'test', and was 'later'", first}};
    for (const auto& [reason, run] : runs) {
        const ConvertResult result = expect_as_into_an_empty_folder(run, reason);
        EXPECT_NE(reasons(result).find(shard_1 + ": " + reason), std::string::npos) << reasons(result);
        EXPECT_TRUE(result.kept_files.empty());
    }
    // Names that are chosen by other means than the two options.
    ConvertJob chosen = first;
    chosen.wanted = [](const std::string& name) { return name.find("experts.1") != std::string::npos; };
    EXPECT_NE(reasons(expect_as_into_an_empty_folder(chosen, "chosen")).find("other tensors are chosen"),
              std::string::npos);
}

TEST(ConvertResume, MakesDamagedFilesAgain) {
    const TemporaryFolder folder;
    write_checkpoint(folder.file("in"), deepseek_v4());
    const ConvertJob again = job(folder.file("in"), folder.file("out"), "mxfp8");
    convert(again);
    const std::string shard = again.output + "/" + shard_1, whole = test::read_file(shard);
    std::string dtype = whole;
    dtype.replace(dtype.find("F8_E8M0"), 7, "F8_E4M3");
    std::string middle = whole;
    middle[middle.size() / 2] ^= 4;
    for (const std::string& damaged :
         {middle, dtype, whole.substr(0, whole.size() - 1), whole + "x", std::string(), std::string("garbage")}) {
        test::write_file(shard, damaged);
        const ConvertResult result = expect_as_into_an_empty_folder(again, "damaged");
        EXPECT_EQ(result.made_again.size(), 1U);
        EXPECT_EQ(test::read_file(shard), whole);
    }
}

TEST(ConvertResume, OfSingleFilesToo) {
    const TemporaryFolder folder;
    const std::string in = single(folder, deepseek_v3()), out = folder.file("out.safetensors");
    const ConvertJob again = job(in, out, "mxfp8");
    convert(again);
    const std::string first = test::read_file(out);
    EXPECT_EQ(convert(again).kept_files.size(), 1U);
    change_in_place(in);
    EXPECT_NE(reasons(convert(again)).find("modified"), std::string::npos);
    EXPECT_NE(test::read_file(out), first);
    EXPECT_NE(reasons(convert(job(in, out, "nvfp4"))).find("--to is 'nvfp4', and was 'mxfp8'"), std::string::npos);
    // A file that the user names is replaced, as by cp; the program says what it was.
    write_shard(out, deepseek_v3());
    EXPECT_NE(reasons(convert(again)).find("`tilewright convert` did not write it"), std::string::npos);
    EXPECT_EQ(convert(again).kept_files.size(), 1U);
    // Copied under the name of another conversion's output.
    write_checkpoint(folder.file("folder"), {deepseek_v3()});
    EXPECT_EQ(reasons(convert(job(folder.file("folder"), folder.file("to"), "mxfp8"))), "");
}

TEST(ConvertResume, RefusesAnInputThatChangesWhileItIsRead) {
    const TemporaryFolder folder;
    write_checkpoint(folder.file("in"), deepseek_v4());
    ConvertJob disturbed = job(folder.file("in"), folder.file("out"), "mxfp8");
    disturbed.progress = [&](std::uint64_t, std::uint64_t, const std::string&) {
        change_in_place(folder.file("in") + "/" + shard_2);
    };
    EXPECT_NE(refusal(disturbed).find(shard_2 + ": changed while it was read; run again"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(disturbed.output + "/" + shard_1));
}

}  // namespace
}  // namespace tilewright::safetensors
