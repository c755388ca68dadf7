#include "api/rank_layout.h"

#include <algorithm>

#include "base/math.h"

namespace tilewright {

static_assert(most_ranks_with_addresses == formats::most_ranks_at_barrier);

namespace {

/// The scales of a token are adjacent, so that a rank reads them in few lines of memory.
Operand tokens_in(Arena& arena, const OperandRecipe& recipe, const Dims& shape) {
    Operand made{.values = arena.tensor(recipe.values, shape), .granularity = recipe.granularity};
    if (recipe.granularity != Granularity::none) {
        made.scales = arena.tensor(recipe.scales, scale_shape(recipe.granularity, shape));
    }
    return made;
}

}  // namespace

std::int64_t experts_of_a_rank(const ExpertGroupOptions& options, int ranks) {
    return options.per_rank > 0 ? options.per_rank : options.experts / ranks + options.shared;
}

bool travels_quantized(const ExpertGroupOptions& options) {
    const Granularity granularity = options.activations.granularity;
    return options.weights_at != WeightsAt::input && granularity != Granularity::tensor &&
           granularity != Granularity::block_1x16;
}

GroupSizes::GroupSizes(const ExpertGroupOptions& options, int of_ranks, Exchange by)
    : ranks(of_ranks),
      room(std::min(options.max_tokens, options.chunk)),
      rounds(ceil_div(options.max_tokens, room)),
      choices(std::int64_t{options.choices} + options.shared),
      per_rank(experts_of_a_rank(options, of_ranks)),
      hidden(options.hidden),
      exchange(by),
      combine(options.combine),
      sums(options.sums),
      tokens(travels_quantized(options) ? options.activations
                                        : OperandRecipe{.values = options.x, .granularity = Granularity::none}) {
    if (combine != RankSums::automatic) return;
    const bool few = options.max_tokens <= rows_up_to;
    combine = few || options.reproducibility == Reproducibility::invariant ? RankSums::rows : RankSums::sums;
}

RankLayout::RankLayout(const GroupSizes& sizes, void* memory, const DeviceId& device) {
    Arena arena(memory, device);
    const bool by_addresses = sizes.exchange == Exchange::addresses;
    const Dims choices{by_addresses ? sizes.all_tokens() : sizes.room, sizes.choices};
    counters = static_cast<formats::RankCounters*>(arena.take(sizeof(formats::RankCounters)));
    announced_at = arena.position();
    said = static_cast<formats::RankWord*>(arena.take(sizeof(formats::RankWord)));
    ids = arena.tensor(Format::i32, choices);
    weights = arena.tensor(Format::f32, choices);
    tokens = tokens_in(arena, sizes.tokens, {sizes.room, sizes.hidden});
    announced_bytes = arena.position() - announced_at;
    const bool rows_travel = sizes.combine == RankSums::rows;
    const Dims of_tokens{sizes.all_tokens(), sizes.hidden}, of_rows{sizes.all_rows(), sizes.hidden};
    if (by_addresses) {
        if (rows_travel) {
            rows = arena.tensor(Format::i32, {sizes.room, sizes.choices});
            y = arena.tensor(Format::bf16, of_rows);
        } else {
            sums = arena.tensor(sizes.result(), of_tokens);
        }
    } else {
        gathered_at = arena.position();
        arena.take(announced_bytes * sizes.ranks);
        sent_at = arena.position();
        sent = arena.tensor(sizes.result(), rows_travel ? of_rows : of_tokens);
        received_at = arena.position();
        received = arena.tensor(sizes.result(), sent.shape);
    }
    bytes = arena.bytes();
}

Tensor with_rows(Tensor tensor, std::int64_t rows) {
    if (tensor.given()) tensor.shape[0] = rows;
    return tensor;
}

Operand with_rows(Operand operand, std::int64_t rows) {
    operand.values = with_rows(operand.values, rows);
    operand.scales = with_rows(operand.scales, rows);
    return operand;
}

Moe local_layer(const Moe& layer, const GroupSizes& sizes, const RankLayout& layout, const Tensor& ids,
                const Tensor& weights) {
    Moe local = layer;
    local.routing = {.experts = ids, .weights = weights};
    local.addend = {};
    local.expected_m = ceil_div(sizes.room * sizes.choices, sizes.per_rank);
    const Operand tokens = with_rows(layout.tokens, sizes.all_tokens());
    const bool has_scales = tokens.granularity != Granularity::none;
    local.x = has_scales ? Tensor{} : tokens.values;
    local.quantized = has_scales ? tokens : Operand{};
    local.out = row_major(static_cast<void*>(nullptr), Format::bf16, {sizes.all_tokens(), sizes.hidden});
    local.out.device = tokens.values.device;
    return local;
}

}  // namespace tilewright
