// Where machine code comes from: the pack, the cache folder, NVRTC; and what a damaged or shared folder does.
#include "cuda/kernel_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tilewright/error.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "cuda/sources.h"
#include "cuda/temporary_cache.h"
#include "launch/kernels.h"

namespace tilewright::cuda {
namespace {

namespace fs = std::filesystem;
using test::TemporaryCache;

const KernelPack no_pack("");

KernelSource add_kernel(const char* value = "3") {
    return {.text = "template <int value> __global__ void add(int* to) { *to += value; }\n",
            .expression = std::string("add<") + value + ">"};
}

bool is_machine_code(const CompiledKernel& kernel) { return kernel.cubin.substr(0, 4) == "\177ELF"; }

std::string only_file(const TemporaryCache& cache) {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(cache.folder())) files.push_back(entry.path().string());
    EXPECT_EQ(files.size(), 1U);
    return files.empty() ? "" : files[0];
}

TEST(KernelStore, ThePackComesFirst) {
    const std::string bytes = pack_bytes({{.expression = "add<3>", .name = "f", .cubin = "code"}});
    const KernelPack pack(bytes);
    KernelStore store(pack, DiskCache(""), {"no-nvrtc.so"});
    EXPECT_EQ(store.get(add_kernel()).cubin, "code");
    EXPECT_EQ(store.get(add_kernel()).name, "f");
    EXPECT_THROW(store.get(add_kernel("4")), Error);
}

TEST(KernelStore, WithoutNvrtcTheErrorSaysWhatToInstall) {
    KernelStore store(no_pack, DiskCache(""), {"no-nvrtc.so"});
    try {
        store.get(add_kernel());
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("pip install nvidia-cuda-nvrtc"), std::string::npos) << error.what();
    }
}

TEST(KernelStore, WhatIsCompiledIsKept) {
    const TemporaryCache cache;
    KernelStore store(no_pack, DiskCache(cache.folder()), nvrtc_candidates());
    const CompiledKernel compiled = store.get(add_kernel());
    EXPECT_TRUE(is_machine_code(compiled));
    EXPECT_NE(compiled.name.find("add"), std::string::npos);
    only_file(cache);
    const Compiler compiler(nvrtc_candidates());
    const std::optional<CompiledKernel> kept = DiskCache(cache.folder()).load(compiler.key(add_kernel()));
    ASSERT_TRUE(kept.has_value());
    EXPECT_EQ(kept->cubin, compiled.cubin);
    EXPECT_EQ(kept->name, compiled.name);
    EXPECT_EQ(DiskCache(cache.folder()).contents().kernels, 1);
}

TEST(KernelStore, AKeptKernelIsNotCompiledAgain) {
    const TemporaryCache cache;
    const Compiler compiler(nvrtc_candidates());
    DiskCache(cache.folder()).store(compiler.key(add_kernel()), {.name = "kept", .cubin = "bytes\0of\nanything"});
    KernelStore store(no_pack, DiskCache(cache.folder()), nvrtc_candidates());
    EXPECT_EQ(store.get(add_kernel()).name, "kept");
}

TEST(KernelStore, ADamagedFileIsRebuilt) {
    const TemporaryCache cache;
    const std::string good =
        KernelStore(no_pack, DiskCache(cache.folder()), nvrtc_candidates()).get(add_kernel()).cubin;
    const std::string path = only_file(cache);
    const auto size = static_cast<std::streamoff>(fs::file_size(path));
    for (const std::streamoff place : {std::streamoff{0}, std::streamoff{30}, size / 2, size - 1}) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(place);
        const char damaged = static_cast<char>(file.get() ^ 1);
        file.seekp(place);
        file.put(damaged);
        file.close();
        KernelStore store(no_pack, DiskCache(cache.folder()), nvrtc_candidates());
        EXPECT_EQ(store.get(add_kernel()).cubin, good) << "byte " << place;
        EXPECT_EQ(DiskCache(cache.folder()).contents().kernels, 1);
    }
    for (const std::uintmax_t length : {std::uintmax_t{0}, std::uintmax_t{40}, static_cast<std::uintmax_t>(size - 1)}) {
        fs::resize_file(path, length);
        KernelStore store(no_pack, DiskCache(cache.folder()), nvrtc_candidates());
        EXPECT_EQ(store.get(add_kernel()).cubin, good) << length << " bytes left";
    }
}

