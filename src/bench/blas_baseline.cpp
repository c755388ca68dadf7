#include "bench/blas_baseline.h"

#include <map>
#include <utility>

#include "cpu/blas.h"
#include "formats/element.h"

namespace tilewright::bench {
namespace {

struct Part {
    std::int64_t group = 0;
    std::int64_t row_begin = 0;
    std::int64_t rows = 0;
    std::int64_t k_count = 0;
    Origin origin{};
};

/// Appends [rows, k_count] in f32, row-major; where it begins.
std::size_t append_dequantised(const OperandGeometry& operand, const Part& part, std::vector<float>& to) {
    const std::size_t begin = to.size();
    to.resize(begin + static_cast<std::size_t>(part.rows * part.k_count));
    float* out = to.data() + begin;
#pragma omp parallel for schedule(static)
    for (std::int64_t row = 0; row < part.rows; ++row) {
        for (std::int64_t k = 0; k < part.k_count; ++k) {
            const std::int64_t at = value_index(operand, part.origin, part.row_begin + row, k);
            double value = formats::load(operand.values, operand.recipe.values, at);
            if (operand.scales != nullptr) {
                const std::int64_t block = operand.k_block() == 0 ? 0 : part.origin.block + k / operand.k_block();
                value *= formats::load(operand.scales, operand.recipe.scales,
                                       scale_index(operand, part.group, part.row_begin + row, block));
            }
            out[row * part.k_count + k] = static_cast<float>(value);
        }
    }
    return begin;
}

}  // namespace

double BlasPeer::bytes(const Geometry& g) {
    const bool along_k = is_k_grouped(g.grouping.grouping);
    double elements = 0;
    for (const GroupGemm& gemm : group_gemms(g)) {
        elements += static_cast<double>(gemm.rows * (gemm.k_count + g.n));
        if (along_k) elements += static_cast<double>(g.n * gemm.k_count);
    }
    if (!along_k) elements += static_cast<double>(g.groups * g.n * g.k);
    return elements * sizeof(float);
}

BlasPeer::BlasPeer(const Geometry& g, int threads) : n_(static_cast<int>(g.n)), threads_(threads) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> b_at;  // by group and where its k begins
    std::size_t d_size = 0;
    for (const GroupGemm& gemm : group_gemms(g)) {
        const Part a{.group = gemm.group,
                     .row_begin = gemm.row_begin,
                     .rows = gemm.rows,
                     .k_count = gemm.k_count,
                     .origin = gemm.a};
        Part b = a;
        b.row_begin = 0;
        b.rows = g.n;
        b.origin = gemm.b;
        const auto [where, is_new] = b_at.try_emplace({gemm.group, gemm.k_begin}, 0);
        if (is_new) where->second = append_dequantised(g.b, b, b_);
        products_.push_back({.rows = static_cast<int>(gemm.rows),
                             .k = static_cast<int>(gemm.k_count),
                             .a = append_dequantised(g.a, a, a_),
                             .b = where->second,
                             .d = d_size});
        d_size += static_cast<std::size_t>(gemm.rows * g.n);
    }
    d_.resize(d_size);
}

void BlasPeer::run() {
    const int before = cpu::blas_threads();
    if (threads_ > 0) cpu::set_blas_threads(threads_);
    for (const Product& product : products_) {
        if (product.k == 0) continue;
        cpu::sgemm({.m = product.rows,
                    .n = n_,
                    .k = product.k,
                    .a = a_.data() + product.a,
                    .a_stride = product.k,
                    .b = b_.data() + product.b,
                    .b_stride = product.k,
                    .beta = 0,
                    .c = d_.data() + product.d,
                    .c_stride = n_});
    }
    if (threads_ > 0) cpu::set_blas_threads(before);
}

}  // namespace tilewright::bench
