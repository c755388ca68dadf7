// Opens shared libraries at run time, and finds those of CUDA: in the loader's path, a toolkit, the PyPI packages.
#pragma once

#include <string>
#include <vector>

namespace tilewright::cuda {

/// The first of some candidates that can be opened. It stays open, because closing it would lose the memory that
/// NVRTC's own C++ runtime allocates when it is loaded.
class OpenLibrary {
public:
    OpenLibrary() = default;
    explicit OpenLibrary(const std::vector<std::string>& candidates);
    /// The copy that the process has loaded under this name ("libnccl.so.2"), whichever file it is from. May be closed.
    static OpenLibrary loaded(const std::string& name);
    /// The functions that the program and its libraries export to all.
    static OpenLibrary of_process();

    bool is_open() const { return handle_ != nullptr; }
    const std::string& path() const { return path_; }

    /// Null if the library does not have the symbol.
    template <typename Signature>
    Signature* function(const char* name) const {
        return reinterpret_cast<Signature*>(symbol(name));
    }

private:
    explicit OpenLibrary(void* handle);
    void* symbol(const char* name) const;

    void* handle_ = nullptr;
    std::string path_;
};

/// Candidates in this order:
///
/// - names for the loader
/// - files of a toolkit
/// - files of a virtual environment
/// - files of the Python that this library is installed in
/// - files of the system's Python
std::vector<std::string> library_candidates(const std::string& name);  // "libcupti"
std::vector<std::string> nvrtc_candidates();

/// The library that NVRTC opens by its bare name at the first compilation. PyPI's NVRTC has no run path, so that the
/// loader does not search NVRTC's own folder. It finds a library of that name that is already open.
std::string nvrtc_builtins(const std::string& nvrtc_path, const std::string& version);

}  // namespace tilewright::cuda
