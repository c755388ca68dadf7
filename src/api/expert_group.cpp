// A call over ranks: announced, exchanged, computed and combined, round by round.
#include <tilewright/error.h>
#include <tilewright/expert_group.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "api/moe_run.h"
#include "api/rank_check.h"
#include "api/rank_layout.h"
#include "api/rank_memory.h"
#include "base/threads.h"
#include "cuda/memory.h"
#include "moe/exchange.h"

namespace tilewright {
namespace {

using formats::CallState;
using formats::RankReport;
using moe::Collects;
using moe::RankMemory;

std::byte* at(void* memory, std::int64_t bytes) { return static_cast<std::byte*>(memory) + bytes; }

/// Fills the rows from `begin` on with zeros.
void clear_rows(const Tensor& matrix, std::int64_t begin, const RunOptions& how) {
    const std::int64_t row = row_major_bytes(matrix.format, {1, matrix.shape[1]});
    const std::int64_t bytes = (matrix.shape[0] - begin) * row;
    if (bytes == 0) return;
    std::byte* const first = at(matrix.data, begin * row);
    if (is_on_gpu(matrix)) return cuda::fill(matrix.device.index, first, 0, bytes, how.stream);
    std::memset(first, 0, static_cast<std::size_t>(bytes));
}

/// The places of experts' copies as a table, -1 after the last.
std::vector<std::int32_t> table_of(const std::vector<std::vector<int>>& places, std::size_t copies) {
    std::vector<std::int32_t> table(places.size() * copies, -1);
    for (std::size_t expert = 0; expert < places.size(); ++expert) {
        std::copy(places[expert].begin(), places[expert].end(),
                  table.begin() + static_cast<std::ptrdiff_t>(expert * copies));
    }
    return table;
}

}  // namespace

/// The layer of this rank's experts over the tokens of all ranks.
struct LocalLayer {
    Moe layer{};
    Tensor ids{};                                // int32 [ranks * room, choices]
    Tensor weights{};                            // f32, as ids
    Tensor sources{};                            // int32 [all rows, 1]: the choice of each row, for slots
    std::optional<moe::PermuteStep> gathered{};  // brings the tokens here first
    MoeSteps steps{};
};

struct ExpertGroup::State {
    State(std::unique_ptr<Ranks> of, const ExpertGroupOptions& given);

    // The steps of a round.
    /// This rank's part of the choices of all ranks, if they are here.
    Tensor own_choices(Tensor choices) const {
        if (by_addresses()) choices.data = at(choices.data, ranks->rank() * sizes.room * sizes.choices * 4);
        choices.shape[0] = sizes.room;
        return choices;
    }
    moe::AnnounceStep announcement(const Routing& routing, CallState state) const;
    void announce(const Moe& layer, const RunOptions& how);
    moe::MeetStep meet_step(int phase, moe::MeetStep step, CallState state);
    void gather_announced(const RunOptions& how);
    void make_local_rows(const LocalLayer& local, const RunOptions& how);
    void run_round(const Moe& layer, std::int64_t begin, void* memory, const RunOptions& how);
    void combine(const Moe& tokens, const LocalLayer& local, Arena& arena, const RunOptions& how);
    void send_rows(const LocalLayer& local, const RunOptions& how);
    void send_sums(const moe::CombineStep& of_layer, const RunOptions& how);
    void return_results(const RunOptions& how);
    void take_part_wrongly(const RunOptions& how);

    /// This round's tokens: none if the rank has fewer.
    Moe round_of(const Moe& layer, std::int64_t begin) const;
    std::unique_ptr<LocalLayer> lay_out(const Moe& layer, Arena& arena) const;
    /// int32 [tokens, choices or ranks]: where what a rank sums for its tokens is.
    Tensor places_of_sums(Arena& arena, std::int64_t tokens) const {
        return arena.tensor(Format::i32, {tokens, rows_travel() ? sizes.choices : sizes.ranks});
    }
    std::int64_t bytes_of(const Moe& layer) const;
    void look_at_report();
    void leave();
    void make_table();
    std::vector<std::int64_t> shifts_of_ranks() const;
    RankMemory memory_of_ranks(std::int64_t room) const;
    bool by_addresses() const { return sizes.exchange == Exchange::addresses; }
    bool rows_travel() const { return sizes.combine == RankSums::rows; }
    bool on_gpu() const { return device.kind == DeviceId::Kind::cuda; }

