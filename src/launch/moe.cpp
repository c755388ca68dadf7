#include "launch/moe.h"

#include <fmt/format.h>
#include <tilewright/error.h>
#include <tilewright/ranks.h>

#include <algorithm>
#include <utility>

#include "base/math.h"
#include "formats/matrix_view.h"
#include "launch/quantize_views.h"
#include "moe/unit_rule.h"

namespace tilewright::launch {
namespace {

using namespace hopper;
using formats::matrix_view;
using formats::MatrixView;

constexpr int sms = 132;  // of an H100 or H200
// Blocks of a kernel whose rows may be missing: each goes through many rows.
constexpr int most_looping_blocks = sms * 32;
constexpr int most_summing_blocks = sms * combine_blocks;  // each loads its next choices while it adds rows

/// A matrix of rows. The strides of dimensions of one index have no effect.
MatrixView rows_view(const Tensor& tensor) {
    MatrixView view = matrix_view(tensor);
    if (view.groups <= 1) view.group_stride = 0;
    if (view.rows <= 1) view.row_stride = 0;
    return view;
}

bool takes_row_vectors(const MatrixView& view) {
    const std::int64_t bytes = bits(view.format) / 8;
    return is_aligned(view.data, {view.row_stride * bytes, view.group_stride * bytes});
}

IntegerList integer_list(const Tensor& tensor) {
    if (!tensor.given()) return {};
    return {.data = tensor.data,
            .stride = stride(tensor, 0),
            .is_wide = tensor.format == Format::i64,
            .count = static_cast<int>(tensor.shape[0])};
}

RankShifts rank_shifts(const moe::RankMemory& memory) {
    RankShifts shifts;
    if (!memory.given()) return shifts;
    std::copy(memory.shifts, memory.shifts + std::min(memory.size, formats::most_ranks_at_barrier), shifts.bytes);
    // More ranks have no addresses: what they announced lies here, at equal distances.
    if (memory.size > formats::most_ranks_at_barrier) shifts.stride = memory.shifts[1] - memory.shifts[0];
    shifts.room = static_cast<int>(memory.room);
    shifts.count = memory.size;
    return shifts;
}

ExistingArguments existing_arguments(const moe::ExistingRows& existing) {
    return {.ends = integer_list(existing.ends),
            .alignment = static_cast<int>(std::clamp<std::int64_t>(existing.alignment, 1, most_indices)),
            .sorted = existing.sorted,
            .counts = integer_list(existing.counts)};
}

/// A number per choice, [tokens, choices], or per row, [rows] or [groups, room].
FactorArguments factor_arguments(const Tensor& tensor, bool by_choice) {
    if (!tensor.given()) return {};
    return {.data = tensor.data,
            .format = number(tensor.format),
            .group_stride = by_choice ? 0 : stride(tensor, 1),
            .row_stride = stride(tensor, by_choice ? 1 : 0),
            .choice_stride = by_choice ? stride(tensor, 0) : 0,
            .choices = by_choice ? static_cast<int>(tensor.shape[1]) : 1};
}

PlaceArguments place_arguments(const Tensor& places, std::int64_t rows) {
    if (!places.given()) return {};
    return {.data = static_cast<const int*>(places.data),
            .token_stride = stride(places, 1),
            .choice_stride = stride(places, 0),
            .choices = static_cast<int>(places.shape[1]),
            .rows = static_cast<int>(rows)};
}

RowTarget row_target(const Operand& out) {
    const MatrixView values = rows_view(out.values);
    return {.data = reinterpret_cast<u8*>(values.data),
            .group_stride = values.group_stride,
            .row_stride = values.row_stride,
            .scales = scale_matrix(out, false),
            .ue8m0 = out.scales.given() && out.scales.format == Format::ue8m0};
}

RowOutput row_output(const Operand& out) {
    switch (out.granularity) {
        case Granularity::row: return RowOutput::scaled_rows;
        case Granularity::block_1x128: return RowOutput::scaled_blocks;
        case Granularity::block_1x32: return RowOutput::mx;
        default:
            return out.values.format == Format::bf16  ? RowOutput::bf16
                   : out.values.format == Format::f16 ? RowOutput::f16
                                                      : RowOutput::f32;
    }
}

/// The fields that the output determines.
RowSpec output_spec(const Operand& out, bool round_up) {
    RowSpec spec{.output = row_output(out)};
    if (!has_scales(spec.output)) return spec;
    spec.storage = out.values.format == Format::e5m2 ? ValueFormat::e5m2 : ValueFormat::e4m3;
    spec.rounds_up = round_up || (spec.output != RowOutput::mx && out.scales.format == Format::ue8m0);
    return spec;
}

RowGrid row_grid(const MatrixView& rows, std::int64_t features) {
    return {.rows = static_cast<int>(rows.groups * rows.rows),
            .room = static_cast<int>(std::max<std::int64_t>(rows.rows, 1)),
            .features = static_cast<int>(features)};
}

int whole_warps(int lanes) { return std::max(round_up(lanes, warp_threads), warp_threads); }

/// Divides rows into parts of equal length, in multiples of `step`, that `most` lanes hold. Returns the threads of a
/// block, which has a part.
int divide_rows(RowGrid& grid, int lane, int most, int step = part_step) {
    const int parts = std::max(ceil_div(grid.features, lane * most), 1);
    grid.part_features = round_up(std::max(ceil_div(grid.features, parts), 1), step);
    grid.parts = std::max(ceil_div(grid.features, grid.part_features), 1);
    return std::min(whole_warps(ceil_div(grid.part_features, lane)), most);
}

/// A scale of a whole row needs a block that has all of the row.
int divide_scaled_rows(RowGrid& grid, const RowSpec& spec) {
    const int threads = divide_rows(grid, lane_features, most_threads(spec));
    if (spec.output != RowOutput::scaled_rows) return threads;
    grid.parts = 1;
    grid.part_features = grid.features;
    return threads;
}

/// Blocks that find out by one load whether a row exists go through many rows.
int count_row_blocks(const RowGrid& grid, const ExistingArguments& existing) {
    const int blocks = grid.rows * grid.parts;
    const bool loops = existing.sorted || existing.counts.data != nullptr;
    return loops ? std::min(blocks, most_looping_blocks) : blocks;
}

/// Rows that are adjacent in a block's threads, so that as few lanes as possible are idle. `lanes`: of a row.
int rows_that_fill_warps(int lanes, int most) {
    int best = 1;
    for (int rows = 2; rows * lanes <= most; ++rows) {
        // Fewer threads per row than the best number of rows takes.
        if (best * whole_warps(rows * lanes) < rows * whole_warps(best * lanes)) best = rows;
    }
    return best;
}

RouteArguments route_arguments(const moe::RouteStep& step) {
    const Tensor& ids = step.routing.experts;
    const auto integers = [](const Tensor& tensor) { return static_cast<int*>(tensor.data); };
    RouteArguments arguments{.ids = ids.data,
                             .token_stride = stride(ids, 1),
                             .choice_stride = stride(ids, 0),
                             .ids_are_wide = ids.format == Format::i64,
                             .map = integer_list(step.routing.map),
                             .weights = factor_arguments(step.routing.weights, true),
                             .tokens = static_cast<int>(ids.shape[0]),
                             .given = static_cast<int>(ids.shape[1]),
                             .choices = static_cast<int>(ids.shape[1]) + step.routing.shared,
                             .first = static_cast<int>(step.first),
                             .experts = static_cast<int>(step.experts),
                             .rows = integers(step.out.rows),
                             .sources = integers(step.out.sources),
                             .ends = integers(step.out.ends),
                             .row_weights = static_cast<float*>(step.out.weights.data)};
    if (step.owners.given()) {
        arguments.owner_rows = integers(step.owner_rows);
        arguments.owners = rank_shifts(step.owners);
    }
    return arguments;
}

std::int64_t choices_of(const moe::RouteStep& step) {
    const Dims& shape = step.routing.experts.shape;
    return shape[0] * (shape[1] + step.routing.shared);
}

/// Makes a token of each choice if no address changes. The kernel then divides no number of a choice.
RouteArguments with_tokens_of_one_choice(RouteArguments arguments) {
    FactorArguments& weights = arguments.weights;
    const bool ids =
        arguments.given == arguments.choices && arguments.token_stride == arguments.choices * arguments.choice_stride;
    const bool factors = weights.data == nullptr || (weights.choices == arguments.choices &&
                                                     weights.row_stride == weights.choices * weights.choice_stride);
    if (!ids || !factors || arguments.choices == 0) return arguments;
    arguments.tokens *= arguments.choices;
    arguments.owners.room *= arguments.choices;
    arguments.token_stride = arguments.choice_stride;
    weights.row_stride = weights.choice_stride;
    weights.choices = arguments.given = arguments.choices = 1;
    return arguments;
}

/// Whether choice i has number i of ids and weights.
bool are_adjacent(const RouteArguments& arguments) {
    const FactorArguments& weights = arguments.weights;
    return arguments.choices == 1 && arguments.given == 1 && arguments.token_stride == 1 && !arguments.ids_are_wide &&
           arguments.map.data == nullptr &&
           (weights.data == nullptr ||
            (weights.format == Number::f32 && weights.choices == 1 && weights.row_stride == 1));
}

std::int64_t shared_bytes(const RouteArguments& arguments, const RouteCluster& cluster) {
    return route_shared_bytes(arguments.experts, arguments.tokens * arguments.choices, cluster.keeps, cluster.blocks);
}

/// As many blocks as the GPU allows. If sources or weights are written too, choices are brought into order. An H200
/// takes 11.0 us for 65,536 choices of 256 experts so, 16.7 in 8 blocks, and 19.0 without the order. If only rows are
/// written, it takes 10.1 us with the order and 9.7 without (benchmarks/route_gpu).
RouteCluster cluster_of(const RouteArguments& arguments, int most_blocks) {
    const bool orders = arguments.sources != nullptr || arguments.row_weights != nullptr;
    RouteCluster cluster{.blocks = most_blocks, .keeps = orders ? RouteKeeps::order : RouteKeeps::places};
    if (orders && shared_bytes(arguments, cluster) > most_route_shared) cluster.keeps = RouteKeeps::places;
    if (shared_bytes(arguments, cluster) > most_route_shared) cluster.keeps = RouteKeeps::nothing;
    return cluster;
}

/// The arguments of a launch that routes.
RouteArguments& routing_of(OtherLaunch& launch) {
    if (auto* const route = std::get_if<CallOf<Route>>(&launch.call)) return route->arguments;
    return std::get<CallOf<MeetAndRoute>>(launch.call).arguments.route;
}

AnnounceArguments announce_arguments(const moe::AnnounceStep& step) {
    AnnounceArguments arguments{.room = static_cast<int>(step.ids.shape[0]),
                                .numbers = static_cast<int>(step.numbers),
                                .routed = std::max(step.experts - step.shared, 1),
                                .shared = step.shared,
                                .first_shared = (step.rank + 1) * step.experts - step.shared,
                                .ids = static_cast<int*>(step.ids.data),
                                .weights = static_cast<float*>(step.weights.data),
                                .to = rank_shifts(step.to),
                                .ranks = std::max(step.to.size, 1),
                                .rows = static_cast<int*>(step.rows.data),
                                .counters = step.counters,
                                .said = step.said,
                                .state = step.state};
    if (step.routing.experts.given()) {
        arguments.route = route_arguments({.routing = step.routing});
    }
    arguments.route.choices = static_cast<int>(step.ids.shape[1]);
    if (step.places.given()) {
        arguments.table = static_cast<const int*>(step.places.data);
        arguments.copies = static_cast<int>(step.places.shape[1]);
    }
    return arguments;
}

MeetArguments meet_arguments(const moe::MeetStep& step) {
    // By moe::Collects: sent rows are rows too, whose `rows` are null.
    constexpr Collected collected[] = {Collected::nothing, Collected::choices, Collected::rows, Collected::rows,
                                       Collected::sums};
    return {.ranks = rank_shifts(step.memory),
            .rank = step.memory.rank,
            .count = step.memory.size,
            .counters = step.counters,
            .said = step.said,
            .state = step.state,
            .phase = step.phase,
            .nanoseconds = step.nanoseconds,
            .report = step.report,
            .experts = step.experts,
            .choices = static_cast<int>(step.ids.shape[1]),
            .tokens = step.out.given() ? static_cast<int>(step.out.shape[0]) : 0,
            .collects = collected[static_cast<std::size_t>(step.collects)],
            .ids = static_cast<const int*>(step.ids.data),
            .weights = static_cast<const float*>(step.weights.data),
            .out = static_cast<int*>(step.out.data),
            .out_weights = static_cast<float*>(step.out_weights.data),
            .rows = step.collects == moe::Collects::rows ? static_cast<const int*>(step.rows.data) : nullptr,
            .row_count = static_cast<int>(step.row_count)};
}

/// The steps that a kernel of rows does too; null: it does not.
struct Joined {
    const moe::RouteStep* route = nullptr;
    const moe::AnnounceStep* announce = nullptr;
    const moe::MeetStep* meet = nullptr;
};

/// The launch with the rows to which tokens go.
template <class Kernel>
OtherLaunch to_places(const moe::PermuteStep& step, const Joined& joined, Kernel kernel,
                      typename Kernel::Arguments arguments, int threads) {
    kernel.spec.routes = joined.route != nullptr;
    kernel.spec.from_ranks = step.ranks.given();
    kernel.spec.announces = joined.announce != nullptr;
    kernel.spec.meets = joined.meet != nullptr;
    arguments.places = place_arguments(step.places, matrix_view(step.out.values).rows);
    if (step.ranks.given()) {
        arguments.ranks = rank_shifts(step.ranks);
        arguments.grid.room = arguments.ranks.room;
    }
    arguments.existing = existing_arguments(step.existing);
    int blocks = count_row_blocks(arguments.grid, arguments.existing);
    if (joined.route != nullptr) {
        arguments.route = route_arguments(*joined.route);
        // Each warp writes the end of one expert. With one token and 128 experts the kernel takes 4.6 us; with one
        // block, which wrote all ends, it took 10.6 (H100).
        blocks = std::max(blocks, ceil_div(arguments.route.experts, threads / warp_threads));
    }
    if (joined.announce != nullptr) arguments.announce = announce_arguments(*joined.announce);
    if (joined.meet != nullptr) arguments.meet = meet_arguments(*joined.meet);
    return launch_of(kernel, arguments, blocks, threads);
}

OtherLaunch permute_launch(const moe::PermuteStep& step, const Joined& joined) {
    RowSpec spec = output_spec(step.out, step.round_up);
    PermuteArguments arguments;
    const MatrixView x = rows_view(step.x), values = rows_view(step.out.values);
    spec.source = number(x.format);
    spec.has_factors = step.factors.given();
    arguments.grid = row_grid(x, x.columns);
    const int threads = divide_scaled_rows(arguments.grid, spec);
    arguments.x = source_matrix(x);
    arguments.to = row_target(step.out);
    arguments.clears = step.clears;
    arguments.factors = factor_arguments(step.factors, step.places.given());
    if (step.ranks.given()) arguments.factors.group_stride = arguments.factors.row_stride * step.ranks.room;
    spec.vectors = x.columns % lane_features == 0 && takes_row_vectors(x) && takes_row_vectors(values);
    return to_places(step, joined, Permute{spec}, arguments, threads);
}

OtherLaunch copy_launch(const moe::PermuteStep& step, const Joined& joined) {
    CopyRowsArguments arguments;
    const MatrixView from = rows_view(step.quantized.values), values = rows_view(step.out.values);
    const int element_bits = bits(from.format);
    const auto in_bytes = [&](std::int64_t elements) { return elements * element_bits / 8; };
    arguments.grid = row_grid(from, ceil_div<std::int64_t>(from.columns * element_bits, 8));
    const int threads = divide_rows(arguments.grid, copy_bytes, copy_threads);
    arguments.from = reinterpret_cast<const u8*>(from.data);
    arguments.group_stride = in_bytes(from.group_stride);
    arguments.row_stride = in_bytes(from.row_stride);
    arguments.to = row_target(step.out);
    arguments.to.group_stride = in_bytes(values.group_stride);
    arguments.to.row_stride = in_bytes(values.row_stride);
    if (row_block(step.out.granularity) == 1) {
        arguments.scales = scale_matrix(step.quantized, false);
        const int block = k_block(step.out.granularity);
        arguments.scale_count = block == 0 ? 1 : static_cast<int>(ceil_div<std::int64_t>(from.columns, block));
        arguments.wide_scales = bits(step.out.scales.format) == 32;
    }
    arguments.vectors = arguments.grid.features % copy_bytes == 0 &&
                        is_aligned(arguments.from, {arguments.row_stride, arguments.group_stride}) &&
                        is_aligned(arguments.to.data, {arguments.to.row_stride, arguments.to.group_stride});
    return to_places(step, joined, CopyRows{}, arguments, threads);
}

UnitArguments unit_arguments(const Tensor& gate_up, const Tensor& gradient, const GatedUnit& unit) {
    const MatrixView rows = rows_view(gate_up), of_h = rows_view(gradient);
    UnitArguments arguments{
        .gate_up = source_matrix(rows),
        .gradient = source_matrix(of_h),
        .features = static_cast<int>(of_h.columns),
        .unit = moe::unit_of(unit.kind),
        .rule = moe::rule_of(unit),
        .vectors = of_h.columns % unit_features == 0 && takes_row_vectors(rows) && takes_row_vectors(of_h)};
    if (formats::has_up(arguments.unit)) arguments.up = unit.swiglu.interleaved ? 1 : arguments.features;
    return arguments;
}

OtherLaunch rows_launch(const moe::PermuteStep& step, const Joined& joined = {}) {
    return step.quantized.values.given() ? copy_launch(step, joined) : permute_launch(step, joined);
}

/// The launches after a barrier.
std::vector<OtherLaunch> after(const moe::MeetStep& meet, std::vector<OtherLaunch> launches) {
    launches.insert(launches.begin(), lower(meet).front());
    return launches;
}

void require(bool served, const char* name, const char* rule) {
    if (!served) throw Error(fmt::format("{}: {} on a GPU; compute on the CPU", name, rule));
}

void require_matrix(const char* name, const Tensor& tensor) {
    const int last = tensor.shape.rank() - 1;
    require(tensor.shape[last] <= 1 || tensor.strides[last] == 1, name, "the numbers of a row must be adjacent");
    const MatrixView view = matrix_view(tensor);
    require(std::max({view.columns, view.rows, view.groups}) <= most_indices, name, "at most 2^30 rows and columns");
    // A part has 2048 columns in the kernel with the most parts.
    const std::int64_t parts = ceil_div<std::int64_t>(std::max<std::int64_t>(view.columns, 1), 1024);
    require(view.groups * view.rows * parts <= most_indices, name, "at most 2^30 parts of 1024 columns");
}

void require_output(const Operand& out) {
    require_matrix("out", out.values);
    const Format format = out.values.format;
    switch (out.granularity) {
        case Granularity::none:
            return require(format == Format::bf16 || format == Format::f16 || format == Format::f32, "out",
                           "values without scales must be bf16, f16 or f32");
        case Granularity::row:
        case Granularity::block_1x128:
        case Granularity::block_1x32:
            return require(format == Format::e4m3 || format == Format::e5m2, "out",
                           "values with scales must be e4m3 or e5m2");
        default: require(false, "out", "scales must be of rows, 1x128 or 1x32");
    }
}

void require_unit(const Tensor& gate_up, const Tensor& gradient) {
    for (const Tensor* tensor : {&gate_up, &gradient}) {
        require(tensor->format == Format::bf16, "gate_up and gradient", "must be bf16");
        require_matrix("gate_up", *tensor);
    }
}

}  // namespace

OtherLaunch in_cluster(OtherLaunch launch, const RouteCluster& cluster) {
    RouteArguments& arguments = routing_of(launch);
    launch.blocks = launch.cluster = cluster.blocks;
    launch.shared_bytes = static_cast<int>(shared_bytes(arguments, cluster));
    arguments.keeps = cluster.keeps;
    arguments.adjacent = are_adjacent(arguments);
    return launch;
}

OtherLaunch in_portable_cluster(OtherLaunch launch) {
    const RouteCluster cluster = cluster_of(routing_of(launch), portable_cluster);
    return in_cluster(launch, cluster);
}

std::vector<OtherLaunch> lower(const moe::RouteStep& step) {
    const RouteArguments arguments = with_tokens_of_one_choice(route_arguments(step));
    return {in_cluster(launch_of(Route{}, arguments, 0, route_threads), cluster_of(arguments, most_route_blocks))};
}

std::vector<OtherLaunch> lower(const moe::PermuteStep& step) { return without_empty({rows_launch(step)}); }

bool fits_in_permute(const moe::RouteStep& step) { return choices_of(step) <= most_fused_choices; }

std::vector<OtherLaunch> lower(const moe::RouteStep& route, const moe::PermuteStep& permute) {
    if (fits_in_permute(route)) return {rows_launch(permute, {.route = &route})};
    std::vector<OtherLaunch> launches = lower(route);
    for (const OtherLaunch& launch : lower(permute)) launches.push_back(launch);
    return launches;
}

std::vector<OtherLaunch> lower(const moe::ActivateStep& step) {
    RowSpec spec = output_spec(step.out, step.round_up);
    ActivateArguments arguments;
    const MatrixView gate_up = rows_view(step.gate_up), values = rows_view(step.out.values);
    spec.activates = true;
    spec.unit = moe::unit_of(step.unit.kind);
    spec.interleaved = formats::has_up(spec.unit) && step.unit.swiglu.interleaved;
    arguments.grid = row_grid(gate_up, values.columns);
    int threads = divide_scaled_rows(arguments.grid, spec);
    arguments.gate_up = source_matrix(gate_up);
    arguments.up = spec.interleaved ? 1 : static_cast<int>(values.columns);
    arguments.rule = moe::rule_of(step.unit);
    arguments.existing = existing_arguments(step.existing);
    arguments.factors = factor_arguments(step.factors, false);
    arguments.to = row_target(step.out);
    arguments.clears = step.clears;
    spec.vectors = values.columns % lane_features == 0 && takes_row_vectors(gate_up) && takes_row_vectors(values);
    int blocks = count_row_blocks(arguments.grid, arguments.existing);
    const ExistingArguments& existing = arguments.existing;
    // Whether a lane finds out by itself if its row exists.
    const bool finds_rows = existing.counts.data == nullptr && (existing.sorted || existing.ends.data == nullptr);
    if (spec.output != RowOutput::scaled_rows && arguments.grid.parts == 1 && finds_rows) {
        const int lanes = arguments.grid.part_features / lane_features;
        arguments.grid.rows_per_block = rows_that_fill_warps(lanes, most_threads(spec));
        threads = whole_warps(lanes * arguments.grid.rows_per_block);
        blocks = std::min(blocks, ceil_div(arguments.grid.rows, arguments.grid.rows_per_block));
    }
    return without_empty({launch_of(Activate{spec}, arguments, blocks, threads)});
}

std::vector<OtherLaunch> lower(const moe::CombineStep& step) {
    constexpr int step_of_parts = 64;  // columns: whole lines of bf16
    CombineArguments arguments;
    const MatrixView y = rows_view(step.y), out = rows_view(step.out);
    arguments.grid = row_grid(out, out.columns);
    const int threads = divide_rows(arguments.grid, combine_features, combine_threads, step_of_parts);
    arguments.y = source_matrix(y);
    arguments.places =
        place_arguments(step.places, step.y_ranks.given() ? step.y_ranks.size * step.y_ranks.room : y.rows);
    arguments.skips = step.skips;
    arguments.y_ranks = rank_shifts(step.y_ranks);
    if (step.out_ranks.given()) {
        arguments.out_ranks = rank_shifts(step.out_ranks);
        arguments.grid.room = arguments.out_ranks.room;
    }
    if (!step.places.given()) arguments.existing = existing_arguments(step.existing);
    arguments.weights = factor_arguments(step.weights, step.places.given());
    bool vectors = out.columns % combine_features == 0 && takes_row_vectors(y) && takes_row_vectors(out);
    if (step.addend.given()) {
        const MatrixView addend = rows_view(step.addend);
        arguments.addend = source_matrix(addend);
        arguments.addend_format = number(addend.format);
        vectors = vectors && takes_row_vectors(addend);
    }
    arguments.out = row_target({.values = step.out});
    const Combine kernel{{.rows = number(y.format),
                          .out = number(out.format),
                          .vectors = vectors,
                          .from_ranks = step.y_ranks.given(),
                          .to_ranks = step.out_ranks.given()}};
    const int blocks = std::min(count_row_blocks(arguments.grid, arguments.existing), most_summing_blocks);
    return without_empty({launch_of(kernel, arguments, blocks, threads)});
}

std::vector<OtherLaunch> lower(const moe::UnitGradientStep& step) {
    const MatrixView out = rows_view(step.out);
    UnitGradientArguments arguments{.of = unit_arguments(step.gate_up, step.gradient, step.unit),
                                    .existing = existing_arguments(step.existing),
                                    .to = row_target({.values = step.out})};
    arguments.of.vectors = arguments.of.vectors && takes_row_vectors(out);
    arguments.grid = row_grid(out, arguments.of.features);
    const int threads = divide_rows(arguments.grid, unit_features, unit_threads);
    const int blocks = count_row_blocks(arguments.grid, arguments.existing);
    return without_empty({launch_of(UnitGradient{}, arguments, blocks, threads)});
}

std::vector<OtherLaunch> lower(const moe::WeightGradientStep& step) {
    constexpr int choices_per_block = unit_threads / warp_threads;
    const WeightGradientArguments arguments{.of = unit_arguments(step.gate_up, step.gradient, step.unit),
                                            .places = place_arguments(step.places, step.gate_up.shape[0]),
                                            .tokens = static_cast<int>(step.out.shape[0]),
                                            .choices = static_cast<int>(step.out.shape[1]),
                                            .out = static_cast<float*>(step.out.data),
                                            .out_token_stride = stride(step.out, 1),
                                            .out_choice_stride = stride(step.out, 0)};
    const std::int64_t blocks =
        ceil_div<std::int64_t>(std::int64_t{arguments.tokens} * arguments.choices, choices_per_block);
    return without_empty({launch_of(WeightGradient{}, arguments, static_cast<int>(blocks), unit_threads)});
}

std::vector<OtherLaunch> lower(const moe::AnnounceStep& step) {
    const std::int64_t blocks = ceil_div<std::int64_t>(step.ids.shape[0] * step.ids.shape[1], announce_threads);
    const int used = static_cast<int>(std::clamp<std::int64_t>(blocks, 1, sms));
    return {launch_of(Announce{}, announce_arguments(step), used, announce_threads)};
}

std::vector<OtherLaunch> lower(const moe::PermuteStep& tokens, const moe::AnnounceStep& step) {
    const OtherLaunch launch = rows_launch(tokens, {.announce = &step});
    return launch.blocks == 0 ? lower(step) : std::vector{launch};
}

// Each rank has a thread.
static_assert(most_ranks <= meet_threads);

std::vector<OtherLaunch> lower(const moe::MeetStep& step) {
    const std::int64_t numbers = step.out.given() ? step.out.shape[0] * step.out.shape[1] : 0;
    const int of_thread = step.collects == moe::Collects::choices ? meet_ahead : 1;
    const std::int64_t blocks = ceil_div<std::int64_t>(numbers, meet_threads * of_thread);
    const int used = static_cast<int>(std::clamp<std::int64_t>(blocks, 1, most_barrier_blocks));
    return {launch_of(Meet{}, meet_arguments(step), used, meet_threads)};
}

std::vector<OtherLaunch> lower(const moe::MeetStep& meet, const moe::RouteStep& route,
                               const moe::PermuteStep& permute) {
    // Whether a kernel that routes can be the barrier too. Weights of rows would be loaded as if no other rank wrote
    // them.
    const bool meets = meet.said == nullptr && !route.out.weights.given() && !permute.factors.given();
    if (meets && fits_in_permute(route)) return {rows_launch(permute, {.route = &route, .meet = &meet})};
    std::vector<OtherLaunch> launches = lower(route, permute);
    if (!meets) return after(meet, std::move(launches));
    auto& first = launches.front().call;
    first = CallOf<MeetAndRoute>{.arguments = {meet_arguments(meet), std::get<CallOf<Route>>(first).arguments}};
    return launches;
}

std::vector<OtherLaunch> lower(const moe::MeetStep& meet, const moe::CombineStep& sum) {
    std::vector<OtherLaunch> launches = lower(sum);
    if (launches.empty() || launches.front().blocks > most_combining_blocks) return after(meet, std::move(launches));
    auto& combined = std::get<CallOf<Combine>>(launches.front().call);
    combined.kernel.spec.meets = true;
    combined.arguments.meet = meet_arguments(meet);
    return launches;
}

void require_served(const moe::RouteStep& step) {
    static_assert(most_routed_experts == 2048);
    require(step.experts <= most_routed_experts, "experts", "at most 2048");
    require(choices_of(step) <= most_indices, "routing", "at most 2^30 choices");
}

void require_served(const moe::PermuteStep& step) {
    if (step.quantized.values.given()) {
        require_matrix("quantized", step.quantized.values);
        return require_matrix("out", step.out.values);
    }
    require_matrix("x", step.x);
    require_output(step.out);
}

void require_served(const moe::ActivateStep& step) {
    require(step.gate_up.format == Format::bf16, "gate_up", "must be bf16");
    require_matrix("gate_up", step.gate_up);
    require_output(step.out);
}

void require_served(const moe::CombineStep& step) {
    require(step.y.format == Format::bf16 || step.y.format == Format::f32, "y", "must be bf16 or f32");
    for (const Tensor* tensor : {&step.y, &step.out, &step.addend}) {
        if (tensor->given()) require_matrix("combine", *tensor);
    }
}

void require_served(const moe::UnitGradientStep& step) { require_unit(step.gate_up, step.gradient); }

void require_served(const moe::WeightGradientStep& step) {
    require_unit(step.gate_up, step.gradient);
    require(step.out.shape[0] * step.out.shape[1] <= most_indices, "out", "at most 2^30 choices");
}

}  // namespace tilewright::launch
