#include "problem/sample.h"

#include <gtest/gtest.h>
#include "base/math.h"

#include <atomic>
#include <bit>
#include <utility>

namespace tilewright::test {
namespace {

Dims with_groups(bool grouped, std::int64_t groups, Dims inner) {
    if (!grouped) return inner;
    Dims shape{groups};
    for (std::int64_t size : inner) shape.push_back(size);
    return shape;
}

/// A side as problem.h words it, for `rows` and `k`; `grouped`: with the group in front.
Operand operand(const OperandRecipe& recipe, bool transposed, bool grouped, const SampleSpec& s, std::int64_t rows) {
    Operand result;
    const Dims matrix = transposed ? Dims{s.k, rows} : Dims{rows, s.k};
    result.values = placed(recipe.values, with_groups(grouped, s.groups, matrix));
    result.granularity = recipe.granularity;
    switch (recipe.granularity) {
        case Granularity::none: return result;
        case Granularity::tensor: result.scales = placed(recipe.scales, {grouped ? s.groups : 1}); break;
        case Granularity::row: result.scales = placed(recipe.scales, with_groups(grouped, s.groups, {rows})); break;
        case Granularity::block_128x128:
            result.scales = placed(
                recipe.scales,
                with_groups(grouped, s.groups, {ceil_div<std::int64_t>(rows, 128), ceil_div<std::int64_t>(s.k, 128)}));
            break;
        case Granularity::block_1x128:
            result.scales =
                placed(recipe.scales, with_groups(grouped, s.groups, {rows, ceil_div<std::int64_t>(s.k, 128)}));
            break;
        case Granularity::block_1x32:
            result.scales =
                placed(recipe.scales, with_groups(grouped, s.groups, {rows, ceil_div<std::int64_t>(s.k, 32)}));
            break;
        case Granularity::block_1x16:
            result.scales =
                placed(recipe.scales, with_groups(grouped, s.groups, {rows, ceil_div<std::int64_t>(s.k, 16)}));
            result.tensor_scale = placed(Format::f32, {grouped ? s.groups : 1});
            break;
    }
    return result;
}

}  // namespace

Tensor placed(Format format, const Dims& shape) {
    static std::atomic<std::uintptr_t> next{1ULL << 40};
    const auto bytes = static_cast<std::uintptr_t>(row_major_bytes(format, shape));
    return row_major(std::bit_cast<void*>(next.fetch_add(bytes / 256 * 256 + 512)), format, shape);
}

Problem sample(const SampleSpec& s) {
    const std::optional<Recipe> recipe = parse_recipe(s.recipe);
    if (!recipe) throw std::invalid_argument(s.recipe);
    const bool masked = s.grouping == Grouping::m_grouped_masked;
    const bool k_grouped = is_k_grouped(s.grouping);
    const bool batched = s.grouping == Grouping::batched;
    Problem p;
    p.layout = s.layout;
    p.groups.grouping = s.grouping;
    p.a = operand(recipe->a, s.layout == Layout::tn || s.layout == Layout::tt, batched || masked, s, s.m);
    p.b = operand(recipe->b, s.layout == Layout::nn || s.layout == Layout::tn,
                  s.grouping != Grouping::dense && !k_grouped, s, s.n);
    const Dims d_shape = with_groups(batched || masked || k_grouped, s.groups, {s.m, s.n});
    p.d = placed(s.output, d_shape);
    if (s.with_c) p.c = placed(s.output, d_shape);
    if (s.grouping == Grouping::m_grouped_indices) {
        p.groups.sizes = placed(Format::i32, {s.m});
    } else if (s.grouping != Grouping::dense && !batched) {
        p.groups.sizes = placed(Format::i32, {s.groups});
    }
    return p;
}

Tensor transposed(const Tensor& tensor) {
    Tensor view = tensor;
    const int last = tensor.shape.rank() - 1;
    std::swap(view.shape[last - 1], view.shape[last]);
    std::swap(view.strides[last - 1], view.strides[last]);
    return view;
}

Problem sample_on_gpu(const SampleSpec& spec) {
    Problem p = sample(spec);
    for (Tensor* tensor : {&p.a.values, &p.a.scales, &p.a.tensor_scale, &p.b.values, &p.b.scales, &p.b.tensor_scale,
                           &p.d, &p.groups.sizes}) {
        tensor->device = {.kind = DeviceId::Kind::cuda};
    }
    return p;
}

std::string messages(const std::vector<Finding>& findings) {
    std::string text;
    for (const Finding& finding : findings) text += finding.message() + "\n";
    return text;
}

}  // namespace tilewright::test
