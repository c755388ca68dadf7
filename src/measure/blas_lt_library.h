// cuBLASLt as its plans call it: functions that are looked up when they are needed, and one product's descriptors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "cuda/library_search.h"
#include "measure/device.h"

namespace tilewright::measure::lt {

// Names and values from cublasLt.h, cublas_api.h and library_types.h, 12.9 to 13.10; all enumerations are ints.
inline constexpr int type_f32 = 0;
inline constexpr int type_bf16 = 14;
inline constexpr int type_e4m3 = 28;
inline constexpr std::int32_t transposed = 1;
inline constexpr std::int32_t scale_128 = 4;         // CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
inline constexpr std::int32_t scale_128_by_128 = 5;  // CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
inline constexpr std::int32_t scale_of_group = 6;    // CUBLASLT_MATMUL_MATRIX_SCALE_PER_BATCH_SCALAR_32F

inline constexpr int attribute_transpose_a = 3;       // CUBLASLT_MATMUL_DESC_...
inline constexpr int attribute_a_scale_pointer = 17;  //
inline constexpr int attribute_b_scale_pointer = 18;
inline constexpr int attribute_fast_accumulation = 25;
inline constexpr int attribute_a_scale_mode = 31;
inline constexpr int attribute_b_scale_mode = 32;

// CUBLASLT_MATMUL_PREF_GROUPED_...: int64_t, although the header declares another type.
inline constexpr int preference_average_k = 13;
inline constexpr int preference_average_rows = 14;  // of D
inline constexpr int preference_average_columns = 15;

struct Algorithm {
    std::uint64_t data[8];
};

struct HeuristicResult {
    Algorithm algorithm;
    std::size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

using Handle = struct BlasHandle*;
using Operation = struct BlasOperation*;
using Layout = struct BlasLayout*;
using Preference = struct BlasPreference*;

struct DestroyLayout {
    void operator()(Layout layout) const;
};
using OwnedLayout = std::unique_ptr<BlasLayout, DestroyLayout>;

class Library {
public:
    bool is_open() const { return file_.is_open(); }
    template <typename Signature>
    Signature* function(const char* name) const {
        return file_.function<Signature>(name);
    }
    template <typename... Arguments>
    void call(const char* name, Arguments... arguments) const {
        auto* found = file_.function<int(Arguments...)>(name);
        if (found == nullptr) fail_without(name);
        if (const int result = found(arguments...); result != 0) fail_with(name, result);
    }

private:
    [[noreturn]] void fail_without(const char* name) const;
    [[noreturn]] static void fail_with(const char* name, int result);

    cuda::OpenLibrary file_{cuda::library_candidates("libcublasLt")};
};

/// Throws Error where it is not found.
const Library& library();

struct Preferred {
    int attribute;
    std::int64_t value;
};

/// The operation and the heuristic's first algorithm for it: sums of f32, cuBLASLt's A transposed.
class Matmul {
public:
    Matmul();
    ~Matmul();
    Matmul(const Matmul&) = delete;
    Matmul& operator=(const Matmul&) = delete;

    template <typename Value>
    void set(int attribute, Value value) {
        library().call("cublasLtMatmulDescSetAttribute", operation_, attribute, static_cast<const void*>(&value),
                       sizeof(value));
    }
    /// For matrices of these layouts, which the caller keeps. Throws Error, which names the product, where there is no
    /// algorithm.
    void choose(Layout a, Layout b, Layout d, const char* product, std::initializer_list<Preferred> hints = {});
    /// a, b, d: matrices, or arrays of them on the GPU.
    void enqueue(const void* a, const void* b, void* d, cuda::StreamHandle stream);

private:
    Buffer workspace_;
    Handle handle_ = nullptr;
    Operation operation_ = nullptr;
    Layout a_ = nullptr;
    Layout b_ = nullptr;
    Layout d_ = nullptr;
    HeuristicResult best_{};
};

}  // namespace tilewright::measure::lt
