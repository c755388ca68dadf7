#include "api/moe_steps.h"

#include <algorithm>

#include "base/math.h"
#include "formats/recipe_of.h"

namespace tilewright {
namespace {

constexpr OperandRecipe unscaled(Format format) { return {.values = format, .granularity = Granularity::none}; }

/// Rows [begin, end) of a tensor.
Tensor part(Tensor tensor, std::int64_t begin, std::int64_t end) {
    if (!tensor.given()) return tensor;
    if (tensor.data != nullptr) {
        tensor.data = static_cast<std::byte*>(tensor.data) + begin * tensor.strides[0] * bits(tensor.format) / 8;
    }
    tensor.shape[0] = end - begin;
    return tensor;
}

class LayerLayout {
public:
    LayerLayout(const Moe& layer, Arena& arena, const RankedRows& ranked)
        : layer_(layer), arena_(arena), ranked_(ranked), sizes_(sizes_of(layer)) {}

    MoeSteps steps() {
        if (sizes_.has_routing()) add_route();
        h_ = operand(sizes_.shape(sizes_.inner));
        const std::int64_t reused = arena_.position();
        const Operand rows = add_rows();
        gate_up_ = arena_.tensor(Format::bf16, sizes_.shape(weight_shape(layer_.up)[1]));
        made_.up = product(rows, layer_.up, layer_.up_bias, gate_up_);
        add_activation();
        const std::int64_t after = arena_.position();
        arena_.rewind(reused);  // y takes the place of what the first product read and wrote
        const bool sums = needs_sum();
        y_ = ranked_.y.given() ? ranked_.y
             : sums            ? arena_.tensor(Format::bf16, sizes_.shape(sizes_.hidden))
                               : layer_.out;
        arena_.rewind(std::max(after, arena_.position()));
        made_.down = product(h_, layer_.down, layer_.down_bias, y_);
        if (sums) add_sum();
        return made_;
    }

private:
    bool weights_at(WeightsAt place) const { return layer_.weights_at == place; }

    /// Rows of an expert.
    std::int64_t expected_m() const {
        const Tensor& map = layer_.routing.map;
        if (layer_.expected_m > 0 || !map.given() || map.shape[0] == 0) return layer_.expected_m;
        return ceil_div(sizes_.tokens * (sizes_.choices - layer_.routing.shared), map.shape[0]);
    }

    void add_route() {
        moe::RouteStep route{.routing = layer_.routing,
                             .first = ranked_.first,
                             .experts = sizes_.experts,
                             .owners = ranked_.owners,
                             .owner_rows = ranked_.owner_rows};
        route.out.ends = ends_ = arena_.tensor(Format::i32, {sizes_.experts});
        route.out.rows = places_ = arena_.tensor(Format::i32, {sizes_.tokens, sizes_.choices});
        route.out.sources = ranked_.sources;
        if (weights_at(WeightsAt::activation) && layer_.routing.weights.given()) {
            route.out.weights = row_weights_ = arena_.tensor(Format::f32, {sizes_.rows()});
        }
        made_.route = route;
    }

    moe::ExistingRows existing() const {
        if (sizes_.has_routing()) return {.ends = ends_, .sorted = true};
        if (sizes_.masked) return {.counts = layer_.groups.sizes};
        const bool aligned = layer_.groups.grouping == Grouping::m_grouped_aligned_offsets;
        return {.ends = layer_.groups.sizes, .alignment = aligned ? layer_.groups.alignment : 1};
    }

    Groups groups() const {
        if (!sizes_.has_routing()) return layer_.groups;
        return {.grouping = Grouping::m_grouped_offsets, .sizes = ends_};
    }

    Operand operand(const Dims& shape) {
        Operand made = arena_.rows(layer_.activations, shape);
        if (made.granularity == Granularity::block_1x16) {
            made.tensor_scale = arena_.tensor(Format::f32, scale_shape(Granularity::tensor, shape));
        }
        return made;
    }

    /// The first product's rows.
    Operand add_rows() {
        const Tensor factors = !weights_at(WeightsAt::input) ? Tensor{}
                               : sizes_.has_routing()        ? layer_.routing.weights
                                                             : layer_.row_weights;
        const OperandRecipe& recipe = layer_.activations;
        if (!sizes_.has_routing() && !factors.given()) {
            if (layer_.quantized.values.given()) return layer_.quantized;
            if (unscaled(layer_.x.format) == recipe) return {.values = layer_.x, .granularity = Granularity::none};
        }
        const Dims shape = sizes_.shape(sizes_.hidden);
        moe::PermuteStep permute{.x = layer_.x,
                                 .quantized = layer_.quantized,
                                 .places = places_,
                                 .ranks = ranked_.tokens,
                                 .factors = factors,
                                 .round_up = layer_.round_up};
        if (!sizes_.has_routing()) permute.existing = existing();
        if (layer_.quantized.values.given() || is_written_directly(recipe)) {
            permute.out = layer_.quantized.values.given() ? copied(layer_.quantized, shape) : operand(shape);
        } else if (sizes_.has_routing() && !factors.given()) {
            made_.token_codes = operand(layer_.x.shape);
            permute.quantized = *made_.token_codes;
            permute.x = {};
            permute.out = copied(*made_.token_codes, shape);
        } else {
            const Operand rows = operand(shape);
            permute.out = {.values = arena_.tensor(Format::f32, shape)};
            permute.clears = !sizes_.has_routing();
            made_.staged_rows = {
                .numbers = permute.out.values, .ends = sizes_.has_routing() ? ends_ : Tensor{}, .out = rows};
            made_.permute = permute;
            return rows;
        }
        made_.permute = permute;
        return permute.out;
    }

