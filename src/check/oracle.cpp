#include "check/oracle.h"

#include "check/fold.h"
#include "check/running.h"
#include "check/slab.h"
#include "formats/element.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace tilewright::check {
namespace {

constexpr double fp32_roundoff = 0x1p-24;
constexpr double fp32_smallest = 0x1p-149;

class RegionOracle {
public:
    RegionOracle(const Geometry& geometry, const Region& region, const OracleOptions& options)
        : g_(geometry), region_(region), options_(options) {
        if (options.emulate) order_ = canonical_order({g_.a.recipe, g_.b.recipe}, g_.accumulation);
        if (options.order) order_ = options.order;
        const auto count = static_cast<std::size_t>(region.rows * region.columns);
        sums_.assign(count, 0);
        out_.magnitude.assign(count, 0);
        if (order_) running_.assign(count, {});
        if (order_ && order_->folded != Folded::none) {
            lines_ = folded_lines(folds_a() ? a_range(0, region.gemm.k_count) : b_range(0, region.gemm.k_count),
                                  order_->step);
        }
    }

    Expected compute() {
        const std::int64_t k_count = region_.gemm.k_count;
        for (std::int64_t k = 0; k < k_count; k += slab_k) {
            const std::int64_t count = std::min(slab_k, k_count - k);
            decode(a_range(k, count), step(), a_);
            decode(b_range(k, count), step(), b_);
            add_exact(count);
            spoil_overflows(count);
            if (!order_) continue;
            if (k == 0 && order_->defers) {
                if (order_->a == ScaleUse::chains) defer(a_, region_.rows, a_deferred_);
                if (order_->b == ScaleUse::chains) defer(b_, region_.columns, b_deferred_);
            }
            if (!lines_.empty()) {
                emulate_wide(k, count);
                fold(lines_, order_->step, folds_a() ? a_ : b_);
            }
            emulate(k, count);
        }
        finish();
        return std::move(out_);
    }

private:
    std::optional<StepKind> step() const { return order_ ? std::optional(order_->step) : std::nullopt; }

    SlabRange a_range(std::int64_t k, std::int64_t count) const {
        const GroupGemm& gemm = region_.gemm;
        return {.operand = g_.a,
                .group = gemm.group,
                .row = gemm.row_begin + region_.row,
                .rows = region_.rows,
                .origin = gemm.a,
                .k = k,
                .k_count = count};
    }
    SlabRange b_range(std::int64_t k, std::int64_t count) const {
        const GroupGemm& gemm = region_.gemm;
        return {.operand = g_.b,
                .group = gemm.group,
                .row = region_.column,
                .rows = region_.columns,
                .origin = gemm.b,
                .k = k,
                .k_count = count};
    }

    /// Each sum in ascending k, as in the reference; side by side over columns.
    void add_exact(std::int64_t count) {
        const auto columns = static_cast<std::size_t>(region_.columns);
        transposed_.resize(static_cast<std::size_t>(slab_k) * columns);
        for (std::size_t j = 0; j < columns; ++j) {
            for (std::size_t k = 0; k < static_cast<std::size_t>(count); ++k) {
                transposed_[k * columns + j] = b_.exact[j * slab_k + k];
            }
        }
        for (std::size_t i = 0; i < static_cast<std::size_t>(region_.rows); ++i) {
            double* const sums = sums_.data() + i * columns;
            double* const magnitudes = out_.magnitude.data() + i * columns;
            for (std::size_t k = 0; k < static_cast<std::size_t>(count); ++k) {
                const double a = a_.exact[i * slab_k + k];
                const double* const b = transposed_.data() + k * columns;
                for (std::size_t j = 0; j < columns; ++j) {
                    const double product = a * b[j];
                    sums[j] += product;
                    magnitudes[j] += std::fabs(product);
                }
            }
        }
    }

    /// NaN where the product of two scales overflows fp32: every arithmetic has infinity times the products there.
    void spoil_overflows(std::int64_t count) {
        if (scales_apart({g_.a.recipe, g_.b.recipe})) return;
        const auto largest = [](const std::vector<float>& scales) {
            double found = 0;
            for (const float scale : scales) found = std::fmax(found, std::fabs(scale));
            return found;
        };
        const auto overflows = [](double x, double y) { return std::isinf(scale_product(x, y)); };
        if (!overflows(largest(a_.scales), largest(b_.scales))) return;
        for (std::int64_t i = 0; i < region_.rows; ++i) {
            for (std::int64_t j = 0; j < region_.columns; ++j) {
                double& sum = sums_[static_cast<std::size_t>(i * region_.columns + j)];
                for (std::int64_t k = 0; k < count; k += slab_scale_k) {
                    if (overflows(a_.scale(i, k), b_.scale(j, k)) && std::isfinite(sum)) sum = std::nan("");
                }
            }
        }
    }

