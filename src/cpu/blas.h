// OpenBLAS, opened at run time: no build and no binary depends on it.
#pragma once

#include <string>

namespace tilewright::cpu {

/// C[m, n] = A[m, k] B[n, k]^T + beta C, row-major floats; the strides are row strides.
struct SgemmArguments {
    int m = 0;
    int n = 0;
    int k = 0;
    const float* a = nullptr;
    int a_stride = 0;
    const float* b = nullptr;
    int b_stride = 0;
    float beta = 0;
    float* c = nullptr;
    int c_stride = 0;
};

struct BlasStatus {
    bool found = false;
    std::string file;    // "libopenblas.so.0", or its path if the system gives it
    std::string config;  // version, build and kernel, as the library reports them
    std::string advice;  // the remedy if it is missing
};

/// Searches the library on the first call. Thread-safe.
const BlasStatus& blas_status();

/// Whether the library was found (blas_status().found).
bool blas_found();

/// With OpenBLAS's own threads. Only if blas_found().
void sgemm(const SgemmArguments& arguments);

/// OpenBLAS's number of threads, for the whole process. Returns 0 if no library is found.
int blas_threads();
void set_blas_threads(int threads);

/// While one of these exists, OpenBLAS runs on the calling thread. When the last one ends, the number of threads
/// returns to its value ahead of the first. (This is a setting of the process. A build of OpenBLAS with its own threads
/// makes calls from several threads wait for one another unless the number is 1.)
class SingleBlasThread {
public:
    SingleBlasThread();
    ~SingleBlasThread();
    SingleBlasThread(const SingleBlasThread&) = delete;
    SingleBlasThread& operator=(const SingleBlasThread&) = delete;
};

}  // namespace tilewright::cpu
