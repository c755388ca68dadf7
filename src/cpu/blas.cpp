#include "cpu/blas.h"

#include <dlfcn.h>

#include <array>
#include <mutex>

namespace tilewright::cpu {
namespace {

// From cblas.h: the values of its enumerations are part of the ABI.
constexpr int row_major = 101;
constexpr int no_transpose = 111;
constexpr int transpose = 112;

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

struct Library {
    BlasStatus status;
    Sgemm sgemm = nullptr;
    int (*get_threads)() = nullptr;
    void (*set_threads)(int) = nullptr;
};

template <class Function>
Function symbol(void* handle, const char* name) {
    return reinterpret_cast<Function>(dlsym(handle, name));
}

std::string file_of(const void* address, const char* fallback) {
    Dl_info info{};
    return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : fallback;
}

/// A library whose integers have 64 bits exports other names (cblas_sgemm64_) and is not taken for this one.
bool load(const char* name, Library& library) {
    void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return false;
    library.sgemm = symbol<Sgemm>(handle, "cblas_sgemm");
    library.get_threads = symbol<int (*)()>(handle, "openblas_get_num_threads");
    library.set_threads = symbol<void (*)(int)>(handle, "openblas_set_num_threads");
    if (library.sgemm == nullptr || library.get_threads == nullptr || library.set_threads == nullptr) {
        dlclose(handle);
        return false;
    }
    library.status.found = true;
    library.status.file = file_of(reinterpret_cast<const void*>(library.sgemm), name);
    const auto config = symbol<char* (*)()>(handle, "openblas_get_config");
    if (config != nullptr) library.status.config = config();
    return true;
}

Library open() {
    Library library;
    for (const char* name :
         std::array{"libopenblas.so.0", "libopenblasp.so.0", "libopenblas.so", "libopenblas.dylib"}) {
        if (load(name, library)) return library;
    }
    library.status.advice = "apt-get install libopenblas0-pthread; without it the built-in kernels are used";
    return library;
}

const Library& library() {
    static const Library opened = open();
    return opened;
}

struct SingleThreadUsers {
    std::mutex mutex;
    int count = 0;
    int threads_before = 0;
};
SingleThreadUsers& single_thread_users() {
    static SingleThreadUsers users;
    return users;
}

}  // namespace

const BlasStatus& blas_status() { return library().status; }

bool blas_found() { return library().status.found; }

void sgemm(const SgemmArguments& x) {
    library().sgemm(row_major, no_transpose, transpose, x.m, x.n, x.k, 1, x.a, x.a_stride, x.b, x.b_stride, x.beta, x.c,
                    x.c_stride);
}

int blas_threads() { return blas_found() ? library().get_threads() : 0; }

void set_blas_threads(int threads) {
    if (blas_found()) library().set_threads(threads);
}

SingleBlasThread::SingleBlasThread() {
    SingleThreadUsers& users = single_thread_users();
    const std::scoped_lock lock(users.mutex);
    if (users.count++ > 0) return;
    users.threads_before = blas_threads();
    set_blas_threads(1);
}

SingleBlasThread::~SingleBlasThread() {
    SingleThreadUsers& users = single_thread_users();
    const std::scoped_lock lock(users.mutex);
    if (--users.count == 0) set_blas_threads(users.threads_before);
}

}  // namespace tilewright::cpu
