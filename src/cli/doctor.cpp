// `tilewright doctor`: what this machine has, what is missing, why, and what to do about it.
#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/backends.h"
#include "cli/commands.h"
#include "cli/torch_ranks.h"
#include "cpu/blas.h"
#include "cpu/isa.h"
#include "cuda/disk_cache.h"
#include "cuda/environment.h"
#include "cuda/kernel_pack.h"
#include "cuda/probe.h"
#include "output/file.h"
#include "output/json.h"
#include "output/streams.h"
#include "output/table.h"
#include "ranks/nccl_library.h"

namespace tilewright::cli {
namespace {

using nlohmann::ordered_json;

struct CacheFolder {
    std::string path{};
    bool writable = false;
    std::string problem{};
    std::string advice{};
};

const char* name_of(cpu::Isa isa) {
    switch (isa) {
        case cpu::Isa::baseline: return "baseline";
        case cpu::Isa::avx2: return "avx2";
        case cpu::Isa::avx512: return "avx512";
    }
    return "unknown";
}

/// Looks, but does not make the folder: a folder that is not there yet is judged by the parent that it would be in.
CacheFolder find_cache_folder() {
    namespace fs = std::filesystem;
    CacheFolder folder{.path = cuda::read_environment().cache_directory};
    folder.advice = "set TILEWRIGHT_CACHE_DIR to a writable folder";
    if (folder.path.empty()) {
        folder.problem = "the home folder is unknown";
        return folder;
    }
    std::error_code error;
    fs::path existing = fs::absolute(folder.path, error);
    while (!fs::exists(existing, error) && existing.has_relative_path()) existing = existing.parent_path();
    if (!fs::is_directory(existing, error)) {
        folder.problem = existing.string() + " is not a folder";
    } else if (access(existing.c_str(), W_OK | X_OK) != 0) {
        folder.problem = existing.string() + " is not writable";
    } else {
        folder.writable = true;
        folder.advice.clear();
    }
    return folder;
}

ordered_json library_report(const cuda::Library& library) {
    return {{"usable", library.usable},
            {"version", library.version},
            {"path", library.path},
            {"problem", library.problem},
            {"advice", library.advice}};
}

ordered_json blas_report() {
    const cpu::BlasStatus& blas = cpu::blas_status();
    return {{"usable", blas.found},
            {"version", blas.config},
            {"path", blas.file},
            {"problem", blas.found ? "" : "OpenBLAS was not found"},
            {"advice", blas.advice}};
}

ordered_json gpu_report(const std::vector<cuda::Gpu>& gpus) {
    ordered_json list = ordered_json::array();
    for (const cuda::Gpu& gpu : gpus) {
        list.push_back({{"index", gpu.index},
                        {"name", gpu.name},
                        {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
                        {"multiprocessors", gpu.multiprocessors},
                        {"memory_bytes", gpu.memory_bytes}});
    }
    return list;
}

ordered_json backend_report(const std::vector<BackendStatus>& statuses) {
    ordered_json list = ordered_json::array();
    for (const BackendStatus& status : statuses) {
        list.push_back({{"backend", name(status.backend)},
                        {"available", status.available},
                        {"device", status.device},
                        {"problem", status.why},
                        {"advice", status.advice}});
    }
    return list;
}

ordered_json torch_ranks_report(const cuda::Probe& found) {
    const TorchRanks ranks = torch_ranks(found);
    return {{"collectives", ranks.collectives},
            {"symmetric_memory", ranks.symmetric_memory},
            {"why", ranks.why},
            {"text", ranks.text()}};
}

ordered_json pack_report() {
    const cuda::KernelPack& pack = cuda::embedded_pack();
    const bool usable = !pack.kernels().empty();
    return {{"usable", usable},
            {"kernels", pack.kernels().size()},
            {"bytes", pack.bytes()},
            {"problem", usable ? "" : "this library was built without NVRTC"},
            {"advice", usable ? "" : "kernels are compiled on first use, which needs NVRTC"}};
}

ordered_json cache_report() {
    const CacheFolder cache = find_cache_folder();
    const cuda::DiskCache::Contents contents = cuda::DiskCache(cache.path).contents();
    return {{"path", cache.path},      {"writable", cache.writable}, {"kernels", contents.kernels},
            {"bytes", contents.bytes}, {"problem", cache.problem},   {"advice", cache.advice}};
}

ordered_json examine() {
    const cuda::Probe found = cuda::probe();
    return {{"version", TILEWRIGHT_VERSION},
            {"cpu",
             {{"name", cpu_name()},
              {"vector_level", name_of(cpu::best_isa())},
              {"cores", usable_cores()},
              {"openmp_threads", omp_get_max_threads()}}},
            {"blas", blas_report()},
            {"cuda_driver", library_report(found.driver)},
            {"gpus", gpu_report(found.gpus)},
            {"nvrtc", library_report(found.nvrtc)},
            {"nccl", library_report(ranks::probe_nccl())},
            {"torch_ranks", torch_ranks_report(found)},
            {"kernel_pack", pack_report()},
            {"cache", cache_report()},
            {"backends", backend_report(backend_statuses(found))}};
}

std::string text_of(const ordered_json& object, const char* key) { return object.at(key).get<std::string>(); }

/// "found: <path>" or "missing: <problem>", with the advice below.
void add_library(output::Table& table, const std::string& what, const ordered_json& library) {
    if (library.at("usable").get<bool>()) {
        table.add({what, "ok", fmt::format("{}, {}", text_of(library, "version"), text_of(library, "path"))});
    } else {
        table.add({what, "missing", text_of(library, "problem")});
        table.add({"", "", "-> " + text_of(library, "advice")});
    }
}

void add_backends(output::Table& table, const ordered_json& backends) {
    for (const ordered_json& backend : backends) {
        const std::string what = "backend " + text_of(backend, "backend");
        if (backend.at("available").get<bool>()) {
            table.add({what, "ok", text_of(backend, "device")});
        } else {
            table.add({what, "unavailable", text_of(backend, "problem")});
            table.add({"", "", "-> " + text_of(backend, "advice")});
        }
    }
}

std::string kernels_of(const ordered_json& holder) {
    return fmt::format("{} kernels, {}", holder.at("kernels").get<std::int64_t>(),
                       output::format_bytes(holder.at("bytes").get<double>()));
}

void add_kernels(output::Table& table, const ordered_json& pack, const ordered_json& cache) {
    if (pack.at("usable").get<bool>()) {
        table.add({"kernel pack", "ok", kernels_of(pack)});
    } else {
        table.add({"kernel pack", "missing", text_of(pack, "problem")});
        table.add({"", "", "-> " + text_of(pack, "advice")});
    }
    if (cache.at("writable").get<bool>()) {
        table.add({"cache folder", "ok", text_of(cache, "path") + ", " + kernels_of(cache)});
    } else {
        table.add({"cache folder", "unusable", text_of(cache, "problem")});
        table.add({"", "", "-> " + text_of(cache, "advice")});
    }
}

void print_report(const ordered_json& report) {
    output::Table table({{.title = "what"}, {.title = "state"}, {.title = "details"}});
    const ordered_json& cpu = report.at("cpu");
    table.add({"tilewright", "ok", "version " + text_of(report, "version")});
    table.add({"CPU", "ok",
               fmt::format("{}, {} cores, vector level {}", text_of(cpu, "name"), cpu.at("cores").get<int>(),
                           text_of(cpu, "vector_level"))});
    table.add({"OpenMP", "ok", fmt::format("{} threads", cpu.at("openmp_threads").get<int>())});
    add_library(table, "BLAS", report.at("blas"));
    add_library(table, "CUDA driver", report.at("cuda_driver"));
    for (const ordered_json& gpu : report.at("gpus")) {
        table.add({fmt::format("GPU {}", gpu.at("index").get<int>()), "ok",
                   fmt::format("{}, compute capability {}, {} multiprocessors, {}", text_of(gpu, "name"),
                               text_of(gpu, "compute_capability"), gpu.at("multiprocessors").get<int>(),
                               output::format_bytes(gpu.at("memory_bytes").get<double>()))});
    }
    if (report.at("gpus").empty()) {
        table.add({"GPU", "none", "none found"});
        table.add({"", "", "-> no GPU is needed: the CPU backend has the same API and, on request, the same bits"});
    }
    add_library(table, "NVRTC", report.at("nvrtc"));
    add_library(table, "NCCL", report.at("nccl"));
    table.add({"torch ranks", "ok", text_of(report.at("torch_ranks"), "text")});
    add_kernels(table, report.at("kernel_pack"), report.at("cache"));
    add_backends(table, report.at("backends"));
    output::print("{}", table.text());
}

}  // namespace

void add_doctor(CLI::App& program) {
    CLI::App* command =
        program.add_subcommand("doctor", "Show what this machine has, what is missing and how to fix it");
    command->footer("Example:\n  tilewright doctor\n  tilewright doctor --json -");
    const auto json_path = std::make_shared<std::string>();
    command->add_option("--json", *json_path, "Also write the report to this file as JSON (-: only JSON, to stdout)");
    command->callback([json_path] {
        const ordered_json report = examine();
        if (!json_path->empty()) output::write_text(*json_path, output::json_text(report, 2) + "\n");
        if (*json_path != "-") print_report(report);
    });
}

}  // namespace tilewright::cli