TEST(KernelStore, ManyProcessesAtOnce) {
    const TemporaryCache cache;
    std::vector<pid_t> children;
    for (int i = 0; i < 6; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            bool good = false;
            try {
                KernelStore store(no_pack, DiskCache(cache.folder()), nvrtc_candidates());
                good = is_machine_code(store.get(add_kernel()));
            } catch (const Error&) {
            }
            _exit(good ? 0 : 1);
        }
        children.push_back(child);
    }
    for (const pid_t child : children) {
        int status = 1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    only_file(cache);
}

TEST(KernelStore, AFolderThatCannotBeWrittenIsNoError) {
    KernelStore store(no_pack, DiskCache("/proc/no-such-folder"), nvrtc_candidates());
    EXPECT_TRUE(is_machine_code(store.get(add_kernel())));
}

TEST(Compiler, TheKeyCoversSourceAndExpression) {
    const Compiler compiler(nvrtc_candidates());
    KernelSource changed = add_kernel();
    changed.text += " ";
    EXPECT_EQ(compiler.key(add_kernel()), compiler.key(add_kernel()));
    EXPECT_NE(compiler.key(add_kernel()), compiler.key(add_kernel("4")));
    EXPECT_NE(compiler.key(add_kernel()), compiler.key(changed));
}

TEST(Compiler, AKernelDependsOnTheHeadersThatItIncludes) {
    const auto has = [](std::string_view text, std::string_view name) {
        const std::vector<const SourceFile*> all = included(text);
        return std::count_if(all.begin(), all.end(), [&](const SourceFile* file) { return file->name == name; });
    };
    EXPECT_EQ(has(launch::kernel_source, "hopper/gemm.h"), 1);
    EXPECT_EQ(has(launch::kernel_source, "hopper/ptx/types.h"), 1);  // by several others
    EXPECT_EQ(has(launch::kernel_source, "hopper/quantize/quantize.h"), 0);
    EXPECT_EQ(has(launch::quantize_source, "formats/swiglu.h"), 1);
    EXPECT_EQ(has(launch::quantize_source, "hopper/gemm.h"), 0);
}

TEST(Compiler, AMistakeIsShownWithTheKernel) {
    const Compiler compiler(nvrtc_candidates());
    KernelSource source = add_kernel();
    source.text = "template <int value> __global__ void add(int* to) { *to += velue; }\n";
    try {
        compiler.compile(source);
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        const std::string message = error.what();
        EXPECT_NE(message.find("cannot compile add<3>"), std::string::npos) << message;
        EXPECT_NE(message.find("velue"), std::string::npos) << message;
    }
}

TEST(KernelPack, HoldsWhatWasPutIn) {
    const std::string bytes = pack_bytes({{.expression = "gemm<Kernel{.m = 2}>", .name = "second", .cubin = "\n\n"},
                                          {.expression = "gemm<Kernel{.m = 1}>", .name = "first", .cubin = ""}});
    const KernelPack pack(bytes);
    ASSERT_EQ(pack.kernels().size(), 2U);
    EXPECT_EQ(pack.bytes(), 2);
    ASSERT_TRUE(pack.find("gemm<Kernel{.m = 2}>").has_value());
    EXPECT_EQ(pack.find("gemm<Kernel{.m = 2}>")->cubin, "\n\n");
    EXPECT_EQ(pack.find("gemm<Kernel{.m = 1}>")->name, "first");
    EXPECT_FALSE(pack.find("gemm<Kernel{.m = 3}>").has_value());
    EXPECT_TRUE(KernelPack(std::string_view(bytes).substr(0, bytes.size() - 1)).kernels().empty());
    EXPECT_TRUE(KernelPack("anything").kernels().empty());
}

}  // namespace
}  // namespace tilewright::cuda
