// The steps of a call over ranks and their predicted times. Every rank is expected to have all tokens that there is
// room for, and every expert as many rows. So other ranks read as many bytes here as this rank reads there. Such bytes
// count as bytes of the link and as bytes through HBM.
#include <tilewright/error.h>
#include <tilewright/expert_group.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "api/explained_steps.h"
#include "api/link_rates.h"
#include "api/rank_check.h"
#include "api/rank_layout.h"
#include "formats/recipe_of.h"
#include "launch/moe.h"
#include "launch/quantize.h"

namespace tilewright {
namespace {

constexpr std::int64_t choice_bytes = 8;  // the number of an expert and its weight
constexpr std::int64_t place_bytes = 4;

class ExplainedRound {
public:
    ExplainedRound(const Moe& layer, const ExpertGroupOptions& options, const GroupSizes& sizes,
                   const DeviceDescription& device)
        : layer_(layer),
          options_(options),
          sizes_(sizes),
          others_(sizes.ranks - 1),
          layout_(sizes, nullptr, layer.out.device),
          explained_(device) {
        const double elsewhere = 1 - 1 / static_cast<double>(sizes.ranks);
        chosen_ = 1 - std::pow(elsewhere, options.choices);
        const double own = options.shared > 0 ? 1 : chosen_;
        ranks_of_token_ = own + static_cast<double>(others_) * chosen_;
    }

    std::vector<MoeStep> list() {
        lay_out();
        add_announce();
        add_exchange();
        add_layer();
        if (rows_travel()) {
            add_rows();
        } else {
            add_sums();
        }
        return explained_.take();
    }

private:
    bool by_addresses() const { return sizes_.exchange == Exchange::addresses; }
    bool rows_travel() const { return sizes_.combine == RankSums::rows; }
    std::string all_ranks() const { return std::to_string(sizes_.ranks) + " ranks"; }
    /// The choices of this rank's tokens. As many rows are expected here.
    std::int64_t choices() const { return sizes_.room * sizes_.choices; }
    std::int64_t row_bytes() const { return sizes_.hidden * bits(Format::bf16) / 8; }
    /// Bytes of something that a rank has of each token, for the tokens that choose one of its experts.
    std::int64_t of_chosen(std::int64_t bytes_of_token, double ranks) const {
        return std::llround(static_cast<double>(sizes_.room * bytes_of_token) * ranks);
    }
    std::int64_t of_others(std::int64_t bytes_of_token) const {
        return of_chosen(bytes_of_token, static_cast<double>(others_) * chosen_);
    }
    std::int64_t token_bytes() const { return bytes_of(layout_.tokens) / sizes_.room; }

    /// The local layer, as `ExpertGroup` runs it, for a place in no memory.
    void lay_out() {
        Arena counting(nullptr, layer_.out.device);
        const Dims choices{sizes_.all_tokens(), sizes_.choices};
        local_ = local_layer(layer_, sizes_, layout_, counting.tensor(Format::i32, choices),
                             counting.tensor(Format::f32, choices));
        made_ = steps(local_, counting, {.y = layout_.y});
    }

    /// Scales of a whole tensor need all tokens here first.
    bool is_gathered() const { return !travels_quantized(options_) && !is_written_directly(options_.activations); }

    /// The kernel that writes the tokens announces their choices, unless a quantizer writes them.
    void add_announce() {
        const Tensor x = layer_.quantized.values.given() ? Tensor{} : with_rows(layer_.x, sizes_.room);
        const Operand codes = with_rows(layer_.quantized, sizes_.room);
        const Routing& routing = layer_.routing;
        int launches = 1;
        if (x.given() && !is_written_directly(sizes_.tokens)) {
            launches += static_cast<int>(launch::lower(x, layout_.tokens, options_.round_up).size());
        }
        explained_.add_copy(
            {.name = "announce",
             .what = std::to_string(sizes_.room) + " tokens as " + name(recipe_of(layout_.tokens)) + ", " +
                     std::to_string(choices()) + " choices",
             .bytes = bytes_of(x) + bytes_of(codes) + bytes_of(with_rows(routing.experts, sizes_.room)) +
                      bytes_of(with_rows(routing.weights, sizes_.room)) + bytes_of(layout_.tokens) +
                      choices() * choice_bytes,
             .launches = launches},
            launches * launch_seconds);
    }

