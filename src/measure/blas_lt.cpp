#include "measure/blas_lt.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <array>

#include "cuda/library_search.h"

namespace tilewright::measure {
namespace {

// Names and values from cublasLt.h, cublas_api.h and library_types.h, 12.9 and 13.0; all enumerations are ints.
constexpr int cublas_success = 0;
constexpr int compute_f32 = 68;
constexpr int type_f32 = 0;
constexpr int type_bf16 = 14;
constexpr int type_e4m3 = 28;
constexpr std::int32_t transposed = 1;
constexpr std::int32_t scale_128 = 4;          // CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
constexpr std::int32_t scale_128_by_128 = 5;   // CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
constexpr int attribute_transpose_a = 3;       // CUBLASLT_MATMUL_DESC_...
constexpr int attribute_a_scale_pointer = 17;  //
constexpr int attribute_b_scale_pointer = 18;
constexpr int attribute_fast_accumulation = 25;
constexpr int attribute_a_scale_mode = 31;
constexpr int attribute_b_scale_mode = 32;
constexpr int preference_workspace_bytes = 1;
constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

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

struct Library {
    cuda::OpenLibrary file{cuda::library_candidates("libcublasLt")};

    template <typename... Arguments>
    void call(const char* name, Arguments... arguments) const {
        auto* found = file.function<int(Arguments...)>(name);
        if (found == nullptr) throw Error(fmt::format("{} has no {}", file.path(), name));
        const int result = found(arguments...);
        if (result != cublas_success) throw Error(fmt::format("{} failed: cublasStatus_t {}", name, result));
    }
};

const Library& library() {
    static const Library opened;
    if (!opened.file.is_open()) {
        throw Error(
            "cuBLASLt (libcublasLt.so), the peer, was not found; pip install nvidia-cublas, or leave out --peers");
    }
    return opened;
}

Layout layout(int type, std::int64_t rows, std::int64_t columns) {
    Layout created = nullptr;
    library().call("cublasLtMatrixLayoutCreate", &created, type, static_cast<std::uint64_t>(rows),
                   static_cast<std::uint64_t>(columns), rows);
    return created;
}

/// cuBLASLt's matrices are column-major, so it computes D^T = B^T^T A^T: its A is our B, and the other way round.
class Plan : public BlasPlan {
public:
    Plan(const BlasProduct& product, BlasScaling scaling)
        : product_(product),
          workspace_(workspace_bytes),
          a_(layout(type_e4m3, product.k, product.n)),
          b_(layout(type_e4m3, product.k, product.m)),
          d_(layout(type_bf16, product.n, product.m)) {
        library().call("cublasLtCreate", &handle_);
        library().call("cublasLtMatmulDescCreate", &operation_, compute_f32, type_f32);
        set(attribute_transpose_a, transposed);
        set(attribute_a_scale_pointer, product.b_scales);
        set(attribute_b_scale_pointer, product.a_scales);
        set(attribute_fast_accumulation, static_cast<std::int8_t>(scaling == BlasScaling::tensor ? 1 : 0));
        if (scaling == BlasScaling::blocks) {
            set(attribute_a_scale_mode, scale_128_by_128);
            set(attribute_b_scale_mode, scale_128);
        }
        choose();
    }
    ~Plan() override {
        const cuda::OpenLibrary& file = library().file;
        for (Layout each : {a_, b_, d_}) file.function<int(Layout)>("cublasLtMatrixLayoutDestroy")(each);
        file.function<int(Operation)>("cublasLtMatmulDescDestroy")(operation_);
        file.function<int(Handle)>("cublasLtDestroy")(handle_);
    }
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;

    void enqueue(cuda::StreamHandle stream) override {
        const float one = 1;
        const float zero = 0;
        library().call("cublasLtMatmul", handle_, operation_, static_cast<const void*>(&one), product_.b, a_,
                       product_.a, b_, static_cast<const void*>(&zero), static_cast<const void*>(product_.d), d_,
                       product_.d, d_, static_cast<const Algorithm*>(&best_.algorithm),
                       static_cast<void*>(workspace_.data()), workspace_.size(), stream);
    }

private:
    template <typename Value>
    void set(int attribute, Value value) {
        library().call("cublasLtMatmulDescSetAttribute", operation_, attribute, static_cast<const void*>(&value),
                       sizeof(value));
    }
    void choose() {
        Preference preference = nullptr;
        int found = 0;
        library().call("cublasLtMatmulPreferenceCreate", &preference);
        library().call("cublasLtMatmulPreferenceSetAttribute", preference, preference_workspace_bytes,
                       static_cast<const void*>(&workspace_bytes), sizeof(workspace_bytes));
        library().call("cublasLtMatmulAlgoGetHeuristic", handle_, operation_, a_, b_, d_, d_, preference, 1, &best_,
                       &found);
        library().call("cublasLtMatmulPreferenceDestroy", preference);
        if (found == 0) throw Error("cuBLASLt has no algorithm for this product");
    }

    BlasProduct product_;
    Buffer workspace_;
    Layout a_;
    Layout b_;
    Layout d_;
    Handle handle_ = nullptr;
    Operation operation_ = nullptr;
    HeuristicResult best_{};
};

}  // namespace

std::unique_ptr<BlasPlan> plan_blas(const BlasProduct& product, BlasScaling scaling) {
    return std::make_unique<Plan>(product, scaling);
}

std::string blas_lt_version() {
    const cuda::OpenLibrary file(cuda::library_candidates("libcublasLt"));
    auto* get = file.function<std::size_t()>("cublasLtGetVersion");
    if (get == nullptr) return "";
    const std::size_t version = get();  // 130002: 13.0.2; 12: 120900
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace tilewright::measure
