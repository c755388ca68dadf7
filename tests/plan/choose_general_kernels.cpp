// Says which general kernels the pack can do without, and the time that calls lose without these
// (tools/choose_general_kernels). For each kind of calls that need one it prints the tiles that together lose the
// least, by the planner's model.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "check/general_calls.h"
#include "hopper/description/design.h"
#include "plan/choose.h"
#include "plan/cost.h"
#include "plan/general_losses.h"
#include "plan/legality.h"
#include "plan/shipped_kernels.h"
#include "plan/shipped_tiles.h"
#include "plan/variant.h"

namespace {

using namespace tilewright;
using namespace tilewright::planner;

/// Larger sets lose so little that no exchange matters.
constexpr std::size_t most_exchanged = 12;

constexpr double never = std::numeric_limits<double>::infinity();

struct Call {
    std::size_t usual = 0;        // the tile that the call takes if all general kernels ship
    std::vector<double> seconds;  // by tile; `never` where the bits would differ, or the tile is illegal
    std::string key;
};

struct Kind {
    hopper::Kernel shapeless;
    std::string name;
    std::vector<hopper::Kernel> tiles;
    std::vector<Call> calls;
};

using Kept = std::vector<bool>;

struct Loss {
    double mean = 0;
    double worst = 0;
    const Call* at_worst = nullptr;