    bool folds_a() const { return order_->folded == Folded::a; }
    /// Null where no side is folded.
    const FoldedLine* line(std::int64_t i, std::int64_t j) const {
        return lines_.empty() ? nullptr : &lines_[static_cast<std::size_t>(folds_a() ? i : j)];
    }
    bool is_wide(std::int64_t i, std::int64_t j) const { return line(i, j) != nullptr && line(i, j)->wide; }
    Running& running(std::int64_t i, std::int64_t j) {
        return running_[static_cast<std::size_t>(i * region_.columns + j)];
    }

    /// Rows whose exponents are too far apart for one reference, 128 k-elements at a time.
    void emulate_wide(std::int64_t k, std::int64_t count) {
        const WideRows wide{.order = *order_,
                            .folded = folds_a() ? a_ : b_,
                            .other = folds_a() ? b_ : a_,
                            .others = folds_a() ? region_.columns : region_.rows};
        for (std::int64_t row = 0; row < std::ssize(lines_); ++row) {
            FoldedLine& of_row = lines_[static_cast<std::size_t>(row)];
            const auto element = [&](std::int64_t other) -> Running& {
                return folds_a() ? running(row, other) : running(other, row);
            };
            for (std::int64_t at = 0; of_row.wide && at < count; at += FoldedWindow::k) {
                const std::int64_t end = std::min(at + FoldedWindow::k, count);
                of_row.chains += wide.multiply(row, {.begin = at, .end = end}, element);
                const bool cut = is_cut(k + end) && k + end < region_.gemm.k_count;
                for (std::int64_t other = 0; cut && other < wide.others; ++other) element(other).end_slice();
            }
        }
    }

    bool is_cut(std::int64_t k) const { return std::ranges::binary_search(options_.k_splits, k); }

    void emulate(std::int64_t k, std::int64_t count) {
        const int products = step_products(order_->step);
        for (std::int64_t at = 0; at < count; at += products) {
            const std::int64_t end = k + at + products;  // may be beyond k_count
            const bool last = end >= region_.gemm.k_count;
            const bool cut = is_cut(end);
            const bool chain_ends = last || cut || (order_->chain != 0 && end % order_->chain == 0);
            for (std::int64_t i = 0; i < region_.rows; ++i) {
                for (std::int64_t j = 0; j < region_.columns; ++j) {
                    if (is_wide(i, j)) continue;
                    Running& element = running(i, j);
                    element.add_step(order_->step, a_.step_row(i, at), b_.step_row(j, at));
                    if (chain_ends) element.end_chain(chain_scales({.i = i, .j = j, .k = at}));
                    if (cut && !last) element.end_slice();
                }
            }
            if (chain_ends) ++chains_;
        }
    }

    /// Where scales are: row and column of the region, k of the slab.
    struct Position {
        std::int64_t i = 0;
        std::int64_t j = 0;
        std::int64_t k = 0;
    };

    float a_scale(ScaleUse use, const Position& at) const { return order_->a == use ? a_.scale(at.i, at.k) : 1; }
    float b_scale(ScaleUse use, const Position& at) const { return order_->b == use ? b_.scale(at.j, at.k) : 1; }

    ChainScales chain_scales(const Position& at) const {
        return {.of_a = std::ldexp(a_scale(ScaleUse::chains, at), -deferred(a_deferred_, at.i)),
                .of_b = std::ldexp(b_scale(ScaleUse::chains, at), -deferred(b_deferred_, at.j)),
                .none = !order_->has(ScaleUse::chains),
                .in_turn = options_.scales_in_turn,
                .round_sum = options_.round_sums};
    }

    /// The exponents that rows of scales leave to the end, from their first: how far that is beyond 2^-64 .. 2^64.
    void defer(const Slab& slab, std::int64_t rows, std::vector<int>& exponents) {
        for (std::int64_t row = 0; row < rows; ++row) {
            const float first = slab.scale(row, 0);
            const int exponent = std::isnormal(first) ? std::ilogb(first) : 0;
            exponents.push_back(exponent - std::clamp(exponent, -64, 64));
        }
    }
    static int deferred(const std::vector<int>& exponents, std::int64_t row) {
        return exponents.empty() ? 0 : exponents[static_cast<std::size_t>(row)];
    }

    double tensor_scale(const OperandGeometry& operand) const {
        if (operand.tensor_scale == nullptr) return 1;
        return formats::load(operand.tensor_scale, Format::f32, region_.gemm.group * operand.tensor_scale_stride);
    }

    double c_at(std::int64_t i, std::int64_t j) const {
        if (g_.c.data == nullptr) return 0;
        const std::int64_t row = region_.gemm.row_begin + region_.row + i;
        return formats::load(g_.c.data, g_.addend(), output_index(g_.c, region_.gemm.group, row, region_.column + j));
    }

