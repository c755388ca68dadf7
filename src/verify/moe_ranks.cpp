#include "verify/moe_ranks.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <numeric>

#include "api/moe_steps.h"
#include "cuda/runtime.h"
#include "verify/moe_gpu_case.h"
#include "verify/ranked_sums.h"
#include "verify/shared_layer.h"

namespace tilewright::verify {
namespace {

using check::MoeCase;
using check::MoeForm;
using check::MoeSpec;

bool has_bits_of_one_rank(const Recipe& recipe) {
    const bool is_of_tensor =
        recipe.a.granularity == Granularity::tensor || recipe.a.granularity == Granularity::block_1x16;
    return !is_of_tensor && has_canonical_order(recipe);
}

/// The layer by one rank, where the ranks run.
std::vector<std::byte> bits_of_one_rank(MoeCase& whole, const VerifySettings& settings) {
    whole.reset_output();
    if (settings.gpu == nullptr) {
        run(whole.layer(), {.threads = 1, .device = settings.device});
        return whole.output();
    }
    const MoeGpuCase on_gpu(whole);
    run(on_gpu.layer(), {.stream = settings.gpu->stream(), .workspace = on_gpu.workspace()});
    settings.gpu->synchronize();
    cuda::runtime().device(0).check_report();
    return on_gpu.output();
}

struct RankedCase {
    MoeSpec spec{};
    int ranks = 1;
    Exchange exchange = Exchange::collectives;
    RankSums combine = RankSums::rows;

    std::string text() const {
        return fmt::format("{}, {} ranks by {}, {}", describe(spec), ranks, name(exchange), name(combine));
    }
    std::vector<std::int64_t> split() const { return random_split(spec.tokens, ranks, spec.seed); }
};

RankedRun run_of(const VerifySettings& settings) {
    return {.on_gpu = settings.gpu != nullptr, .planned_for = settings.device};
}

/// `whose`: the bytes that are wanted.
void compare(const RankedCase& test, const ExpertGroupOptions& options, MoeCase& whole,
             const std::vector<std::byte>& wanted, const std::string& whose, const VerifySettings& settings,
             RowResult& row) {
    whole.reset_output();
    SharedLayer shared(whole, options, test.split());
    const RankedResult result = shared.run(run_of(settings));
    ++row.cases;
    row.seconds = std::accumulate(result.seconds.begin(), result.seconds.end(), row.seconds);
    if (!result.errors.empty()) return row.add_failure(fmt::format("{}: {}", test.text(), result.errors));
    const std::vector<std::byte> found = whole.output();
    const auto differing = std::mismatch(wanted.begin(), wanted.end(), found.begin(), found.end());
    if (differing.first == wanted.end()) return;
    row.add_failure(
        fmt::format("{}: byte {} of out is not that of {}", test.text(), differing.first - wanted.begin(), whose));
}

void compare(const RankedCase& test, MoeCase& whole, const VerifySettings& settings, RowResult& row) {
    ExpertGroupOptions options = options_of(whole);
    options.exchange = test.exchange;
    options.combine = test.combine;
    if (test.combine == RankSums::rows) {
        return compare(test, options, whole, bits_of_one_rank(whole, settings), "one rank", settings, row);
    }
    const std::vector<std::vector<float>> sums = sums_of_ranks(whole, options, test.split(), run_of(settings));
    for (const Format format : {Format::bf16, Format::f32}) {
        options.sums = format;
        compare(test, options, whole, result_of_sums(whole, options, sums),
                fmt::format("the ranks' {} sums", name(format)), settings, row);
    }
}

/// Sums are of products that are not invariant, and of a rank's routed experts.
MoeSpec without_shared(MoeSpec spec) {
    spec.experts -= spec.shared;
    spec.shared = 0;
    spec.reproducibility = Reproducibility::repeatable;
    return spec;
}

void run_case(const RankedCase& test, const VerifySettings& settings, RowResult& row) {
    const auto whole = std::make_unique<MoeCase>(test.spec);  // frames are small
    keep_to_routed_experts(*whole);
    const bool cpu_only = !validate(as_on_gpu(whole->layer()), Backend::hopper, Check::shapes).empty();
    if (settings.gpu != nullptr) {
        if (!cpu_only) compare(test, *whole, settings, row);
        return;
    }
    for (const Arithmetic arithmetic : settings.arithmetics) {
        whole->layer().arithmetic = arithmetic;
        const std::int64_t earlier = row.cases;
        compare(test, *whole, settings, row);
        row.cpu_only += cpu_only ? row.cases - earlier : 0;
    }
}

void run_case_safely(const RankedCase& test, const VerifySettings& settings, RowResult& row) {
    try {
        run_case(test, settings, row);
    } catch (const std::exception& error) {
        row.add_failure(fmt::format("{}: {}", test.text(), error.what()));
    }
}

}  // namespace

std::vector<MoeFamily> ranked_moe_families() {
    std::vector<MoeFamily> families = all_moe_families();
    std::erase_if(families, [](const MoeFamily& family) { return !has_bits_of_one_rank(family.recipes.front()); });
    return families;
}

std::vector<MoeSpec> ranked_cases_of(const MoeFamily& family, int ranks, bool quick) {
    std::vector<MoeSpec> cases = moe_cases_of(family, quick);
    if (quick) {  // a case per recipe, whatever its form
        for (MoeSpec& spec : cases) spec.form = MoeForm::tokens;
    }
    std::erase_if(cases, [](const MoeSpec& spec) { return spec.form != MoeForm::tokens; });
    for (MoeSpec& spec : cases) {
        spec.experts = 2 * ranks + spec.shared;
        spec.with_map = false;
        spec.packed = false;
        spec.reproducibility = Reproducibility::invariant;
    }
    return cases;
}

RowResult run_ranked_moe(const MoeFamily& family, int ranks, const VerifySettings& settings,
                         const std::function<void()>& progress) {
    RowResult row;
    for (const MoeSpec& spec : ranked_cases_of(family, ranks, settings.quick)) {
        for (const Exchange exchange : {Exchange::addresses, Exchange::collectives}) {
            run_case_safely({.spec = spec, .ranks = ranks, .exchange = exchange}, settings, row);
            run_case_safely(
                {.spec = without_shared(spec), .ranks = ranks, .exchange = exchange, .combine = RankSums::sums},
                settings, row);
        }
        progress();
    }
    return row;
}

}  // namespace tilewright::verify