    /// A collective, and then a kernel that collects what this rank needs to know.
    void add_collective(MoeStep step, std::int64_t collected_bytes) {
        step.exposed_seconds = collective_seconds(step.link_bytes);
        step.seconds = step.exposed_seconds + launch_seconds + explained_.copy_seconds(collected_bytes, 0);
        step.bytes += collected_bytes;
        explained_.add(step);
    }

    void add_barrier(MoeStep step) { explained_.add_copy(std::move(step), barrier_seconds, barrier_seconds); }

    /// The launches of a barrier: none where the kernel after it is one.
    int launches_before_rows() const {
        if (is_gathered()) return 1;
        const moe::MeetStep meet{.ids = layout_.ids};
        return static_cast<int>(launch::lower(meet, *made_.route, *made_.permute).size() -
                                launch::lower(*made_.route, *made_.permute).size());
    }
    int launches_before(const moe::CombineStep& sum) const {
        const moe::MeetStep meet{.ids = layout_.ids};
        return static_cast<int>(launch::lower(meet, sum).size() - launch::lower(sum).size());
    }

    void add_exchange() {
        const std::int64_t of_a_rank = choices() * choice_bytes, collected = 2 * sizes_.ranks * of_a_rank;
        if (by_addresses()) {
            return add_barrier({.name = "barrier",
                                .what = "of " + all_ranks() + ", and their choices",
                                .bytes = collected,
                                .link_bytes = others_ * of_a_rank,
                                .launches = launches_before_rows()});
        }
        const std::int64_t announced = layout_.announced_bytes;
        add_collective({.name = "all-gather",
                        .what = "tokens and choices of " + all_ranks(),
                        .bytes = (1 + sizes_.ranks) * announced,
                        .link_bytes = others_ * announced,
                        .launches = 2},
                       collected);
    }

    void add_layer() {
        ExpectedShares expected{.tokens = ranks_of_token_ / static_cast<double>(sizes_.ranks),
                                .rows = 1 / static_cast<double>(sizes_.ranks),
                                .link_bytes = by_addresses() ? of_others(token_bytes()) : 0};
        if (is_gathered()) {
            expected.link_bytes = 0;
            explained_.add_copy({.name = "gather",
                                 .what = "the tokens of " + all_ranks() + ", for the scale of all",
                                 .bytes = 2 * bytes_of(with_rows(layout_.tokens, sizes_.all_tokens())),
                                 .link_bytes = by_addresses() ? others_ * bytes_of(layout_.tokens) : 0});
        }
        explained_.add_up_to_combine(local_, made_, expected);
    }

    /// The sum of this rank's tokens: of rows, or of sums of ranks.
    moe::CombineStep last_sum() const {
        const std::int64_t places = rows_travel() ? sizes_.choices : sizes_.ranks;
        Tensor of_tokens = row_major(static_cast<void*>(nullptr), Format::i32, {sizes_.room, places});
        of_tokens.device = layer_.out.device;
        return {.y = !by_addresses() ? layout_.received
                     : rows_travel() ? layout_.y
                                     : layout_.sums,
                .places = of_tokens,
                .addend = with_rows(layer_.addend, sizes_.room),
                .out = with_rows(layer_.out, sizes_.room)};
    }