    void finish() {
        const double factor = output_factor(g_.alpha, tensor_scale(g_.a), tensor_scale(g_.b));
        out_.emulated = order_.has_value();
        out_.exact.resize(sums_.size());
        if (order_) {
            out_.value.resize(sums_.size());
            out_.bound.resize(sums_.size());
        }
        for (std::int64_t i = 0; i < region_.rows; ++i) {
            for (std::int64_t j = 0; j < region_.columns; ++j) {
                const auto at = static_cast<std::size_t>(i * region_.columns + j);
                const bool no_k = region_.gemm.k_count == 0;
                out_.exact[at] = no_k ? c_at(i, j) : c_at(i, j) + factor * sums_[at];
                out_.magnitude[at] *= std::fabs(factor);
                if (order_) finish_emulated(i, j, at);
            }
        }
    }

    /// The factors of a sum at the end: each side's epilogue scale, and the correction for values that are too small or
    /// too large.
    struct End {
        float of_a = 1;
        float of_b = 1;
        float of_values = 1;
        float alpha = 1;
        bool apart = false;  // the two sides in turn where their product is not a normal number
    };

    End end_of(std::int64_t i, std::int64_t j) const {
        End end{.alpha = g_.alpha};
        if (region_.gemm.k_count == 0) return end;
        if (!is_wide(i, j)) {
            end.of_a = std::ldexp(a_scale(ScaleUse::end, {.i = i, .j = j}), deferred(a_deferred_, i));
            end.of_b = std::ldexp(b_scale(ScaleUse::end, {.i = i, .j = j}), deferred(b_deferred_, j));
        }
        for (const OperandGeometry* side : {&g_.a, &g_.b})
            end.of_values *= is_nvfp4(side->recipe) ? 1 / nvfp4_below : 1;
        const auto a_tensor = static_cast<float>(tensor_scale(g_.a)), b_tensor = static_cast<float>(tensor_scale(g_.b));
        const bool tensor_at_end = (is_nvfp4(g_.a.recipe) && scaled_outside(g_.b.recipe.granularity)) ||
                                   (is_nvfp4(g_.b.recipe) && scaled_outside(g_.a.recipe.granularity));
        if (tensor_at_end) {
            end.of_a *= a_tensor;
            end.of_b *= b_tensor;
        } else {
            const bool is_small = std::fabs(a_tensor * b_tensor) < 0x1p64F;
            end.alpha *= a_tensor * b_tensor * (is_small ? std::exchange(end.of_values, 1.0F) : 1.0F);
        }
        end.apart = tensor_at_end || order_->defers || line(i, j) != nullptr;
        if (line(i, j) != nullptr) {
            const float lift = order_->step == StepKind::fp8 && !is_wide(i, j) ? 64 : 1;
            (folds_a() ? end.of_a : end.of_b) *= line(i, j)->end * lift;
            end.of_values /= lift;
        }
        return end;
    }

    void finish_emulated(std::int64_t i, std::int64_t j, std::size_t at) {
        Running& element = running_[at];
        float sum = options_.k_splits.empty() ? element.slice : element.total + element.slice;
        const auto [of_a, of_b, of_values, alpha, apart] = end_of(i, j);
        sum *= of_values;
        const float product = of_a * of_b;
        const double end_factor = std::fabs(double{of_values} * of_a * of_b);
        if (!apart || std::isnormal(product)) {
            sum *= product;
        } else {
            sum = folds_a() ? sum * of_b * of_a : sum * of_a * of_b;
        }
        const auto c = static_cast<float>(c_at(i, j));
        if (region_.gemm.k_count == 0) {
            out_.value[at] = c;
        } else {
            out_.value[at] = g_.c.data == nullptr ? alpha * sum : std::fma(alpha, sum, c);
        }
        const double factor = std::fabs(double{alpha});
        const double after_sum = factor * end_factor;
        const auto roundings = static_cast<double>(2 * (is_wide(i, j) ? line(i, j)->chains : chains_) + 2 +
                                                   static_cast<std::int64_t>(options_.k_splits.size()));
        out_.bound[at] = after_sum * element.bound + roundings * fp32_roundoff * out_.magnitude[at] +
                         roundings * fp32_smallest * std::max({1.0, factor, after_sum});
    }

    const Geometry& g_;
    const Region& region_;
    const OracleOptions& options_;
    std::optional<CanonicalOrder> order_;
    Slab a_;
    Slab b_;
    std::vector<double> transposed_;  // b_.exact as [k, columns]
    std::vector<double> sums_;
    std::vector<Running> running_;
    std::int64_t chains_ = 0;
    std::vector<FoldedLine> lines_;  // of the folded side
    std::vector<int> a_deferred_;    // empty where scales leave nothing to the end
    std::vector<int> b_deferred_;
    Expected out_;
};

}  // namespace

Expected expected(const Geometry& geometry, const Region& region, const OracleOptions& options) {
    return RegionOracle(geometry, region, options).compute();
}

}  // namespace tilewright::check
