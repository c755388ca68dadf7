#include "cpu/exact/canonical.h"

#include "cpu/exact/tensor_core.h"
#include "formats/element.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace tilewright::tests {
namespace {

/// One row of A or one column of B.
struct Line {
    const OperandGeometry& operand;
    std::int64_t group;
    std::int64_t row;
    Origin origin;

    double value(std::int64_t k) const {
        return formats::load(operand.values, operand.recipe.values, value_index(operand, origin, row, k));
    }
    float scale(std::int64_t k) const {
        if (operand.scales == nullptr) return 1;
        const int block = operand.k_block();
        const std::int64_t column = block == 0 ? 0 : origin.block + k / block;
        return float(formats::load(operand.scales, operand.recipe.scales, scale_index(operand, group, row, column)));
    }
    float tensor_scale() const {
        if (operand.tensor_scale == nullptr) return 1;
        return float(formats::load(operand.tensor_scale, Format::f32, group * operand.tensor_scale_stride));
    }
    bool is_nvfp4() const { return operand.recipe.granularity == Granularity::block_1x16; }
    bool is_fp8() const { return operand.recipe.values != Format::bf16 && !is_nvfp4(); }
    /// The scale that is applied to the tensor core's sums.
    float outside_scale(std::int64_t k) const { return is_nvfp4() ? 1 : scale(k); }
    bool is_mxfp4() const { return operand.recipe.values == Format::e2m1 && !is_nvfp4(); }
    /// Elements of k after which the outside scale changes; 0: it does not.
    int scale_period() const { return is_nvfp4() ? 0 : operand.k_block(); }

    /// The exponent of the scale of the 32 of k that begin here, where it is a number and a value is not zero.
    std::optional<int> exponent(std::int64_t k, std::int64_t all) const {
        const float scale = this->scale(k);
        for (std::int64_t i = k; i < std::min(k + 32, all); ++i) {
            if (value(i) != 0 && !std::isnan(scale)) return std::ilogb(scale);
        }
        return std::nullopt;
    }
};

/// A row of MXFP4 weights, and what its canonical order depends on.
struct Folded {
    int low = 1000;
    int high = -1000;
    bool nan = false;

    Folded(const Line& line, std::int64_t all) {
        for (std::int64_t k = 0; k < all; k += 32) {
            nan = nan || std::isnan(line.scale(k));
            const std::optional<int> exponent = line.exponent(k, all);
            if (!exponent) continue;
            low = std::min(low, *exponent);
            high = std::max(high, *exponent);
        }
        if (low > high) low = high = 0;
    }
    bool wide(bool fp8) const { return high - low > (fp8 ? 11 : 120); }
    int reference() const { return high; }
};

/// What a value is multiplied by before the tensor core reads it: a number for each 32 from `first` on.
struct Factors {
    std::int64_t first = 0;
    std::vector<double> of_block{};
    double at(std::int64_t k) const { return of_block.empty() ? 1 : of_block[(k - first) / 32]; }
};

struct Element {
    Line a;
    Line b;
    bool promoted;
    std::int64_t all_k;

    /// The side whose scales are folded into its values: b where both could be.
    const Line* folded() const { return b.is_mxfp4() ? &b : a.is_mxfp4() ? &a : nullptr; }
    const Line& unfolded() const { return folded() == &b ? a : b; }

    bool fp8() const { return a.is_fp8() && b.is_fp8(); }
    bool scaled_along_k() const { return a.scale_period() != 0 || b.scale_period() != 0; }
    /// Next to MX every scale is applied with each chain.
    bool waits(const Line& side) const {
        const bool mx = a.scale_period() == 32 || b.scale_period() == 32;
        return side.scale_period() == 0 && !mx;
    }
    float chain_scale(const Line& side, std::int64_t k) const {
        return waits(side) ? 1 : side.outside_scale(k) / left(side);
    }
    float end_scale(const Line& side) const { return waits(side) ? side.outside_scale(0) : left(side); }

    bool nvfp4_next_to_scales() const {
        return (a.is_nvfp4() && b.operand.scales != nullptr && !b.is_nvfp4()) ||
               (b.is_nvfp4() && a.operand.scales != nullptr && !a.is_nvfp4());
    }
    /// Something multiplies sums after the scales of chains have.
    bool others_wait() const {
        const bool scale = (waits(a) && a.outside_scale(0) != 1) || (waits(b) && b.outside_scale(0) != 1);
        return scale || folded() != nullptr || nvfp4_next_to_scales();
    }
    /// The power of two that a side's scales of chains leave to the end.
    float left(const Line& side) const {
        const float first = side.outside_scale(0);
        if (side.scale_period() == 0 || &side == folded() || !others_wait() || !std::isnormal(first)) return 1;
        const int exponent = std::ilogb(first);
        return std::ldexp(1.0F, exponent > 64 ? exponent - 64 : exponent < -64 ? exponent + 64 : 0);
    }