    /// Sets that lose more at worst are as bad as ones that lose much more in the mean.
    static constexpr double aimed_worst = 0.3;
    static_assert(aimed_worst < most_loss);
    double badness() const { return mean + std::max(0.0, worst - aimed_worst); }
};

Loss loss(const Kind& kind, const Kept& kept) {
    Loss result;
    std::vector<std::size_t> list;
    for (std::size_t i = 0; i < kept.size(); ++i) {
        if (kept[i]) list.push_back(i);
    }
    for (const Call& call : kind.calls) {
        if (kept[call.usual]) continue;
        double best = never;
        for (const std::size_t i : list) best = std::min(best, call.seconds[i]);
        const double lost = std::max(0.0, best / call.seconds[call.usual] - 1);
        result.mean += lost / static_cast<double>(kind.calls.size());
        if (lost > result.worst) {
            result.worst = lost;
            result.at_worst = &call;
        }
    }
    return result;
}

/// Leaves out the kernel that is missed the least.
void drop_one(const Kind& kind, Kept& kept) {
    Kept best;
    double least = never;
    for (std::size_t i = 0; i < kept.size(); ++i) {
        if (!kept[i]) continue;
        Kept without = kept;
        without[i] = false;
        if (const double badness = loss(kind, without).badness(); best.empty() || badness < least) {
            best = without;
            least = badness;
        }
    }
    kept = best;
}

/// Exchanges one kernel for another as long as that helps.
void exchange(const Kind& kind, Kept& kept) {
    double least = loss(kind, kept).badness();
    for (bool better = true; better;) {
        better = false;
        for (std::size_t out = 0; out < kept.size(); ++out) {
            for (std::size_t in = 0; in < kept.size() && kept[out]; ++in) {
                if (kept[in]) continue;
                kept[out] = false;
                kept[in] = true;
                if (const double badness = loss(kind, kept).badness(); badness < least - 1e-4) {
                    least = badness;
                    better = true;
                    break;
                }
                kept[out] = true;
                kept[in] = false;
            }
        }
    }
}

void add_call(const check::GeneralCall& each, std::vector<Kind>& kinds) {
    const Workload work = workload(each.problem);
    if (!unsupported_on_hopper(work.asked).empty() || work.empty()) return;
    const hopper::Kernel usual = choose_tiles(work, h200(), tuned_rows()).usual;
    if (variant(work.geometry, usual).output != hopper::Output::any) return;
    const hopper::Kernel shapeless = shapeless_kernel(work);
    auto kind = std::ranges::find(kinds, shapeless, &Kind::shapeless);
    if (kind == kinds.end()) {
        kind = kinds.insert(
            kinds.end(), {.shapeless = shapeless, .name = each.kind, .tiles = shipped_tiles(shapeless), .calls = {}});
        std::erase_if(kind->tiles, [](const hopper::Kernel& tile) { return !(tile == general_kernel(tile)); });
    }
    Call call{.seconds = {}, .key = work.key};
    for (const hopper::Kernel& tile : kind->tiles) {
        const bool may = tile.cluster.k_slices == usual.cluster.k_slices && !why_illegal(tile, work, h200());
        call.seconds.push_back(may ? cost(variant(work.geometry, tile), work, h200()).seconds : never);
    }
    const auto at = std::ranges::find(kind->tiles, general_kernel(usual));
    if (at == kind->tiles.end()) return;  // expanded weights
    call.usual = static_cast<std::size_t>(at - kind->tiles.begin());
    kind->calls.push_back(std::move(call));
}

void print(const Kind& kind) {
    fmt::print("{}: {} calls, {} tiles\n", kind.name, kind.calls.size(), kind.tiles.size());
    Kept kept(kind.tiles.size(), true);
    for (std::size_t count = kept.size() - 1; count > 0; --count) {
        drop_one(kind, kept);
        if (std::isinf(loss(kind, kept).badness())) break;
        if (count <= most_exchanged) exchange(kind, kept);
        const Loss lost = loss(kind, kept);
        if (lost.mean > 0.1) break;
        fmt::print("  {:2} kernels lose {:5.2f} % in the mean, {:5.1f} % at worst ({}):", count, lost.mean * 100,
                   lost.worst * 100, lost.at_worst == nullptr ? "" : lost.at_worst->key);
        for (std::size_t i = 0; i < kept.size(); ++i) {
            if (kept[i]) fmt::print(" [{}]", name(planned_tile(kind.tiles[i])));
        }
        fmt::print("\n");
    }
    std::fflush(stdout);
}

void choose_for(int calls_of_a_kind) {
    std::vector<Kind> kinds;
    for (const check::GeneralCall& each : check::general_calls(calls_of_a_kind, check::fitted_seed))
        add_call(each, kinds);
    std::erase_if(kinds, [](const Kind& kind) { return kind.tiles.size() < 2; });  // nothing to choose
    for (const Kind& kind : kinds) print(kind);
}

/// The time that calls lose with the general kernels that ship, and the limits of plan/shipped_kernels.h.
void print_losses(int calls_of_a_kind, std::uint64_t seed, const char* which) {
    const auto [calls, lost, worst_call] = general_losses(check::general_calls(calls_of_a_kind, seed));
    fmt::print(
        "{} {} calls lose {:.2f} % in the mean (limit {}), {:.1f} % at most in 99 of 100 (limit {}), {:.1f} % at worst "
        "({})\n",
        calls, which, lost.mean * 100, most_mean_loss * 100, lost.of_99_in_100 * 100, most_loss * 100, lost.worst * 100,
        worst_call);
}

int count_of(std::string_view text) {
    int count = 0;
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, count);
    if (error == std::errc{} && stopped == end && count > 0) return count;
    throw std::runtime_error(fmt::format("calls of each kind: got '{}'; expected a number from 1 on", text));
}

}  // namespace

int main(int count, char** values) try {
    std::vector<std::string_view> words(values + 1, values + count);
    const bool shipped = std::erase(words, "--shipped") > 0;
    if (words.size() > 1) throw std::runtime_error("usage: choose_general_kernels [--shipped] [CALLS]");
    const int calls = words.empty() ? 400 : count_of(words.front());
    if (shipped) {
        print_losses(calls, check::fitted_seed, "fitted");
        print_losses(calls, check::test_seed, "other");
    } else {
        choose_for(calls);
    }
    return 0;
} catch (const std::exception& error) {
    fmt::print(stderr, "choose_general_kernels: {}\n", error.what());
    return 2;
}
