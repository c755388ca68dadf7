#include "measure/blas_lt_library.h"

#include <fmt/format.h>
#include <tilewright/error.h>

namespace tilewright::measure::lt {
namespace {

constexpr int compute_f32 = 68;
constexpr int preference_workspace_bytes = 1;
constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

struct DestroyPreference {
    void operator()(Preference preference) const {
        library().function<int(Preference)>("cublasLtMatmulPreferenceDestroy")(preference);
    }
};

std::unique_ptr<BlasPreference, DestroyPreference> new_preference() {
    Preference created = nullptr;
    library().call("cublasLtMatmulPreferenceCreate", &created);
    return std::unique_ptr<BlasPreference, DestroyPreference>(created);
}

}  // namespace

void Library::fail_without(const char* name) const { throw Error(fmt::format("{} has no {}", file_.path(), name)); }

void Library::fail_with(const char* name, int result) {
    throw Error(fmt::format("{} failed: cublasStatus_t {}", name, result));
}

const Library& library() {
    static const Library opened;
    if (!opened.is_open()) {
        throw Error(
            "cuBLASLt (libcublasLt.so), the baseline, was not found; pip install nvidia-cublas, or omit --peers");
    }
    return opened;
}

Matmul::Matmul() : workspace_(workspace_bytes) {
    library().call("cublasLtCreate", &handle_);
    library().call("cublasLtMatmulDescCreate", &operation_, compute_f32, type_f32);
    set(attribute_transpose_a, transposed);
}

Matmul::~Matmul() {
    library().function<int(Operation)>("cublasLtMatmulDescDestroy")(operation_);
    library().function<int(Handle)>("cublasLtDestroy")(handle_);
}

void Matmul::choose(Layout a, Layout b, Layout d, const char* product, std::initializer_list<Preferred> hints) {
    a_ = a;
    b_ = b;
    d_ = d;
    constexpr const char* set_preference = "cublasLtMatmulPreferenceSetAttribute";
    const auto preference = new_preference();
    int found = 0;
    library().call(set_preference, preference.get(), preference_workspace_bytes,
                   static_cast<const void*>(&workspace_bytes), sizeof(workspace_bytes));
    for (const Preferred& hint : hints) {
        library().call(set_preference, preference.get(), hint.attribute, static_cast<const void*>(&hint.value),
                       sizeof(hint.value));
    }
    library().call("cublasLtMatmulAlgoGetHeuristic", handle_, operation_, a, b, d, d, preference.get(), 1, &best_,
                   &found);
    if (found == 0) throw Error(fmt::format("cuBLASLt has no algorithm for {}", product));
}

void Matmul::enqueue(const void* a, const void* b, void* d, cuda::StreamHandle stream) {
    const float one = 1;
    const float zero = 0;
    library().call("cublasLtMatmul", handle_, operation_, static_cast<const void*>(&one), a, a_, b, b_,
                   static_cast<const void*>(&zero), static_cast<const void*>(d), d_, d, d_,
                   static_cast<const Algorithm*>(&best_.algorithm), static_cast<void*>(workspace_.data()),
                   workspace_.size(), stream);
}

void DestroyLayout::operator()(Layout layout) const {
    library().function<int(Layout)>("cublasLtMatrixLayoutDestroy")(layout);
}

}  // namespace tilewright::measure::lt
