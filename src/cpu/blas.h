// OpenBLAS, opened at run time: no build and no binary depends on it.
#pragma once

#include <string>

namespace tilewright::cpu {

/// C[m, n] = A[m, k] B[n, k]^T + beta C, row-major, floats; strides are those of rows.
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
    std::string file;    // "libopenblas.so.0", or its path where the system tells
    std::string config;  // what the library says of itself: version, build, kernel
    std::string advice;  // what to do when it is missing
};

/// Looks for the library on the first call. Thread-safe.
const BlasStatus& blas_status();

/// False where blas_status().found is.
bool blas_found();

/// With OpenBLAS's own threads. Only where blas_found().
void sgemm(const SgemmArguments& arguments);

/// OpenBLAS's number of threads, for the whole process. 0 is returned where no library is found.
int blas_threads();
void set_blas_threads(int threads);

/// While one of these lives, OpenBLAS runs on the calling thread; when the last is gone, the number of threads is what
/// it was before the first. (The setting is one for the process, and calls from several threads to a build of OpenBLAS
/// with threads of its own wait for one another unless that number is 1.)
class SingleBlasThread {
public:
    SingleBlasThread();
    ~SingleBlasThread();
    SingleBlasThread(const SingleBlasThread&) = delete;
    SingleBlasThread& operator=(const SingleBlasThread&) = delete;
};

}  // namespace tilewright::cpu
