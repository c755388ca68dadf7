// A fake of libcublasLt.so.13 that remembers what it is told and multiplies nothing. With FAKE_GROUPS it has grouped
// products.
#include "measure/fake_blas_lt.h"

#include <cstring>

using tilewright::test::FakeBlas;
using tilewright::test::FakeLayout;

namespace {

FakeBlas blas;

int create(FakeLayout** layout, const FakeLayout& of) {
    *layout = new FakeLayout(of);
    ++blas.live;
    return 0;
}

int set(std::map<int, std::vector<std::byte>>& values, int attribute, const void* value, std::size_t bytes) {
    values[attribute].resize(bytes);
    std::memcpy(values[attribute].data(), value, bytes);
    return 0;
}

}  // namespace

extern "C" {

FakeBlas* tilewright_fake_blas() { return &blas; }

#ifdef FAKE_GROUPS
std::size_t cublasLtGetVersion() { return 130501; }
int cublasLtGroupedMatrixLayoutCreate(FakeLayout** layout, int type, int groups, const void* rows, const void* columns,
                                      const void* pitches) {
    return create(layout, {.type = type,
                           .groups = groups,
                           .rows_of_groups = static_cast<const std::int32_t*>(rows),
                           .columns_of_groups = static_cast<const std::int32_t*>(columns),
                           .pitches_of_groups = static_cast<const std::int32_t*>(pitches)});
}
#else
std::size_t cublasLtGetVersion() { return 130100; }
#endif

int cublasLtMatrixLayoutCreate(FakeLayout** layout, int type, std::uint64_t rows, std::uint64_t columns,
                               std::int64_t pitch) {
    return create(layout, {.type = type,
                           .rows = static_cast<std::int64_t>(rows),
                           .columns = static_cast<std::int64_t>(columns),
                           .pitch = pitch});
}
int cublasLtMatrixLayoutDestroy(FakeLayout* layout) {
    delete layout;
    --blas.live;
    return 0;
}
int cublasLtCreate(void** handle) {
    *handle = &blas;
    ++blas.live;
    return 0;
}
int cublasLtDestroy(void*) {
    --blas.live;
    return 0;
}
int cublasLtMatmulDescCreate(void** operation, int compute, int scale) {
    *operation = &blas.attributes;
    blas.attributes.clear();
    ++blas.live;
    return compute == 68 && scale == 0 ? 0 : 7;
}
int cublasLtMatmulDescDestroy(void*) {
    --blas.live;
    return 0;
}
int cublasLtMatmulDescSetAttribute(void*, int attribute, const void* value, std::size_t bytes) {
    return set(blas.attributes, attribute, value, bytes);
}
int cublasLtMatmulPreferenceCreate(void** preference) {
    *preference = &blas.preferences;
    blas.preferences.clear();
    ++blas.live;
    return 0;
}
int cublasLtMatmulPreferenceDestroy(void*) {
    --blas.live;
    return 0;
}
/// Accepts only 8 bytes, as the library does.
int cublasLtMatmulPreferenceSetAttribute(void*, int attribute, const void* value, std::size_t bytes) {
    return bytes == 8 ? set(blas.preferences, attribute, value, bytes) : 7;
}
int cublasLtMatmulAlgoGetHeuristic(void*, void*, FakeLayout*, FakeLayout*, FakeLayout*, FakeLayout*, void*, int, void*,
                                   int* found) {
    *found = blas.algorithms;
    return blas.refused;
}
int cublasLtMatmul(void*, void*, const void* alpha, const void* a, const FakeLayout* layout_of_a, const void* b,
                   const FakeLayout* layout_of_b, const void* beta, const void* c, const FakeLayout* layout_of_c,
                   void* d, const FakeLayout* layout_of_d, const void*, void*, std::size_t, void*) {
    ++blas.calls;
    blas.a = a;
    blas.b = b;
    blas.d = d;
    blas.layout_of_a = *layout_of_a;
    blas.layout_of_b = *layout_of_b;
    blas.layout_of_d = *layout_of_d;
    const bool alone = *static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0;
    return alone && c == d && layout_of_c == layout_of_d ? 0 : 7;
}
}
