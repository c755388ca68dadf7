// The launches of the kernels around the products of a layer of experts: one per step. A layer of few tokens has its
// route within the kernel that permutes. No CUDA.
#pragma once

#include <vector>

#include "launch/kernels.h"
#include "moe/exchange.h"
#include "moe/steps.h"

namespace tilewright::launch {

/// The launches of a step in their order; none if there is nothing to write. For steps that are served.
std::vector<OtherLaunch> lower(const moe::RouteStep& step);
std::vector<OtherLaunch> lower(const moe::PermuteStep& step);
std::vector<OtherLaunch> lower(const moe::ActivateStep& step);
std::vector<OtherLaunch> lower(const moe::CombineStep& step);
std::vector<OtherLaunch> lower(const moe::UnitGradientStep& step);
std::vector<OtherLaunch> lower(const moe::WeightGradientStep& step);
std::vector<OtherLaunch> lower(const moe::AnnounceStep& step);
std::vector<OtherLaunch> lower(const moe::MeetStep& step);

/// Both steps, where the places of the second are the rows of the first: one launch if the choices are few.
std::vector<OtherLaunch> lower(const moe::RouteStep& route, const moe::PermuteStep& permute);
bool fits_in_permute(const moe::RouteStep& step);

/// The cluster of a kernel that routes.
struct RouteCluster {
    int blocks = hopper::most_route_blocks;
    hopper::RouteKeeps keeps = hopper::RouteKeeps::order;
};
/// In another cluster than `lower` chooses, for measurements. With more shared memory than most_route_shared it does
/// not run.
OtherLaunch in_cluster(OtherLaunch launch, const RouteCluster& cluster);
/// Changes the launch for a GPU that runs no clusters of more than `portable_cluster` blocks.
OtherLaunch in_portable_cluster(OtherLaunch launch);

// Steps between ranks, in one launch where one kernel can do both. The kernel that writes a rank's tokens announces
// their choices. The kernel that routes is the barrier ahead of it. So is the kernel that sums, if its blocks are few.
std::vector<OtherLaunch> lower(const moe::PermuteStep& tokens, const moe::AnnounceStep& step);
std::vector<OtherLaunch> lower(const moe::MeetStep& meet, const moe::RouteStep& route, const moe::PermuteStep& permute);
std::vector<OtherLaunch> lower(const moe::MeetStep& meet, const moe::CombineStep& sum);

/// Throws Error if kernels do not serve the step. Such rows are written in f32, and `quantize` quantizes them. Scales
/// of a whole tensor are not copied with codes.
void require_served(const moe::RouteStep& step);
void require_served(const moe::PermuteStep& step);
void require_served(const moe::ActivateStep& step);
void require_served(const moe::CombineStep& step);
void require_served(const moe::UnitGradientStep& step);
void require_served(const moe::WeightGradientStep& step);
inline void require_served(const moe::AnnounceStep& /*step*/) {}
inline void require_served(const moe::MeetStep& /*step*/) {}

}  // namespace tilewright::launch
