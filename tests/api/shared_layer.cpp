#include "api/shared_layer.h"

#include <exception>
#include <thread>
#include <utility>

#include "api/moe_steps.h"
#include "api/rank_layout.h"

namespace tilewright::tests {

std::vector<std::string> by_ranks(int ranks, const std::function<void(std::unique_ptr<Ranks>)>& work) {
    std::vector<std::unique_ptr<Ranks>> all = ranks_of_threads(ranks);
    std::vector<std::string> errors(all.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        threads.emplace_back([&, rank] {
            try {
                work(std::move(all[rank]));
            } catch (const std::exception& error) {
                errors[rank] = error.what();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
}

SharedLayer::SharedLayer(check::MoeCase& whole, const ExpertGroupOptions& options, std::vector<std::int64_t> tokens)
    : whole_(whole), options_(options), tokens_(std::move(tokens)) {
    for (int rank = 0; rank < ranks(); ++rank) {
        const std::vector<std::int64_t> experts = experts_of(rank);
        const Moe& layer = whole_.layer();
        weights_.push_back({taken(layer.up, experts), taken(layer.down, experts), taken(layer.up_bias, experts),
                            taken(layer.down_bias, experts)});
    }
}

/// Places without an expert have the weights of another one, which are not used.
std::vector<std::int64_t> SharedLayer::experts_of(int rank) const {
    const std::int64_t each = experts_of_a_rank(options_, ranks()), routed = each - options_.shared;
    std::vector<std::int64_t> experts(static_cast<std::size_t>(routed), 0);
    if (options_.places.empty()) {
        for (std::int64_t i = 0; i < routed; ++i)
            experts[static_cast<std::size_t>(i)] = (rank * routed + i) % options_.experts;
    }
    for (std::size_t expert = 0; expert < options_.places.size(); ++expert) {
        for (const int place : options_.places[expert]) {
            if (place / each == rank)
                experts[static_cast<std::size_t>(place % each)] = static_cast<std::int64_t>(expert);
        }
    }
    for (int i = 0; i < options_.shared; ++i) experts.push_back(options_.experts + i);
    return experts;
}

Tensor SharedLayer::taken(const Tensor& tensor, const std::vector<std::int64_t>& experts) {
    if (!tensor.given()) return tensor;
    Tensor made = tensor;
    made.shape[0] = static_cast<std::int64_t>(experts.size());
    const std::int64_t bytes = tensor.strides[0] * bits(tensor.format) / 8;
    memory_.push_back(std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes) * experts.size()));
    std::byte* to = memory_.back().get();
    made.data = to;
    for (const std::int64_t expert : experts) {
        const auto* const from = static_cast<const std::byte*>(tensor.data) + expert * bytes;
        std::copy(from, from + bytes, to);
        to += bytes;
    }
    return made;
}

Operand SharedLayer::taken(const Operand& operand, const std::vector<std::int64_t>& experts) {
    Operand made = operand;
    made.values = taken(operand.values, experts);
    made.scales = taken(operand.scales, experts);
    made.tensor_scale = taken(operand.tensor_scale, experts);
    return made;
}

Moe SharedLayer::part(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    Moe part = tokens_of(whole_.layer(), tokens_[index], tokens_[index + 1]);
    part.up = weights_[index].up;
    part.down = weights_[index].down;
    part.up_bias = weights_[index].up_bias;
    part.down_bias = weights_[index].down_bias;
    return part;
}

std::string SharedLayer::run(int times) {
    std::string all;
    for (const std::string& error : by_ranks(ranks(), [&](std::unique_ptr<Ranks> own) {
             const int rank = own->rank();
             ExpertGroup group(std::move(own), options_);
             for (int i = 0; i < times; ++i) group.run(part(rank), {.threads = 1});
         })) {
        if (!error.empty()) all += error + "\n";
    }
    return all;
}

ExpertGroupOptions options_of(const check::MoeCase& whole) {
    const check::MoeSpec& spec = whole.spec();
    return {.max_tokens = std::max<std::int64_t>(spec.tokens, 1),
            .hidden = spec.hidden,
            .experts = spec.experts - spec.shared,
            .choices = static_cast<int>(spec.choices),
            .shared = spec.shared,
            .activations = spec.recipe.a,
            .round_up = spec.round_up,
            .x = spec.x,
            .weights_at = spec.weights_at,
            .reproducibility = spec.reproducibility};
}

}  // namespace tilewright::tests
