#include "cuda/compiler.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>

#include "cuda/digest.h"
#include "cuda/sources.h"

namespace tilewright::cuda {
namespace {

constexpr int success = 0;
using ProgramHandle = struct NvrtcProgram*;

/// One function of NVRTC by its name in NVIDIA's "NVRTC" manual. nvrtcResult is an int.
template <class... Arguments>
auto function(const OpenLibrary& library, const char* name) {
    auto* found = library.function<int(Arguments...)>(name);
    if (found == nullptr) {
        throw Error(fmt::format("{} has no {}; install NVRTC 12 or later: pip install nvidia-cuda-nvrtc",
                                library.path(), name));
    }
    return found;
}

/// Adds the device headers that a text includes, and those that they include, each once.
void add_included(std::string_view text, std::vector<const SourceFile*>& found) {
    constexpr std::string_view directive = "#include \"";
    for (std::size_t at = text.find(directive); at != text.npos; at = text.find(directive, at)) {
        at += directive.size();
        const std::string_view name = text.substr(at, text.find('"', at) - at);
        for (const SourceFile& file : device_sources()) {
            if (file.name != name || std::find(found.begin(), found.end(), &file) != found.end()) continue;
            found.push_back(&file);
            add_included(file.text, found);
        }
    }
}

class Program {
public:
    Program(const OpenLibrary& library, const KernelSource& source) : library_(library) {
        std::vector<const char*> names;
        std::vector<const char*> texts;
        for (const SourceFile& file : device_sources()) {
            names.push_back(file.name);
            texts.push_back(file.text);
        }
        const auto create =
            function<ProgramHandle*, const char*, const char*, int, const char* const*, const char* const*>(
                library, "nvrtcCreateProgram");
        require(create(&handle_, source.text.c_str(), "kernel.cu", static_cast<int>(names.size()), texts.data(),
                       names.data()),
                "nvrtcCreateProgram");
        const auto add = function<ProgramHandle, const char*>(library, "nvrtcAddNameExpression");
        require(add(handle_, source.expression.c_str()), "nvrtcAddNameExpression");
    }
    ~Program() { function<ProgramHandle*>(library_, "nvrtcDestroyProgram")(&handle_); }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    bool compile() {
        std::vector<const char*> options;
        for (const std::string& option : compile_options()) options.push_back(option.c_str());
        const auto run = function<ProgramHandle, int, const char* const*>(library_, "nvrtcCompileProgram");
        return run(handle_, static_cast<int>(options.size()), options.data()) == success;
    }
    std::string log() const { return text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog"); }
    std::string cubin() const { return bytes("nvrtcGetCUBINSize", "nvrtcGetCUBIN"); }
    std::string lowered_name(const KernelSource& source) const {
        const auto get = function<ProgramHandle, const char*, const char**>(library_, "nvrtcGetLoweredName");
        const char* name = nullptr;
        require(get(handle_, source.expression.c_str(), &name), "nvrtcGetLoweredName");
        return name;
    }

private:
    void require(int result, const char* call) const {
        if (result == success) return;
        auto* describe = library_.function<const char*(int)>("nvrtcGetErrorString");
        throw Error(fmt::format("{} failed: {} ({})", call, describe == nullptr ? "error" : describe(result), result));
    }
    std::string bytes(const char* size_name, const char* get_name) const {
        std::size_t size = 0;
        require(function<ProgramHandle, std::size_t*>(library_, size_name)(handle_, &size), size_name);
        std::string result(size, '\0');
        require(function<ProgramHandle, char*>(library_, get_name)(handle_, result.data()), get_name);
        return result;
    }
    std::string text(const char* size_name, const char* get_name) const {
        std::string result = bytes(size_name, get_name);
        while (!result.empty() && result.back() == '\0') result.pop_back();
        return result;
    }

    const OpenLibrary& library_;
    ProgramHandle handle_ = nullptr;
};

}  // namespace

std::vector<const SourceFile*> included(std::string_view text) {
    std::vector<const SourceFile*> found;
    add_included(text, found);
    return found;
}

const std::vector<std::string>& compile_options() {
    static const std::vector<std::string> options{"-default-device", "-std=c++20", "-fmad=false", "-arch=sm_90a",
                                                  "--ptxas-options=-v"};
    return options;
}

Compiler::Compiler(const std::vector<std::string>& candidates) : library_(candidates) {
    if (!library_.is_open()) {
        throw Error(
            "NVRTC (libnvrtc.so), which compiles kernels, was not found; pip install nvidia-cuda-nvrtc, or "
            "install the CUDA toolkit");
    }
    int major = 0;
    int minor = 0;
    if (function<int*, int*>(library_, "nvrtcVersion")(&major, &minor) != success) {
        throw Error(library_.path() + " is no NVRTC; pip install nvidia-cuda-nvrtc");
    }
    version_ = fmt::format("{}.{}", major, minor);
    builtins_ = OpenLibrary({nvrtc_builtins(library_.path(), version_)});
}

Compilation Compiler::compile(const KernelSource& source) const {
    Program program(library_, source);
    if (!program.compile()) {
        throw Error(fmt::format("NVRTC {} cannot compile {}:\n{}", version_, source.expression, program.log()));
    }
    return {.kernel = {.name = program.lowered_name(source), .cubin = program.cubin()}, .log = program.log()};
}

std::string Compiler::key(const KernelSource& source) const {
    Digest digest;
    for (const SourceFile* file : included(source.text)) digest.add_text(file->name).add_text(file->text);
    for (const std::string& option : compile_options()) digest.add_text(option);
    return digest.add_text(source.text).add_text(source.expression).add_text(version_).text();
}

}  // namespace tilewright::cuda