    std::unique_ptr<Ranks> ranks;
    ExpertGroupOptions options;
    DeviceId device;
    std::vector<void*> addresses{};
    GroupSizes sizes;
    void* memory = nullptr;
    RankLayout layout;
    std::vector<std::int64_t> shifts{};
    RankReportForHost report;
    /// Where ranks share a GPU, barriers are separate kernels. As parts of other kernels they timed out: rank 3 of 4
    /// with 40 tokens each never came. Such kernels let the next one begin early, and early products may fill the GPU.
    bool meets_apart = false;
    bool is_lost = false;   // a rank did not come, or this one has left: there are no calls any more
    bool has_left = false;  // a call of this rank ended midway
    std::vector<std::int32_t> table{};
    std::unique_ptr<cuda::DeviceMemory> table_on_gpu{};
    Tensor places{};
};

ExpertGroup::State::State(std::unique_ptr<Ranks> of, const ExpertGroupOptions& given)
    : ranks(std::move(of)),
      options((require_agreement(*ranks, given), given)),
      device(ranks->device()),
      sizes(options, ranks->size(), Exchange::collectives),
      memory(allocated(*ranks, memory_bytes(options, ranks->size()))),
      layout(sizes, memory, device),
      report(device) {
    addresses = ranks->addresses();
    const bool are_few = ranks->size() <= most_ranks_with_addresses;
    if (!all_have(*ranks, are_few && !addresses.empty())) addresses.clear();
    sizes = GroupSizes(options, ranks->size(), exchange_of(options, !addresses.empty()));
    layout = RankLayout(sizes, memory, device);
    shifts = shifts_of_ranks();
    meets_apart = by_addresses() && share_a_gpu(*ranks);
    if (!options.places.empty()) make_table();
    all_have(*ranks, true);  // memory is zeros on all ranks before anyone writes there
}

void ExpertGroup::State::make_table() {
    std::size_t copies = 1;
    for (const auto& of_expert : options.places) copies = std::max(copies, of_expert.size());
    table = table_of(options.places, copies);
    places = row_major(table.data(), Format::i32,
                       {static_cast<std::int64_t>(options.places.size()), static_cast<std::int64_t>(copies)});
    places.device = device;
    if (!on_gpu()) return;
    const auto bytes = static_cast<std::int64_t>(table.size() * sizeof(std::int32_t));
    table_on_gpu = std::make_unique<cuda::DeviceMemory>(device.index, bytes);
    cuda::write_to_device(device.index, table_on_gpu->data(), table.data(), bytes);
    places.data = table_on_gpu->data();
}

/// From this rank's memory, or from what it announces, to that of all ranks.
std::vector<std::int64_t> ExpertGroup::State::shifts_of_ranks() const {
    if (by_addresses()) return shifts_between(addresses, memory);
    std::vector<std::int64_t> made;
    made.reserve(static_cast<std::size_t>(ranks->size()));
    for (int rank = 0; rank < ranks->size(); ++rank) {
        made.push_back(layout.gathered_at + rank * layout.announced_bytes - layout.announced_at);
    }
    return made;
}

RankMemory ExpertGroup::State::memory_of_ranks(std::int64_t room) const {
    return {.rank = ranks->rank(), .size = ranks->size(), .shifts = shifts.data(), .room = room};
}

Moe ExpertGroup::State::round_of(const Moe& layer, std::int64_t begin) const {
    const std::int64_t tokens = sizes_of(layer).tokens;
    return tokens_of(layer, std::min(begin, tokens), std::min(begin + sizes.room, tokens));
}

moe::AnnounceStep ExpertGroup::State::announcement(const Routing& routing, CallState state) const {
    moe::AnnounceStep step{.routing = routing,
                           .places = places,
                           .rank = ranks->rank(),
                           .numbers = options.experts,
                           .experts = static_cast<int>(sizes.per_rank),
                           .shared = options.shared,
                           .ids = own_choices(layout.ids),
                           .weights = own_choices(layout.weights),
                           .state = state,
                           .counters = layout.counters};
    if (by_addresses()) {
        step.to = memory_of_ranks(sizes.room);
        step.rows = layout.rows;
    } else {
        step.said = layout.said;
    }
    return step;
}

/// Writes this round's tokens and their choices.
void ExpertGroup::State::announce(const Moe& layer, const RunOptions& how) {
    const moe::AnnounceStep choices = announcement(layer.routing, CallState::right);
    const std::int64_t tokens = sizes_of(layer).tokens;
    if (!travels_quantized(options)) clear_rows(layout.tokens.values, tokens, how);  // they count for the scale of all
    if (tokens == 0) return run_step(choices, device, how);
    const Operand to = with_rows(layout.tokens, tokens);
    if (!layer.quantized.values.given() && !is_written_directly(sizes.tokens)) {
        quantize(layer.x, {.recipe = sizes.tokens, .round_up = options.round_up}, to, conversion(how));
        return run_step(choices, device, how);
    }
    const moe::PermuteStep values{.x = layer.x,
                                  .quantized = layer.quantized,
                                  .out = to,
                                  .round_up = travels_quantized(options) && options.round_up};
    run_steps(device, how, values, choices);
}

moe::MeetStep ExpertGroup::State::meet_step(int phase, moe::MeetStep step, CallState state) {
    step.memory = memory_of_ranks(sizes.room);
    step.counters = layout.counters;
    step.said = by_addresses() ? nullptr : layout.said;
    step.state = state;
    step.phase = phase;
    step.nanoseconds = static_cast<std::int64_t>(options.seconds * 1e9);
    step.report = report.to_write();
    step.experts = static_cast<int>(sizes.per_rank);
    step.ids = own_choices(layout.ids);
    step.weights = own_choices(layout.weights);
    return step;
}

void ExpertGroup::State::gather_announced(const RunOptions& how) {
    if (by_addresses()) return;
    ranks->all_gather(layout.announced_at, layout.gathered_at, layout.announced_bytes, how.stream);
}

/// Rows of the tokens of all ranks that chose this rank's experts.
void ExpertGroup::State::make_local_rows(const LocalLayer& local, const RunOptions& how) {
    moe::MeetStep meet = meet_step(0, {}, CallState::right);
    if (!by_addresses()) {
        meet.collects = Collects::choices;
        meet.out = local.ids;
        meet.out_weights = local.weights;
    }
    if (!local.gathered && !meets_apart) {
        return run_steps(device, how, meet, *local.steps.route, *local.steps.permute);
    }
    run_step(meet, device, how);
    if (local.gathered) run_step(*local.gathered, device, how);
    make_rows(local.layer, local.steps, how);
}

std::unique_ptr<LocalLayer> ExpertGroup::State::lay_out(const Moe& layer, Arena& arena) const {
    auto made = std::make_unique<LocalLayer>();
    const Dims choices{sizes.all_tokens(), sizes.choices};
    made->ids = by_addresses() ? layout.ids : arena.tensor(Format::i32, choices);
    made->weights = by_addresses() ? layout.weights : arena.tensor(Format::f32, choices);
    made->layer = local_layer(layer, sizes, layout, made->ids, made->weights);
    RankedRows ranked{.tokens = memory_of_ranks(sizes.room)};
    if (by_addresses()) ranked.first = ranks->rank() * sizes.per_rank;
    if (by_addresses() && rows_travel()) {
        ranked.owners = memory_of_ranks(sizes.room);
        ranked.owner_rows = layout.rows;
        ranked.y = layout.y;
    } else if (rows_travel()) {
        made->sources = arena.tensor(Format::i32, {sizes.all_rows(), 1});
        ranked.sources = made->sources;
    }
    // A scale of a whole tensor is that of the tokens of all ranks, which come here first.
    if (!travels_quantized(options) && !is_written_directly(options.activations)) {
        const Tensor here = arena.tensor(options.x, {sizes.ranks, sizes.room, sizes.hidden});
        Tensor there = here;
        there.data = made->layer.x.data;
        made->gathered = moe::PermuteStep{
            .x = there, .ranks = ranked.tokens, .out = {.values = here, .granularity = Granularity::none}};
        made->layer.x = row_major(here.data, options.x, {sizes.all_tokens(), sizes.hidden});
        made->layer.x.device = device;
        ranked.tokens = {};
    }
    made->steps = steps(made->layer, arena, ranked);
    return made;
}

void ExpertGroup::State::run_round(const Moe& layer, std::int64_t begin, void* workspace, const RunOptions& how) {
    const Moe tokens = round_of(layer, begin);
    announce(tokens, how);
    gather_announced(how);
    Arena arena(workspace, device);
    const std::unique_ptr<LocalLayer> local = lay_out(layer, arena);
    make_local_rows(*local, how);
    run_products(local->layer, local->steps, how);
    combine(tokens, *local, arena, how);
}

/// The sum of this rank's experts for each token of all ranks.
void ExpertGroup::State::send_sums(const moe::CombineStep& of_layer, const RunOptions& how) {
    moe::CombineStep partial = of_layer;
    partial.skips = true;
    partial.out = by_addresses() ? layout.sums : layout.sent;
    if (by_addresses()) {  // this rank's part of each owner's memory
        partial.out.data = at(layout.sums.data, ranks->rank() * sizes.room * sizes.result_bytes());
        partial.out_ranks = memory_of_ranks(sizes.room);
    }
    run_step(partial, device, how);
}

/// The sum of this rank's own tokens.
void ExpertGroup::State::combine(const Moe& tokens, const LocalLayer& local, Arena& arena, const RunOptions& how) {
    const std::int64_t own = sizes_of(tokens).tokens;
    moe::MeetStep step{.collects = Collects::sums,
                       .out = places_of_sums(arena, own),
                       .rows = layout.rows,
                       .row_count = by_addresses() ? sizes.all_rows() : sizes.room * sizes.choices};
    moe::CombineStep sum{.y = layout.received, .places = step.out, .addend = tokens.addend, .out = tokens.out};
    if (rows_travel()) {
        step.collects = by_addresses() ? Collects::rows : Collects::sent_rows;
        if (options.weights_at == WeightsAt::combine) sum.weights = tokens.routing.weights;
        if (!by_addresses()) send_rows(local, how);
    } else {
        send_sums(*local.steps.combine, how);
    }
    if (by_addresses()) {
        sum.y = rows_travel() ? layout.y : layout.sums;
        if (rows_travel()) sum.y_ranks = memory_of_ranks(sizes.all_rows());
    } else {
        return_results(how);
    }
    const moe::MeetStep meet = meet_step(1, step, CallState::right);
    if (!meets_apart) return run_steps(device, how, meet, sum);
    run_step(meet, device, how);
    run_step(sum, device, how);
}

/// Each row to the slot of its choice.
void ExpertGroup::State::send_rows(const LocalLayer& local, const RunOptions& how) {
    const moe::PermuteStep sent{.x = local.steps.down.problem.d,
                                .places = local.sources,
                                .existing = {.ends = local.steps.route->out.ends, .sorted = true},
                                .out = {.values = layout.sent, .granularity = Granularity::none}};
    run_step(sent, device, how);
}

void ExpertGroup::State::return_results(const RunOptions& how) {
    const std::int64_t rows = rows_travel() ? sizes.room * sizes.choices : sizes.room;
    ranks->all_to_all(layout.sent_at, layout.received_at, rows * sizes.result_bytes(), how.stream);
}

void ExpertGroup::State::take_part_wrongly(const RunOptions& how) {
    for (std::int64_t round = 0; round < sizes.rounds; ++round) {
        run_step(announcement({}, CallState::wrong), device, how);
        gather_announced(how);
        run_step(meet_step(0, {}, CallState::wrong), device, how);
        if (!by_addresses()) {
            return_results(how);
            continue;
        }
        run_step(meet_step(1, {}, CallState::wrong), device, how);
    }
}

ExpertGroup::ExpertGroup(std::unique_ptr<Ranks> ranks, const ExpertGroupOptions& options)
    : state_(std::make_unique<State>(std::move(ranks), options)) {}
ExpertGroup::~ExpertGroup() = default;

int ExpertGroup::rank() const { return state_->ranks->rank(); }
int ExpertGroup::size() const { return state_->ranks->size(); }
Exchange ExpertGroup::exchange() const { return state_->sizes.exchange; }
RankSums ExpertGroup::combine() const { return state_->sizes.combine; }

/// Throws what another rank has said since the last look.
void ExpertGroup::State::look_at_report() {
    const RankReport found = report.take();
    is_lost = is_lost || found.kind() == RankReport::Kind::lost;
    const std::string by = "group of " + std::to_string(ranks->size()) + " ranks (" + ranks->engine() + "): ";
    if (found.kind() == RankReport::Kind::none) {
        if (has_left) throw Error(by + "a call of this rank ended midway; make a new group");
        if (is_lost) throw Error(by + "a rank was lost in an earlier call; make a new group");
        return;
    }
    const std::string call = "call " + std::to_string(turn_of(found) / sizes.rounds + 1);
    const std::string other = "rank " + std::to_string(found.rank());
    if (found.kind() == RankReport::Kind::lost) {
        throw Error(by + other + " did not come to the barrier ahead of the " +
                    (found.phase() == 0 ? "products" : "sums") + " of " + call +
                    " in time; the result is invalid. Make a new group");
    }
    require_none({{"group", "a wrong call on " + other + ", which is " + call + " of the group",
                   "correct calls on all ranks", "see the error there; the result of " + call + " here is wrong"}});
}

/// After a call that ended midway this rank is out of step. It makes no other call, so that the others find it lost
/// instead of taking its next call for this one.
void ExpertGroup::State::leave() { is_lost = has_left = true; }

void ExpertGroup::check() { state_->look_at_report(); }

std::vector<Finding> ExpertGroup::validate(const Moe& layer, Check how_much) const {
    std::vector<Finding> findings = tilewright::validate(layer, Backend::automatic, how_much);
    if (findings.empty()) findings = check_against(layer, state_->options, state_->sizes, state_->device);
    return findings;
}

std::int64_t ExpertGroup::State::bytes_of(const Moe& layer) const {
    Arena arena(nullptr, device);
    lay_out(layer, arena);
    places_of_sums(arena, sizes.room);
    return arena.bytes();
}

std::int64_t ExpertGroup::workspace_bytes(const Moe& layer) const {
    if (!state_->on_gpu() || !validate(layer, Check::shapes).empty()) return 0;
    return state_->bytes_of(layer);
}

void ExpertGroup::decline(const RunOptions& how) {
    if (!state_->is_lost) state_->take_part_wrongly(how);
}

void ExpertGroup::run(const Moe& layer, const RunOptions& how) {
    State& group = *state_;
    std::exception_ptr earlier;
    try {
        check();
    } catch (...) {
        if (group.is_lost) throw;
        earlier = std::current_exception();
    }
    std::optional<CallMemory> memory;
    try {
        if (!group.on_gpu()) require_threads(how.threads);
        require_none(validate(layer));
        memory.emplace(group.bytes_of(layer), group.device, how.workspace);
    } catch (...) {
        group.take_part_wrongly(how);
        throw;
    }
    try {
        for (std::int64_t round = 0; round < group.sizes.rounds; ++round) {
            group.run_round(layer, round * group.sizes.room, memory->data(), how);
        }
    } catch (...) {
        group.leave();
        throw;
    }
    if (earlier) std::rethrow_exception(earlier);
    if (!group.on_gpu()) check();  // on a GPU the call has only been launched
}

}  // namespace tilewright
