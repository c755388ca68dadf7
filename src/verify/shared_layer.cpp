#include "verify/shared_layer.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "api/moe_steps.h"
#include "api/rank_layout.h"
#include "check/random.h"
#include "formats/element.h"
#include "verify/rank_on_gpu.h"

namespace tilewright::verify {
namespace {

using Clock = std::chrono::steady_clock;

/// All threads start together. One that ends early does not hold up the others.
class CommonStart {
public:
    explicit CommonStart(std::barrier<>& all) : all_(all) {}
    ~CommonStart() {
        if (!was_there_) all_.arrive_and_drop();
    }
    CommonStart(const CommonStart&) = delete;
    CommonStart& operator=(const CommonStart&) = delete;

    void wait() {
        was_there_ = true;
        all_.arrive_and_wait();
    }

private:
    std::barrier<>& all_;
    bool was_there_ = false;
};

/// A rank's calls, and the seconds of each.
class RankOfRun {
public:
    RankOfRun(std::unique_ptr<Ranks> own, const ExpertGroupOptions& options, const Moe& part, const RankedRun& how)
        : how_(how), part_(part), group_(std::move(own), options) {
        if (how.on_gpu) on_gpu_.emplace(part, group_);
    }

    std::vector<double> run() {
        std::vector<double> seconds;
        for (int i = 0; i < how_.times; ++i) {
            const auto begin = Clock::now();
            call();
            seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
        }
        group_.check();
        return seconds;
    }
    void copy_result() const {
        if (on_gpu_) on_gpu_->copy_result(part_.out);
    }
    /// The kernels of a call, and those of a rank whose call is wrong. Whether ranks came does not count.
    void load() {
        call();
        group_.decline(options());
        on_gpu_->synchronize();
    }

private:
    RunOptions options() const {
        if (on_gpu_) return {.stream = on_gpu_->stream(), .workspace = on_gpu_->workspace()};
        return {.threads = how_.threads, .device = how_.planned_for};
    }
    void call() {
        group_.run(on_gpu_ ? on_gpu_->layer() : part_, options());
        if (on_gpu_) on_gpu_->synchronize();
    }

    const RankedRun& how_;
    const Moe& part_;
    ExpertGroup group_;
    std::optional<RankOnGpu> on_gpu_{};
};

}  // namespace

std::vector<std::string> by_ranks(int ranks, const std::function<void(std::unique_ptr<Ranks>)>& work,
                                  const DeviceId& device) {
    std::vector<std::unique_ptr<Ranks>> all = ranks_of_threads(ranks, device);
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

std::vector<std::int64_t> random_split(std::int64_t tokens, int ranks, std::uint64_t seed) {
    check::Random random(seed);
    std::vector<std::int64_t> begins{0};
    for (int rank = 1; rank < ranks; ++rank) begins.push_back(random.up_to(tokens));
    begins.push_back(tokens);
    std::sort(begins.begin(), begins.end());
    return begins;
}

std::vector<std::int64_t> even_split(std::int64_t tokens, int ranks) {
    std::vector<std::int64_t> begins;
    for (int rank = 0; rank <= ranks; ++rank) begins.push_back(tokens * rank / ranks);
    return begins;
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

RankedResult SharedLayer::run_calls(const RankedRun& how, bool only_loads) const {
    std::vector<std::vector<double>> seconds(static_cast<std::size_t>(ranks()));
    std::barrier<> all_are_ready(ranks());
    RankedResult result;
    const DeviceId device = how.on_gpu ? DeviceId{DeviceId::Kind::cuda, 0} : DeviceId{};
    const auto work = [&](std::unique_ptr<Ranks> own) {
        CommonStart start(all_are_ready);
        const auto rank = own->rank();
        const auto layer = std::make_unique<const Moe>(part(rank));  // frames are small
        const auto calls = std::make_unique<RankOfRun>(std::move(own), options_, *layer, how);
        start.wait();
        if (only_loads) return calls->load();
        seconds[static_cast<std::size_t>(rank)] = calls->run();
        calls->copy_result();
    };
    for (const std::string& error : by_ranks(ranks(), work, device)) {
        if (!error.empty()) result.errors += error + "\n";
    }
    if (only_loads || !result.errors.empty()) return result;
    for (int i = 0; i < how.times; ++i) {
        double slowest = 0;
        for (const std::vector<double>& of_rank : seconds) {
            slowest = std::max(slowest, of_rank[static_cast<std::size_t>(i)]);
        }
        result.seconds.push_back(slowest);
    }
    return result;
}

/// A GPU loads no kernel while another one waits for a rank. So the call runs once with waits of a nanosecond. They
/// find that ranks are lost, and what follows computes something, with the kernels of the call.
std::string SharedLayer::load_kernels(const RankedRun& how) const {
    ExpertGroupOptions hasty = options_;
    hasty.seconds = 1e-9;
    return SharedLayer(whole_, hasty, tokens_).run_calls({.on_gpu = true, .planned_for = how.planned_for}, true).errors;
}

RankedResult SharedLayer::run(const RankedRun& how) {
    if (how.on_gpu && !kernels_are_loaded_) {
        if (std::string errors = load_kernels(how); !errors.empty()) return {.errors = std::move(errors)};
        kernels_are_loaded_ = true;
    }
    return run_calls(how, false);
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

void keep_to_routed_experts(check::MoeCase& whole) {
    const check::MoeSpec& spec = whole.spec();
    const Tensor& ids = whole.layer().routing.experts;
    for (std::int64_t i = 0; i < spec.tokens * spec.choices; ++i) {
        const std::int64_t id = formats::load_integer(ids.data, ids.format, i);
        if (id < spec.experts - spec.shared) continue;
        if (ids.format == Format::i64) {
            static_cast<std::int64_t*>(ids.data)[i] = -1;
        } else {
            static_cast<std::int32_t*>(ids.data)[i] = -1;
        }
    }
}

}  // namespace tilewright::verify
