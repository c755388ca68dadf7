#include "cuda/library_search.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "cuda/environment.h"

namespace tilewright::cuda {
namespace {

namespace fs = std::filesystem;

/// Entries of a folder whose names begin with `prefix`, the highest version first; none if the folder cannot be read.
std::vector<fs::path> entries(const fs::path& folder, const std::string& prefix) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
        if (it->path().filename().string().rfind(prefix, 0) == 0) found.push_back(it->path());
    }
    std::sort(found.begin(), found.end(), std::greater<>());
    return found;
}

struct Search {
    std::string file;  // "libnvrtc.so"
    std::vector<std::string> candidates{};
};

void add_libraries(const fs::path& folder, Search& search) {
    for (const fs::path& file : entries(folder, search.file)) search.candidates.push_back(file.string());
}

/// The PyPI packages install them in site-packages/nvidia/cu13/lib (CUDA 13) or, e.g., nvidia/cuda_nvrtc/lib (CUDA 12).
void add_python(const fs::path& library_folder, Search& search) {
    for (const fs::path& python : entries(library_folder, "python3")) {
        for (const char* packages : {"site-packages", "dist-packages"}) {
            for (const fs::path& part : entries(python / packages / "nvidia", "cu")) {
                add_libraries(part / "lib", search);
            }
        }
    }
}

/// The file of this code: the program, or the Python extension.
fs::path own_file() {
    Dl_info info{};
    std::error_code error;
    fs::path file;
    if (dladdr(reinterpret_cast<void*>(&own_file), &info) != 0 && info.dli_fname != nullptr) file = info.dli_fname;
    if (file.extension() != ".so") file = fs::read_symlink("/proc/self/exe", error);
    return fs::weakly_canonical(file, error);
}

}  // namespace

OpenLibrary::OpenLibrary(void* handle) : handle_(handle) {
    link_map* opened = nullptr;  // names the file that a bare name led to
    if (handle != nullptr && dlinfo(handle, RTLD_DI_LINKMAP, &opened) == 0) path_ = opened->l_name;
}

OpenLibrary::OpenLibrary(const std::vector<std::string>& candidates) {
    for (const std::string& candidate : candidates) {
        *this = OpenLibrary(dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL));
        if (is_open()) return;
    }
}

OpenLibrary OpenLibrary::loaded(const std::string& name) {
    return OpenLibrary(dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD));
}

OpenLibrary OpenLibrary::of_process() { return OpenLibrary(dlopen(nullptr, RTLD_NOW)); }

void* OpenLibrary::symbol(const char* name) const { return handle_ == nullptr ? nullptr : dlsym(handle_, name); }

std::vector<std::string> library_candidates(const std::string& name) {
    Search search{.file = name + ".so"};
    for (const char* version : {".13", ".12", ""}) search.candidates.push_back(search.file + version);
    for (const fs::path& toolkit : entries("/usr/local", "cuda")) {
        for (const char* folder : {"lib64", "lib", "extras/CUPTI/lib64"}) add_libraries(toolkit / folder, search);
        for (const fs::path& target : entries(toolkit / "targets", "")) add_libraries(target / "lib", search);
    }
    if (const std::string venv = read_environment().virtual_environment; !venv.empty()) {
        add_python(fs::path(venv) / "lib", search);
    }
    for (fs::path folder = own_file().parent_path(); folder != folder.parent_path(); folder = folder.parent_path()) {
        add_python(folder / "lib", search);
        add_python(folder / "venv" / "lib", search);
        add_python(folder.parent_path(), search);
    }
    for (const char* folder : {"/usr/local/lib", "/usr/lib"}) add_python(folder, search);
    return search.candidates;
}

std::vector<std::string> nvrtc_candidates() { return library_candidates("libnvrtc"); }

std::string nvrtc_builtins(const std::string& nvrtc_path, const std::string& version) {
    return (fs::path(nvrtc_path).parent_path() / ("libnvrtc-builtins.so." + version)).string();
}

}  // namespace tilewright::cuda