    /// Memory for rows of an operand. Scales of the whole tensor stay where they are.
    Operand copied(const Operand& from, const Dims& shape) {
        const OperandRecipe recipe = recipe_of(from);
        if (row_block(recipe.granularity) == 1) {
            Operand made = arena_.rows(recipe, shape);
            made.tensor_scale = from.tensor_scale;
            return made;
        }
        Operand made = from;
        made.values = arena_.tensor(recipe.values, shape);
        return made;
    }

    void add_activation() {
        made_.activate = {
            .gate_up = gate_up_, .unit = layer_.unit, .existing = existing(), .out = h_, .round_up = layer_.round_up};
        if (weights_at(WeightsAt::activation)) {
            made_.activate.factors = sizes_.has_routing() ? row_weights_ : layer_.row_weights;
        }
        if (is_written_directly(layer_.activations)) return;
        const Tensor staged = arena_.tensor(Format::f32, sizes_.shape(sizes_.inner));
        made_.activate.out = {.values = staged};
        made_.activate.clears = true;
        made_.staged_h = {.numbers = staged, .out = h_};
    }

    /// Whether the second product's rows are not the result yet.
    bool needs_sum() const {
        const bool weighted = weights_at(WeightsAt::combine) && layer_.row_weights.given();
        return sizes_.has_routing() || weighted || layer_.addend.given() || layer_.out.format != Format::bf16;
    }

    void add_sum() {
        moe::CombineStep sum{.y = y_, .places = places_, .addend = layer_.addend, .out = layer_.out};
        if (!sizes_.has_routing()) sum.existing = existing();
        if (weights_at(WeightsAt::combine)) {
            sum.weights = sizes_.has_routing() ? layer_.routing.weights : layer_.row_weights;
        }
        made_.combine = sum;
    }

    Product product(const Operand& a, const Operand& b, const Tensor& bias, const Tensor& d) {
        Product made{.problem = {.a = a,
                                 .b = b,
                                 .d = d,
                                 .bias = bias,
                                 .groups = groups(),
                                 .accumulation = layer_.accumulation,
                                 .arithmetic = layer_.arithmetic,
                                 .reproducibility = layer_.reproducibility,
                                 .sm_limit = layer_.sm_limit,
                                 .expected_m = expected_m()}};
        made.workspace = workspace_of(made.problem, arena_);
        return made;
    }

    const Moe& layer_;
    Arena& arena_;
    const RankedRows& ranked_;
    MoeSizes sizes_;
    MoeSteps made_{};
    Tensor ends_{};
    Tensor places_{};
    Tensor row_weights_{};
    Operand h_{};
    Tensor gate_up_{};
    Tensor y_{};
};

}  // namespace

bool is_written_directly(const OperandRecipe& recipe) {
    switch (recipe.granularity) {
        case Granularity::none:
        case Granularity::row:
        case Granularity::block_1x128: return true;
        case Granularity::block_1x32: return recipe.values != Format::e2m1;
        default: return false;
    }
}

Dims weight_shape(const Operand& weights) {
    return weights.packed.given() ? weights.packed.shape() : weights.values.shape;
}

MoeSizes sizes_of(const Moe& layer) {
    const Tensor& x = layer.quantized.values.given() ? layer.quantized.values : layer.x;
    const Dims up = weight_shape(layer.up);
    const int rank = x.shape.rank();
    MoeSizes sizes{.experts = up[0],
                   .hidden = up[2],
                   .inner = layer.unit.kind == GatedUnit::Kind::relu_squared ? up[1] : up[1] / 2,
                   .tokens = x.shape[rank - 2],
                   .masked = layer.groups.grouping == Grouping::m_grouped_masked};
    if (layer.routing.experts.given()) sizes.choices = layer.routing.experts.shape[1] + layer.routing.shared;
    return sizes;
}

Moe tokens_of(const Moe& layer, std::int64_t begin, std::int64_t end) {
    Moe made = layer;
    made.x = part(layer.x, begin, end);
    made.quantized.values = part(layer.quantized.values, begin, end);
    if (row_block(layer.quantized.granularity) == 1) made.quantized.scales = part(layer.quantized.scales, begin, end);
    made.routing.experts = part(layer.routing.experts, begin, end);
    made.routing.weights = part(layer.routing.weights, begin, end);
    made.addend = part(layer.addend, begin, end);
    made.out = part(layer.out, begin, end);
    return made;
}

Moe as_on_gpu(Moe layer) {
    const auto move = [](auto&... memories) { ((memories.device = {.kind = DeviceId::Kind::cuda}), ...); };
    for (Operand* operand : {&layer.quantized, &layer.up, &layer.down}) {
        move(operand->values, operand->scales, operand->tensor_scale, operand->packed);
    }
    move(layer.x, layer.routing.experts, layer.routing.weights, layer.routing.map, layer.groups.sizes,
         layer.row_weights, layer.up_bias, layer.down_bias, layer.addend, layer.out);
    return layer;
}

MoeSteps steps(const Moe& layer, Arena& arena, const RankedRows& ranked) {
    return LayerLayout(layer, arena, ranked).steps();
}

}  // namespace tilewright
