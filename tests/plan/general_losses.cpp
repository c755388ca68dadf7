#include "plan/general_losses.h"

#include <algorithm>
#include <utility>

#include "plan/choose.h"
#include "plan/cost.h"
#include "plan/variant.h"

namespace tilewright::planner {

GeneralLosses general_losses(const std::vector<check::GeneralCall>& calls) {
    GeneralLosses result;
    std::vector<double> each;
    double worst = 0;
    for (const check::GeneralCall& call : calls) {
        const Workload work = workload(call.problem);
        const TileChoice tiles = choose_tiles(work, h200(), tuned_rows());
        if (variant(work.geometry, tiles.usual).output != hopper::Output::any) continue;
        const auto seconds = [&](const hopper::Kernel& tile) {
            return cost(variant(work.geometry, tile), work, h200()).seconds;
        };
        each.push_back(std::max(0.0, seconds(tiles.general) / seconds(tiles.usual) - 1));
        if (each.back() <= worst) continue;
        worst = each.back();
        result.worst_call = call.kind + ": " + work.key;
    }
    result.calls = each.size();
    result.lost = check::losses(std::move(each));
    return result;
}

}  // namespace tilewright::planner
