// The program as users run it: exit codes, messages, files.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/model_file.h"
#include "cli/running.h"
#include "cli/torch_ranks.h"
#include "safetensors/safetensors.h"

namespace tilewright::cli {
namespace {

using nlohmann::json;
using test::contains;
using test::Outcome;
using test::run_program;
using test::Running;
using test::TemporaryFolder;
using test::write_model;

const std::vector<std::string> commands{"verify", "bench", "tune", "explain", "support", "doctor", "quantize"};

TEST(Program, EveryCommandHasHelpWithAnExample) {
    const Outcome general = run_program({"--help"});
    EXPECT_EQ(general.exit_code, 0);
    for (const std::string& command : commands) {
        EXPECT_TRUE(contains(general.out, command)) << command;
        const Outcome help = run_program({command, "--help"});
        EXPECT_EQ(help.exit_code, 0) << command;
        EXPECT_TRUE(contains(help.out, ":\n  tilewright " + command)) << help.out;
        EXPECT_EQ(help.err, "");
    }
    EXPECT_EQ(run_program({"--version"}).exit_code, 0);
}

struct Misuse {
    std::vector<std::string> arguments;
    std::string message;  // what stderr contains
};

TEST(Program, AnswersMisuseInOneLineWithExitCode2) {
    const std::vector<Misuse> cases{
        {{}, "expected a command: verify, bench"},
        {{"verfy"}, "unknown command 'verfy'; known: verify, bench"},
        {{"verfy", "--help"}, "unknown command 'verfy'; known: verify, bench"},
        {{"bench", "mo", "--help"}, "unexpected argument 'mo'; see `tilewright bench --help`"},
        {{"--fast"}, "unknown option '--fast'; known: --help, --version"},
        {{"doctor", "--fast"}, "unknown option '--fast'; known: --help, --json"},
        {{"doctor", "extra"}, "unexpected argument 'extra'"},
        {{"verify", "--arithmetic", "exact"}, "got 'exact'; expected fast, bit_exact"},
        {{"verify", "--backend", "tpu"}, "got 'tpu'; expected automatic, cpu, hopper"},
        {{"verify", "--filter", "("}, "got '('"},
        {{"verify", "--filter", "no such row"}, "matches no row"},
        {{"bench", "--arithmetic", "hopper"}, "expected --suite"},  // the old name of bit_exact is accepted
        {{"bench"},
         "expected --suite (deepseek-v3, qwen3-235b, gpt-oss, llama-70b, peers, peers-ragged) or --m, --n and --k"},
        {{"bench", "--suite", "gpt-9"},
         "got 'gpt-9'; expected deepseek-v3, qwen3-235b, gpt-oss, llama-70b, peers, peers-ragged"},
        {{"bench", "--suite", "llama-70b", "--op", "k_grouped"}, "llama-70b has no experts"},
        {{"bench", "--suite", "gpt-oss", "--n", "8"}, "--suite sets n and k"},
        {{"bench", "--op", "sparse"}, "got 'sparse'; expected dense, batched"},
        {{"bench", "--recipe", "row:tensor"}, "got 'row:tensor'; expected a:b, each one of tensor, row"},
        {{"bench", "--m", "x"}, "--m: got 'x'; expected an integer from 0 to 2147483647"},
        {{"bench", "--m", "-5"}, "--m: got '-5'; expected an integer from 0 to 2147483647"},
        {{"bench", "--m", "8,99999999999999999999"},
         "--m: got '99999999999999999999'; expected an integer from 0 to 21"},
        {{"bench", "--threads", "4294967297"}, "--threads: got '4294967297'; expected an integer from 0 to 2147483647"},
        {{"bench", "--m", "1", "--n", "4611686018427387904", "--k", "8"},
         "--n: got '4611686018427387904'; expected an"},
        {{"explain", "--m", "1", "--n", "1", "--k", "9223372036854775808"},
         "--k: got '9223372036854775808'; expected an integer"},
        {{"bench", "--flush", "hot"}, "got 'hot'; expected clean, dirty, none"},
        {{"bench", "--backend", "cpu", "--overlap", "--m", "8", "--n", "8", "--k", "128"},
         "--overlap needs the hopper backend; omit it with --backend cpu"},
        {{"bench", "--backend", "cpu", "--sustained", "--m", "8", "--n", "8", "--k", "128"},
         "--sustained needs the hopper backend; omit it with --backend cpu"},
        {{"bench", "--sustained", "--overlap", "--m", "8", "--n", "8", "--k", "128"}, "--overlap"},
        {{"bench", "--suite", "peers-ragged", "--m", "5"},
         "peers-ragged has only these rows: dense 72, 136, 264, 392, 520, 700, 888, 1500; m_grouped_contiguous 40, "
         "130"},
        {{"bench", "--seconds", "nan"}, "--seconds: got 'nan'; expected a positive number of seconds, e.g. 0.5"},
        {{"bench", "--seconds", "1s"}, "--seconds: got '1s'; expected a positive number of seconds"},
        {{"tune", "--random", "3", "--groups", "4"}, "--groups"},
        {{"tune", "--overlap"}, "unknown option '--overlap'"},
        {{"tune"}, "tune: expected --suite"},
        {{"tune", "--layout", "tn"}, "tune: expected --suite"},
        {{"tune", "--layout", "kn"}, "got 'kn'; expected nt, nn, tn, tt"},
        {{"tune", "--unpacked", "--wide-rows", "9"}, "tune: expected --suite"},
        {{"tune", "--rows", "a", "--wide-rows", "9", "--m", "8", "--n", "8", "--k", "128"}, "--wide-rows"},
        {{"tune", "--rows", "a", "--unpacked", "--m", "8", "--n", "8", "--k", "128"}, "--unpacked"},
        {{"quantize"}, "input is required"},
        {{"quantize", "a", "b", "--recipe", "fp3"}, "got 'fp3'; expected tensor, row, 1x128"},
        {{"quantize", "a", "b", "--recipe", "bf16"}, "got 'bf16'"},
        {{"quantize", "a", "b", "--include", "["}, "--include: got '['; expected a regular expression"},
    };
    for (const Misuse& misuse : cases) {
        const Outcome outcome = run_program(misuse.arguments);
        EXPECT_EQ(outcome.exit_code, 2) << misuse.message;
        EXPECT_TRUE(contains(outcome.err, misuse.message)) << outcome.err;
        EXPECT_EQ(outcome.err.rfind("tilewright", 0), 0U) << outcome.err;
        EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
        EXPECT_EQ(outcome.out, "");
    }
}

TEST(Program, AFileThatCannotBeWrittenIsRefusedAheadOfTheWork) {
    const TemporaryFolder folder;
    const std::vector<std::string> verify{"verify", "--backend", "cpu", "--quick", "--filter", "^dense row:row$"};
    const std::vector<std::string> bench{"bench", "--backend", "cpu", "--m", "1", "--n", "8", "--k", "128"};
    for (std::vector<std::string> arguments : {verify, bench}) {
        arguments.insert(arguments.end(), {"--json", folder.file("missing/report.json")});
        const Outcome outcome = run_program(arguments);
        EXPECT_EQ(outcome.exit_code, 1);
        EXPECT_EQ(outcome.out, "");
        EXPECT_TRUE(contains(outcome.err, "missing/report.json: cannot be created")) << outcome.err;
    }
}

TEST(Program, DoctorReportsWithoutAGpu) {
    const Outcome text = run_program({"doctor"});
    EXPECT_EQ(text.exit_code, 0) << text.err;
    for (const char* word : {"CPU", "OpenMP", "BLAS", "CUDA driver", "NVRTC", "NCCL", "cache folder", "backend cpu"}) {
        EXPECT_TRUE(contains(text.out, word)) << word << " in\n" << text.out;
    }
    const TemporaryFolder folder;
    const std::string cache = folder.file("cache");
    const Outcome outcome = run_program({"doctor", "--json", "-"}, {"TILEWRIGHT_CACHE_DIR=" + cache});
    EXPECT_EQ(outcome.exit_code, 0);
    const json report = json::parse(outcome.out);
    EXPECT_EQ(report.at("cache").at("path"), cache);
    EXPECT_EQ(report.at("cache").at("writable"), true);
    EXPECT_GE(report.at("cpu").at("cores"), 1);
    EXPECT_EQ(contains(text.out, "no GPU is needed: the CPU backend has the same API"), report.at("gpus").empty());
    for (const json& backend : report.at("backends")) {
        const bool available = backend.at("available");
        EXPECT_NE(available, !backend.at("problem").get<std::string>().empty()) << backend;
        EXPECT_NE(available, !backend.at("advice").get<std::string>().empty()) << backend;
    }
}

TEST(Program, DoctorNamesTheEngineOfTorchRanks) {
    const json report = json::parse(run_program({"doctor", "--json", "-"}).out);
    const json& ranks = report.at("torch_ranks");
    EXPECT_EQ(ranks.at("collectives") == "gloo", !report.at("backends")[0].at("available").get<bool>()) << ranks;
    EXPECT_TRUE(contains(run_program({"doctor"}).out, ranks.at("text"))) << ranks;
}

cuda::Probe probe_of(int gpus, const std::string& unreached = "") {
    cuda::Probe found;
    found.driver.usable = true;
    found.unreached = unreached;
    for (int i = 0; i < gpus; ++i) found.gpus.push_back({.index = i, .name = "NVIDIA H100", .major = 9});
    return found;
}

TEST(Program, TheEngineOfTorchRanksFollowsFromTheGpus) {
    EXPECT_EQ(torch_ranks(probe_of(0)).text(), "gloo: tokens are on CPUs, because the driver finds no GPU");
    EXPECT_EQ(torch_ranks(probe_of(1)).text(), "NCCL: one GPU, whose rank reaches other hosts by collectives only");
    const std::string unreached = "GPU 0 does not reach the memory of GPU 2";
    EXPECT_EQ(torch_ranks(probe_of(4, unreached)).text(), "NCCL: " + unreached);
    EXPECT_EQ(
        torch_ranks(probe_of(8)).text(),
        "NCCL and symmetric memory: all 8 GPUs reach each other's memory; other hosts are reached by collectives");
    cuda::Probe older = probe_of(2);
    for (cuda::Gpu& gpu : older.gpus) gpu.major = 8;
    EXPECT_EQ(torch_ranks(older).text(), "gloo: tokens are on CPUs, because NVIDIA H100 has compute capability 8.0");
    EXPECT_FALSE(torch_ranks(older).symmetric_memory);
}

TEST(Program, AGpuThatReachesNotAllOthersIsNamed) {
    const auto all = [](int, int) { return true; };
    EXPECT_EQ(cuda::unreached_gpu(8, all), "");
    EXPECT_EQ(cuda::unreached_gpu(1, [](int, int) { return false; }), "");
    const auto in_pairs = [](int index, int other) { return index / 2 == other / 2; };
    EXPECT_EQ(cuda::unreached_gpu(2, in_pairs), "");
    EXPECT_EQ(cuda::unreached_gpu(4, in_pairs), "GPU 0 does not reach the memory of GPU 2");
    EXPECT_EQ(cuda::unreached_gpu(3, [](int index, int) { return index != 2; }),
              "GPU 2 does not reach the memory of GPU 0");
}

TEST(Program, DoctorSaysWhenTheCacheCannotBeUsed) {
    const Outcome outcome = run_program({"doctor", "--json", "-"}, {"TILEWRIGHT_CACHE_DIR=/dev/null/cache"});
    EXPECT_EQ(outcome.exit_code, 0);
    const json cache = json::parse(outcome.out).at("cache");
    EXPECT_EQ(cache.at("writable"), false);
    EXPECT_TRUE(contains(cache.at("advice"), "TILEWRIGHT_CACHE_DIR"));
}

TEST(Program, DoctorNamesTheNcclThatTheLoaderFinds) {
    const std::string folder = TILEWRIGHT_FAKE_NCCL_FOLDER;
    const std::vector<std::string> environment{"LD_LIBRARY_PATH=" + folder};
    const json nccl = json::parse(run_program({"doctor", "--json", "-"}, environment).out).at("nccl");
    EXPECT_EQ(nccl.at("usable"), true);
    EXPECT_EQ(nccl.at("version"), "2.28.9");
    EXPECT_EQ(nccl.at("path"), folder + "/libnccl.so.2");
    EXPECT_EQ(nccl.at("problem"), "");
    EXPECT_EQ(nccl.at("advice"), "");
    EXPECT_TRUE(contains(run_program({"doctor"}, environment).out, "2.28.9, " + folder + "/libnccl.so.2"));
    const TemporaryFolder broken;
    test::write_file(broken.file("libnccl.so.2"), "no library");
    const Outcome outcome = run_program({"doctor", "--json", "-"}, {"LD_LIBRARY_PATH=" + broken.path().string()});
    const json without = json::parse(outcome.out).at("nccl");
    EXPECT_NE(without.at("path"), broken.file("libnccl.so.2"));
    const bool usable = without.at("usable");  // the loader may find another one elsewhere
    EXPECT_NE(usable, !without.at("problem").get<std::string>().empty()) << without;
    EXPECT_NE(usable, !without.at("advice").get<std::string>().empty()) << without;
}

TEST(Program, QuantizesAFile) {
    const TemporaryFolder folder;
    const std::string input = write_model(folder, 300);
    const std::string output = folder.file("out.safetensors");
    const Outcome outcome = run_program({"quantize", input, output, "--recipe", "mxfp8", "--round-up"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");  // no progress bar unless stderr is a terminal
    EXPECT_TRUE(contains(outcome.out, "1 tensors quantized (mxfp8), 0 copied"));
    const safetensors::SafetensorsReader reader(output);
    EXPECT_EQ(reader.header().metadata.at("tilewright.round_up"), "true");
    EXPECT_EQ(reader.header().tensors.size(), 2U);
}

TEST(Program, RefusesABrokenFileAndLeavesNothing) {
    const TemporaryFolder folder;
    const std::string input = write_model(folder, 8);
    std::filesystem::resize_file(input, std::filesystem::file_size(input) - 1);
    const std::size_t entries = folder.entries();
    const Outcome outcome = run_program({"quantize", input, folder.file("out.safetensors")});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_TRUE(contains(outcome.err, "tilewright: " + input + ": tensor 'w' claims the bytes 0 to 32768 of 32767"))
        << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
    EXPECT_EQ(folder.entries(), entries);
    EXPECT_EQ(run_program({"quantize", folder.file("none"), folder.file("out")}).exit_code, 1);
}

TEST(Program, VerifyPassesQuickly) {
    const TemporaryFolder folder;
    const std::string path = folder.file("report.json");
    const Outcome outcome = run_program({"verify", "--backend", "cpu", "--quick", "--filter", "dense", "--json", path});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    EXPECT_TRUE(contains(outcome.out, " 0 failed"));
    const json report = json::parse(test::read_file(path));
    EXPECT_EQ(report.at("failed"), 0);
    EXPECT_GT(report.at("rows").size(), 20U);
}

TEST(Program, ExplainTakesTheShortRecipesOfBench) {
    const auto explained = [](const char* recipe) {
        const Outcome outcome = run_program(
            {"explain", "dense", "--m", "64", "--n", "128", "--k", "128", "--device", "h200", "--recipe", recipe});
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        return outcome.out;
    };
    EXPECT_EQ(explained("1d2d"), explained("1x128:128x128"));
    EXPECT_EQ(explained("row"), explained("row:row"));
}

TEST(Program, PlansForTheGpuOfADeviceFile) {
    const TemporaryFolder folder;
    const std::string shipped = test::read_file(TILEWRIGHT_DEVICES "/h100_pcie.tsv");
    const auto write = [&](const std::string& text) {
        test::write_file(folder.file("my.tsv"), text);
        return folder.file("my.tsv");
    };
    const auto explained = [](const std::string& device) {
        return run_program({"explain", "dense", "--m", "8", "--n", "1536", "--k", "2048", "--device", device});
    };
    EXPECT_EQ(explained(write(shipped)).out, explained("h100-pcie").out);
    const Outcome verified = run_program({"verify", "--backend", "cpu", "--arithmetic", "bit_exact", "--quick",
                                          "--filter", "dense row:row", "--device", write(shipped)});
    EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
    const Outcome wrong = explained(write(shipped + "sms\t0\tSMs\tby hand\n"));
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_TRUE(contains(wrong.err, "device: got sms again in line 21 of '" + folder.file("my.tsv") + "'; expected"))
        << wrong.err;
    const Outcome missing = explained(folder.file("none.tsv"));
    EXPECT_EQ(missing.exit_code, 2);
    EXPECT_TRUE(contains(missing.err, "none.tsv', which does not exist; expected a device file")) << missing.err;
    EXPECT_TRUE(contains(explained("h300").err, "--device: got 'h300'; expected h200, ")) << explained("h300").err;
}

TEST(Program, SaysWhyABackendIsUnavailable) {
    const json report = json::parse(run_program({"doctor", "--json", "-"}).out);
    for (const json& backend : report.at("backends")) {
        const std::string name = backend.at("backend");
        for (const char* command : {"verify", "bench"}) {
            std::vector<std::string> arguments{command, "--backend", name};
            if (arguments.front() == "verify")
                arguments.insert(arguments.end(), {"--quick", "--filter", "dense row:row"});
            if (arguments.front() == "bench") arguments.insert(arguments.end(), {"--m", "1", "--n", "8", "--k", "16"});
            const Outcome outcome = run_program(arguments);
            EXPECT_EQ(outcome.exit_code, backend.at("available") ? 0 : 1) << outcome.err;
            if (backend.at("available")) continue;
            EXPECT_TRUE(contains(outcome.err, "backend " + name + " is unavailable: ")) << outcome.err;
            EXPECT_TRUE(contains(outcome.err, backend.at("advice"))) << outcome.err;
        }
    }
}

TEST(Program, BenchWritesJsonLines) {
    const Outcome outcome = run_program({"bench",
                                         "--backend",
                                         "cpu",
                                         "--m",
                                         "3",
                                         "--n",
                                         "64",
                                         "--k",
                                         "256",
                                         "--op",
                                         "dense,m_grouped_masked,k_grouped",
                                         "--recipe",
                                         "row:row,mxfp8:mxfp4",
                                         "--seconds",
                                         "0.01",
                                         "--repeats",
                                         "3",
                                         "--peers",
                                         "--json",
                                         "-"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    std::size_t own = 0;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) {
        const json object = json::parse(line);
        for (const char* key : {"peer", "op", "shape", "us", "tflops", "gbs", "floor_us", "ratio", "device"}) {
            EXPECT_TRUE(object.contains(key)) << key;
        }
        EXPECT_GT(object.at("us"), 0);
        EXPECT_GT(object.at("floor_us"), 0);
        if (contains(object.at("peer"), "Tilewright")) ++own;
    }
    EXPECT_EQ(own, 6U);
}

}  // namespace
}  // namespace tilewright::cli