    std::int64_t chain_length(std::int64_t all) const {
        std::int64_t length = fp8() && (promoted || scaled_along_k()) ? 128 : all;
        for (const Line& side : {a, b}) {
            if (side.scale_period() != 0) length = std::min<std::int64_t>(length, side.scale_period());
        }
        return length;
    }

    Format multiplied(const Line& line) const {
        if (!fp8()) return Format::bf16;
        return line.operand.recipe.values == Format::e2m1 ? Format::e4m3 : line.operand.recipe.values;
    }

    /// k .. end as the tensor core reads them, zeros up to the end of the last step.
    std::vector<std::byte> bytes(const Line& line, std::int64_t k, std::int64_t end, const Factors& factors) const {
        const Format format = multiplied(line);
        const int width = bits(format) / 8;
        std::vector<std::byte> out(static_cast<std::size_t>((end - k) * width + 31) / 32 * 32);
        for (std::int64_t i = k; i < end; ++i) {
            const double factor = &line == folded() ? factors.at(i) : 1.0;
            const double value = line.value(i) * (line.is_nvfp4() ? double{line.scale(i)} / 256 : factor);
            const std::uint32_t code = formats::encode(formats::fields(format), value, formats::Overflow::propagate);
            for (int byte = 0; byte < width; ++byte) out[(i - k) * width + byte] = std::byte(code >> (8 * byte) & 255);
        }
        return out;
    }

    float chain(std::int64_t k, std::int64_t end, const Factors& factors = {}) const {
        const std::vector<std::byte> a_bytes = bytes(a, k, end, factors);
        const std::vector<std::byte> b_bytes = bytes(b, k, end, factors);
        const cpu::TensorCore core{.a = multiplied(a), .b = multiplied(b)};
        return core.chain(a_bytes.data(), b_bytes.data(), a_bytes.size() / 32, 0);
    }

    /// With one side folded: rows of close exponents, wide rows in windows, wide rows in bf16.
    float folded_slice(std::int64_t begin, std::int64_t end) const {
        const Folded row(*folded(), all_k);
        const int period = unfolded().scale_period();
        float sum = 0;
        if (row.wide(fp8()) && !fp8()) {
            for (std::int64_t k = begin; k < end; k += 32) {
                sum = std::fma(chain(k, std::min(k + 32, end)), folded()->scale(k), sum);
            }
            return sum;
        }
        const std::int64_t length = !fp8() ? end - begin : period == 0 ? 128 : period;
        for (std::int64_t block = begin; block < end; block += fp8() ? 128 : end - begin) {
            const std::int64_t block_end = fp8() ? std::min(block + 128, end) : end;
            for (const auto& [factors, top] : windows(row, block, block_end)) {
                for (std::int64_t k = block; k < block_end; k += length) {
                    const float p = chain(k, std::min(k + length, block_end), factors);
                    if (row.wide(fp8())) {
                        const int half = int(std::floor((top - 6) / 2.0));
                        const float other = unfolded().outside_scale(k);
                        sum = std::fma(std::ldexp(p, half), other * float(std::ldexp(1.0, top - 6 - half)), sum);
                    } else {
                        sum = period == 0 ? sum + p : std::fma(p, unfolded().scale(k) / left(unfolded()), sum);
                    }
                }
            }
        }
        return sum;
    }

    /// The factors of the values, and the largest exponent, of each window of a block; one for rows of close exponents.
    std::vector<std::pair<Factors, int>> windows(const Folded& row, std::int64_t block, std::int64_t end) const {
        const int lift = fp8() ? 6 : 0;
        std::vector<std::pair<Factors, int>> list;
        std::vector<std::optional<int>> left;
        for (std::int64_t k = block; k < end; k += 32) left.push_back(folded()->exponent(k, all_k));
        do {
            int top = row.wide(fp8()) ? 0 : row.reference();
            if (row.wide(fp8())) {
                for (const auto& exponent : left) top = exponent ? *exponent : top;
                for (const auto& exponent : left) top = exponent ? std::max(top, *exponent) : top;
            }
            Factors factors{.first = block};
            for (auto& exponent : left) {
                const bool taken = exponent && (!row.wide(fp8()) || top - *exponent <= 11);
                factors.of_block.push_back(taken ? std::ldexp(1.0, *exponent - top + lift) : 0);
                if (taken) exponent.reset();
            }
            list.emplace_back(factors, top);
        } while (std::ranges::any_of(left, [](const auto& exponent) { return exponent.has_value(); }));
        return list;
    }

