// One MoE layer over two ranks, which are threads on the CPU. Each rank has half of the experts and half of the tokens.
// The result has the bits of one call with all of them. The page docs/expert_parallel.md explains the steps.
#include <tilewright/tilewright.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

using namespace tilewright;

namespace {

constexpr int ranks = 2;
constexpr int tokens = 60;
constexpr int top = 2;  // experts of a token
constexpr int experts = 4;
constexpr int hidden = 256;
constexpr int inner = 384;

/// Some of the tokens, or of the experts.
struct Part {
    std::int64_t begin = 0;
    std::int64_t count = 0;
};

struct Layer {
    std::vector<float> x = std::vector<float>(std::size_t{tokens} * hidden);
    std::vector<std::int32_t> chosen = std::vector<std::int32_t>(std::size_t{tokens} * top);
    std::vector<float> weights = std::vector<float>(std::size_t{tokens} * top);
    std::vector<float> up = std::vector<float>(std::size_t{experts} * 2 * inner * hidden);  // gates, then ups
    std::vector<float> down = std::vector<float>(std::size_t{experts} * hidden * inner);
};

Layer random_layer() {
    Layer layer;
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& value : layer.x) value = normal(random);
    for (std::int32_t& expert : layer.chosen) expert = static_cast<std::int32_t>(random() % experts);
    for (float& weight : layer.weights) weight = std::abs(normal(random));
    for (float& value : layer.up) value = normal(random) / std::sqrt(float{hidden});
    for (float& value : layer.down) value = normal(random) / std::sqrt(float{inner});
    return layer;
}

/// The quantized weights of some experts.
struct Experts {
    Experts(const Layer& layer, Part part)
        : up(quantize(row_major(layer.up.data() + part.begin * 2 * inner * hidden, Format::f32,
                                {part.count, 2 * inner, hidden}),
                      {.recipe = recipe_named("1x128:128x128").b})),
          down(quantize(
              row_major(layer.down.data() + part.begin * hidden * inner, Format::f32, {part.count, hidden, inner}),
              {.recipe = recipe_named("1x128:128x128").b})) {}
    OwnedOperand up, down;
};

/// The call with some of the tokens. Numbers of experts are those of all ranks.
Moe call(const Layer& layer, const Experts& here, Part part, std::vector<float>& out) {
    return {.x = row_major(layer.x.data() + part.begin * hidden, Format::f32, {part.count, hidden}),
            .routing = {.experts = row_major(layer.chosen.data() + part.begin * top, Format::i32, {part.count, top}),
                        .weights = row_major(layer.weights.data() + part.begin * top, Format::f32, {part.count, top})},
            .up = here.up,
            .down = here.down,
            .activations = recipe_named("1x128:128x128").a,
            .out = row_major(out.data() + part.begin * hidden, Format::f32, {part.count, hidden}),
            .reproducibility = Reproducibility::invariant};
}

/// One rank: makes the group with the others, and calls the layer with its tokens.
void run_rank(std::unique_ptr<Ranks> own, const Layer& layer, std::vector<float>& out) {
    const int rank = own->rank();
    const Experts here(layer, {.begin = rank * experts / ranks, .count = experts / ranks});
    ExpertGroup group(std::move(own), {.max_tokens = tokens / ranks,
                                       .hidden = hidden,
                                       .experts = experts,
                                       .choices = top,
                                       .reproducibility = Reproducibility::invariant});
    group.run(call(layer, here, {.begin = rank * tokens / ranks, .count = tokens / ranks}, out));
}

std::vector<float> over_ranks(const Layer& layer) {
    std::vector<float> out(layer.x.size());
    std::vector<std::exception_ptr> errors(ranks);
    std::vector<std::thread> threads;
    for (std::unique_ptr<Ranks>& own : ranks_of_threads(ranks)) {
        const auto rank = static_cast<std::size_t>(own->rank());
        threads.emplace_back([&, rank, mine = std::move(own)]() mutable {
            try {
                run_rank(std::move(mine), layer, out);
            } catch (...) {
                errors[rank] = std::current_exception();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors) {
        if (error) std::rethrow_exception(error);
    }
    return out;
}

std::vector<float> by_one(const Layer& layer) {
    std::vector<float> out(layer.x.size());
    const Experts all(layer, {.begin = 0, .count = experts});
    run(call(layer, all, {.begin = 0, .count = tokens}, out));
    return out;
}

}  // namespace

int main() {
    const Layer layer = random_layer();
    const bool are_equal = over_ranks(layer) == by_one(layer);
    std::printf("%d tokens over %d ranks: %s one rank\n", tokens, ranks, are_equal ? "the bits of" : "other bits than");
    return are_equal ? 0 : 1;
}