    /// With addresses the sum reads rows where they are. A collective needs them at the slots of their choices, and
    /// brings the slots of all choices from every rank.
    void add_rows() {
        const std::int64_t rows = choices() * row_bytes(), known = 2 * choices() * place_bytes;
        if (by_addresses()) {
            const std::int64_t elsewhere = sizes_.room * options_.choices * others_ / sizes_.ranks;
            add_barrier({.name = "barrier",
                         .what = "of " + all_ranks() + ", and where rows are",
                         .bytes = known + choices() * place_bytes,
                         .link_bytes = elsewhere * place_bytes,
                         .launches = launches_before(last_sum())});
            return add_combine(std::to_string(sizes_.choices) + " rows per token", rows, elsewhere * row_bytes());
        }
        explained_.add_copy({.name = "rows",
                             .what = std::to_string(choices()) + " rows to the slots of their choices",
                             .bytes = 2 * rows + choices() * place_bytes});
        add_collective({.name = "all-to-all",
                        .what = "slots of rows of " + all_ranks(),
                        .bytes = 2 * sizes_.ranks * rows,
                        .link_bytes = others_ * rows,
                        .launches = 1 + launches_before(last_sum())},
                       known);
        add_combine(std::to_string(sizes_.choices) + " rows per token", rows, 0);
    }

    /// With addresses a rank writes its sums where their owners sum them.
    void add_sums() {
        const std::int64_t sums = of_chosen(sizes_.result_bytes(), ranks_of_token_);
        explained_.add_copy({.name = "sums",
                             .what = std::to_string(choices()) + " rows, per token of " + all_ranks() + ", as " +
                                     std::string(name(sizes_.sums)),
                             .bytes = choices() * row_bytes() + sizes_.ranks * choices() * choice_bytes + sums,
                             .link_bytes = by_addresses() ? of_others(sizes_.result_bytes()) : 0});
        const std::int64_t known = choices() * place_bytes + sizes_.room * sizes_.ranks * place_bytes;
        if (by_addresses()) {
            add_barrier({.name = "barrier",
                         .what = "of " + all_ranks() + ", and who has sums",
                         .bytes = known,
                         .launches = launches_before(last_sum())});
        } else {
            const std::int64_t of_a_rank = sizes_.room * sizes_.result_bytes();
            add_collective({.name = "all-to-all",
                            .what = "sums of " + all_ranks(),
                            .bytes = 2 * sizes_.ranks * of_a_rank,
                            .link_bytes = others_ * of_a_rank,
                            .launches = 1 + launches_before(last_sum())},
                           known);
        }
        add_combine("up to " + std::to_string(sizes_.ranks) + " sums per token", sums, 0);
    }

    void add_combine(const std::string& what, std::int64_t summed, std::int64_t link_bytes) {
        const std::int64_t places = rows_travel() ? sizes_.choices : sizes_.ranks;
        const bool weighted = rows_travel() && options_.weights_at == WeightsAt::combine;
        explained_.add_copy({.name = "combine",
                             .what = what,
                             .bytes = summed + sizes_.room * places * place_bytes +
                                      (weighted ? bytes_of(with_rows(layer_.routing.weights, sizes_.room)) : 0) +
                                      bytes_of(with_rows(layer_.addend, sizes_.room)) +
                                      bytes_of(with_rows(layer_.out, sizes_.room)),
                             .link_bytes = link_bytes});
    }

    const Moe& layer_;
    const ExpertGroupOptions& options_;
    const GroupSizes& sizes_;
    const std::int64_t others_;  // ranks
    double chosen_ = 0;          // the chance that a token chooses an expert of a rank
    double ranks_of_token_ = 0;  // expected ranks that have an expert of a token
    RankLayout layout_;
    Moe local_{};
    MoeSteps made_{};
    ExplainedSteps explained_;
};

}  // namespace

std::vector<MoeStep> explain(const Moe& given, const ExpertGroupOptions& options, int ranks, bool has_addresses,
                             const DeviceDescription& device) {
    require_none(check(options, ranks));
    const auto on_gpu = std::make_unique<const Moe>(as_on_gpu(given));  // frames are small
    const Moe& layer = *on_gpu;
    const GroupSizes sizes(options, ranks, exchange_of(options, has_addresses));
    require_none(validate(layer, Backend::hopper, Check::shapes));
    require_none(check_against(layer, options, sizes, layer.out.device));
    return std::make_unique<ExplainedRound>(layer, options, sizes, device)->list();
}

}  // namespace tilewright
