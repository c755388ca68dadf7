// The launches of the kernels around the products of a layer of experts: one per step. A layer of few tokens has its
// route within the kernel that permutes. No CUDA.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "hopper/moe/arguments.h"
#include "hopper/moe/spec.h"
#include "moe/exchange.h"
#include "moe/steps.h"

namespace tilewright::launch {

enum class MoeFunction : std::uint8_t {
    route,
    permute,
    copy_rows,
    activate,
    combine,
    weight_gradient,
    announce,
    meet,
    meet_and_route,
};

/// The parameters that name a kernel.
struct MoeKernel {
    MoeFunction function = MoeFunction::permute;
    hopper::RowSpec rows{};         // For permute and activate.
    hopper::CopyRowsSpec copies{};  // For copy_rows.
    hopper::CombineSpec sums{};     // For combine.

    bool operator==(const MoeKernel&) const = default;
};

/// The parameters that the kernel's function takes.
using MoeArguments = std::variant<hopper::RouteArguments, hopper::PermuteArguments, hopper::CopyRowsArguments,
                                  hopper::ActivateArguments, hopper::CombineArguments, hopper::WeightGradientArguments,
                                  hopper::AnnounceArguments, hopper::MeetArguments, hopper::MeetAndRouteArguments>;

struct MoeLaunch {
    MoeKernel kernel{};
    MoeArguments arguments{};
    int blocks = 0;
    int threads = 0;
    int cluster = 1;
    int shared_bytes = 0;
};

/// The launches of a step in their order; none if there is nothing to write. For steps that are served.
std::vector<MoeLaunch> lower(const moe::RouteStep& step);
std::vector<MoeLaunch> lower(const moe::PermuteStep& step);
std::vector<MoeLaunch> lower(const moe::ActivateStep& step);
std::vector<MoeLaunch> lower(const moe::CombineStep& step);
std::vector<MoeLaunch> lower(const moe::WeightGradientStep& step);
std::vector<MoeLaunch> lower(const moe::AnnounceStep& step);
std::vector<MoeLaunch> lower(const moe::MeetStep& step);

/// Both steps, where the places of the second are the rows of the first: one launch if the choices are few.
std::vector<MoeLaunch> lower(const moe::RouteStep& route, const moe::PermuteStep& permute);
bool fits_in_permute(const moe::RouteStep& step);

// Steps between ranks, in one launch where one kernel can do both. The kernel that writes a rank's tokens announces
// their choices. The kernel that routes is the barrier ahead of it. So is the kernel that sums, if its blocks are few.
std::vector<MoeLaunch> lower(const moe::PermuteStep& tokens, const moe::AnnounceStep& step);
std::vector<MoeLaunch> lower(const moe::MeetStep& meet, const moe::RouteStep& route, const moe::PermuteStep& permute);
std::vector<MoeLaunch> lower(const moe::MeetStep& meet, const moe::CombineStep& sum);

/// The reason that kernels do not serve a step, in words; empty if they do. Such rows are written in f32, and
/// `quantize` quantizes them. Scales of a whole tensor are not copied with codes.
std::string unserved(const moe::RouteStep& step);
std::string unserved(const moe::PermuteStep& step);
std::string unserved(const moe::ActivateStep& step);
std::string unserved(const moe::CombineStep& step);
std::string unserved(const moe::WeightGradientStep& step);
std::string unserved(const moe::AnnounceStep& step);
std::string unserved(const moe::MeetStep& step);

/// "tilewright::hopper::permute<tilewright::hopper::RowSpec{...}>"
std::string kernel_expression(const MoeKernel& kernel);
/// The most shared memory of any launch of the kernel.
int most_shared_bytes(const MoeKernel& kernel);
/// The kernels of the pack: the recipes of common layers in bf16, aligned.
std::vector<MoeKernel> shipped_moe_kernels();

/// The program of which these expressions are instantiations.
inline constexpr const char* moe_source =
    "#include \"hopper/moe/permute.h\"\n#include \"hopper/moe/copy_rows.h\"\n#include \"hopper/moe/activate.h\"\n"
    "#include \"hopper/moe/combine.h\"\n#include \"hopper/moe/weight_gradient.h\"\n#include "
    "\"hopper/moe/exchange.h\"\n#include \"hopper/ptx/ptx_numbers_sm90.h\"\n";

}  // namespace tilewright::launch
