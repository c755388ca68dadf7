#include "measure/blas_lt.h"

#include <fmt/format.h>

#include "measure/blas_lt_library.h"

namespace tilewright::measure {
namespace {

lt::OwnedLayout layout(int type, std::int64_t rows, std::int64_t columns) {
    lt::Layout created = nullptr;
    lt::library().call("cublasLtMatrixLayoutCreate", &created, type, static_cast<std::uint64_t>(rows),
                       static_cast<std::uint64_t>(columns), rows);
    return lt::OwnedLayout(created);
}

/// cuBLASLt's matrices are column-major, so it computes D^T = B^T^T A^T: its A is our B, and the other way round.
class Plan : public BlasPlan {
public:
    Plan(const BlasProduct& product, BlasScaling scaling)
        : product_(product),
          a_(layout(lt::type_e4m3, product.k, product.n)),
          b_(layout(lt::type_e4m3, product.k, product.m)),
          d_(layout(lt::type_bf16, product.n, product.m)) {
        matmul_.set(lt::attribute_a_scale_pointer, product.b_scales);
        matmul_.set(lt::attribute_b_scale_pointer, product.a_scales);
        matmul_.set(lt::attribute_fast_accumulation, static_cast<std::int8_t>(scaling == BlasScaling::tensor ? 1 : 0));
        if (scaling == BlasScaling::blocks) {
            matmul_.set(lt::attribute_a_scale_mode, lt::scale_128_by_128);
            matmul_.set(lt::attribute_b_scale_mode, lt::scale_128);
        }
        matmul_.choose(a_.get(), b_.get(), d_.get(), "this product");
    }
    void enqueue(cuda::StreamHandle stream) override { matmul_.enqueue(product_.b, product_.a, product_.d, stream); }

private:
    BlasProduct product_;
    lt::OwnedLayout a_;
    lt::OwnedLayout b_;
    lt::OwnedLayout d_;
    lt::Matmul matmul_;
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