    float slice(std::int64_t begin, std::int64_t end) const {
        if (folded() != nullptr) return folded_slice(begin, end);
        float sum = 0;
        const std::int64_t length = chain_length(end - begin);
        for (std::int64_t k = begin; k < end; k += length) {
            const float p = chain(k, std::min(k + length, end));
            if (scaled_along_k()) {
                sum = std::fma(p, chain_scale(a, k) * chain_scale(b, k), sum);
            } else {
                sum = sum + p;
            }
        }
        return sum;
    }
};

/// By the product if it is a normal number.
float by_both(float sum, float first, float second) {
    const float product = first * second;
    return std::isnormal(product) ? sum * product : sum * first * second;
}

std::uint32_t rounded(Format format, float value) {
    std::uint32_t code = 0;
    formats::store(&code, format, 0, value);
    return code;
}

}  // namespace

std::uint32_t canonical_bits(const Geometry& g, const GroupGemm& gemm, std::int64_t row, std::int64_t column,
                             std::span<const std::int64_t> k_splits) {
    const Element element{
        .a = {g.a, gemm.group, gemm.row_begin + row, gemm.a},
        .b = {g.b, gemm.group, column, gemm.b},
        .promoted = g.accumulation == Accumulation::promoted,
        .all_k = gemm.k_count,
    };
    float c = 0;
    const bool with_c = g.c.data != nullptr;
    if (with_c)
        c = float(formats::load(g.c.data, g.addend(), output_index(g.c, gemm.group, gemm.row_begin + row, column)));
    if (gemm.k_count == 0) return rounded(g.output, c);

    std::vector<std::int64_t> ends(k_splits.begin(), k_splits.end());
    std::erase_if(ends, [&](std::int64_t cut) { return cut <= 0 || cut >= gemm.k_count; });
    ends.push_back(gemm.k_count);
    float sum = element.slice(0, ends[0]);
    for (std::size_t i = 1; i < ends.size(); ++i) sum = sum + element.slice(ends[i - 1], ends[i]);
    const bool nvfp4_waits = element.nvfp4_next_to_scales();
    float of_values = (element.a.is_nvfp4() ? 256.0F : 1.0F) * (element.b.is_nvfp4() ? 256.0F : 1.0F);
    float alpha = g.alpha;
    if (!nvfp4_waits) {
        const float tensors = element.a.tensor_scale() * element.b.tensor_scale();
        alpha = alpha * (std::abs(tensors) >= 0x1p64F ? tensors : tensors * of_values);
        if (!(std::abs(tensors) >= 0x1p64F)) of_values = 1;
    }
    const float tensor = nvfp4_waits ? element.a.tensor_scale() * element.b.tensor_scale() : 1;
    if (element.folded() != nullptr) {
        const Line& other = element.unfolded();
        const Folded folded(*element.folded(), gemm.k_count);
        const bool fp8 = element.fp8();
        float of_other = tensor, of_folded = 1;
        if (!folded.wide(fp8)) {
            of_other *= other.scale_period() == 0 ? other.outside_scale(0) : element.left(other);
            of_folded = float(std::ldexp(1.0, folded.reference()));
            if (fp8) of_values /= 64;
        }
        if (folded.nan) of_folded = NAN;
        sum = by_both(sum * of_values, of_other, of_folded);
    } else {
        const float of_a = element.end_scale(element.a), of_b = element.end_scale(element.b);
        const bool apart = nvfp4_waits || (element.scaled_along_k() && element.others_wait());
        sum = sum * of_values;
        if (element.a.is_nvfp4() && nvfp4_waits) {
            sum = by_both(sum, tensor, of_b);
        } else if (nvfp4_waits) {
            sum = by_both(sum, of_a, tensor);
        } else {
            sum = apart ? by_both(sum, of_a, of_b) : sum * (of_a * of_b);
        }
    }
    return rounded(g.output, with_c ? std::fma(alpha, sum, c) : alpha * sum);
}

}  // namespace tilewright::tests
