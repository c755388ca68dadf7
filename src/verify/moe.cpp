#include "verify/moe.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>

#include "api/moe_steps.h"
#include "check/moe_oracle.h"
#include "cuda/runtime.h"
#include "verify/moe_gpu_case.h"
#include "verify/shipped.h"

namespace tilewright::verify {

bool has_canonical_order(const Recipe& recipe) {
    const auto is_wide = [](Format format) { return format == Format::f16 || format == Format::f32; };
    return !is_wide(recipe.a.values) && !is_wide(recipe.b.values);
}

namespace {

using check::MoeCase;
using check::MoeForm;
using check::MoeSpec;
using Clock = std::chrono::steady_clock;

template <class List>
auto turn(const List& list, std::size_t number) {
    return list[number % std::size(list)];
}

/// Sets the fields that change from case to case.
void vary(MoeSpec& spec, std::size_t number) {
    constexpr std::array outputs{Format::bf16, Format::f32, Format::f16};
    constexpr std::array inputs{Format::bf16, Format::bf16, Format::f32, Format::f16};
    spec.seed = number + 1;
    spec.out = turn(outputs, number / 2);
    spec.x = turn(inputs, number / 3);
    spec.with_bias = number % 3 == 1;
    spec.with_addend = number % 4 == 2;
    spec.in_place = number % 8 == 2;
    spec.quantized = number % 5 == 3 && spec.weights_at != WeightsAt::input;
    spec.round_up = number % 7 == 4;
    spec.unit.swiglu.interleaved = number % 2 == 1;
    if (number % 3 == 2) spec.unit.swiglu = {.alpha = 1.702F, .beta = 1, .limit = 7, .interleaved = number % 2 == 1};
    spec.indices = number % 4 == 3 ? Format::i64 : Format::i32;
    spec.packed = bits(spec.recipe.b.values) == 4 && number % 2 == 0;
    spec.with_weights = number % 6 != 5;
    if (spec.form != MoeForm::tokens) return;
    spec.shared = static_cast<int>(number / 2 % 3);
    spec.with_map = number % 5 == 4;
    spec.chosen = number % 11 == 10 ? check::MoeChoices::wild : check::MoeChoices::random;
}

struct MoeOutcome {
    double seconds = 0;
    check::MoeReport report{};
    std::string failure{};
};

double seconds_of(const Moe& layer, const RunOptions& how) {
    const auto begin = Clock::now();
    run(layer, how);
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

MoeOutcome judged_on_cpu(MoeCase& test, Arithmetic arithmetic, const VerifySettings& settings) {
    test.layer().arithmetic = arithmetic;
    test.reset_output();
    MoeOutcome outcome{.seconds = seconds_of(test.layer(), {.threads = 1, .device = settings.device})};
    outcome.report = judge(test);
    outcome.failure = outcome.report.pass() ? test.damage() : outcome.report.text();
    return outcome;
}

/// The CPU follows the GPU's plans, and so returns its bits.
MoeOutcome compared_with_cpu(MoeCase& test, const VerifySettings& settings) {
    const MoeGpuCase on_gpu(test);
    MoeOutcome outcome;
    const auto begin = Clock::now();
    run(on_gpu.layer(), {.stream = settings.gpu->stream(), .workspace = on_gpu.workspace(), .device = settings.device});
    settings.gpu->synchronize();
    outcome.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    cuda::runtime().device(0).check_report();
    test.layer().arithmetic = Arithmetic::bit_exact;
    run(test.layer(), {.device = settings.device != nullptr ? settings.device : &default_device()});
    const std::vector<std::byte> want = test.output(), have = on_gpu.output();
    const auto changed = std::mismatch(want.begin(), want.end(), have.begin(), have.end());
    if (changed.first != want.end()) {
        outcome.failure = fmt::format("byte {} of out is not the CPU's", changed.first - want.begin());
    }
    if (outcome.failure.empty()) outcome.failure = on_gpu.damage();
    return outcome;
}

/// Whether no product waits for a compiler.
bool products_ship(const Moe& layer, const DeviceDescription& device) {
    Arena counting(nullptr, layer.out.device);
    const MoeSteps made = steps(layer, counting);
    return ships(made.up.problem, device) && ships(made.down.problem, device);
}

void add(const MoeOutcome& outcome, const MoeSpec& spec, RowResult& row) {
    ++row.cases;
    row.seconds += outcome.seconds;
    if (!outcome.failure.empty()) row.add_failure(fmt::format("{}: {}", describe(spec), outcome.failure));
    if (outcome.report.ratio <= row.ratio) return;
    row.error = outcome.report.error;
    row.bound = outcome.report.bound;
    row.ratio = outcome.report.ratio;
}

void run_case(const MoeSpec& spec, const VerifySettings& settings, RowResult& row) {
    const auto made = std::make_unique<MoeCase>(spec);  // frames are small
    MoeCase& test = *made;
    const Moe on_gpu = as_on_gpu(test.layer());
    const bool cpu_only = !validate(on_gpu, Backend::hopper, Check::shapes).empty();
    if (settings.gpu != nullptr) {
        const DeviceDescription& device = settings.device != nullptr ? *settings.device : default_device();
        if (cpu_only) return;
        if (settings.quick && !products_ship(on_gpu, device)) {
            ++row.unshipped;
            return;
        }
        return add(compared_with_cpu(test, settings), spec, row);
    }
    for (const Arithmetic arithmetic : settings.arithmetics) {
        if (arithmetic == Arithmetic::bit_exact && !has_canonical_order(spec.recipe)) continue;
        row.cpu_only += cpu_only ? 1 : 0;
        add(judged_on_cpu(test, arithmetic, settings), spec, row);
    }
}

}  // namespace

std::vector<MoeFamily> all_moe_families() {
    std::vector<MoeFamily> families;
    for (const Recipe& recipe : check::moe_recipes()) {
        const auto side = [](const OperandRecipe& operand) {
            const bool unscaled = operand.granularity == Granularity::none;
            return std::string(unscaled ? name(operand.values) : name(operand.granularity));
        };
        const std::string family = side(recipe.a) + ":" + side(recipe.b);
        const auto found = std::ranges::find(families, family, &MoeFamily::name);
        if (found != families.end()) {
            found->recipes.push_back(recipe);
        } else {
            families.push_back({family, {recipe}});
        }
    }
    return families;
}

std::vector<MoeSpec> moe_cases_of(const MoeFamily& family, bool quick) {
    std::vector<MoeSpec> cases;
    const auto add = [&](const Recipe& recipe, MoeForm form, GatedUnit::Kind unit, WeightsAt place) {
        MoeSpec spec{.form = form, .recipe = recipe, .weights_at = place, .tokens = 12, .experts = 4, .inner = 80};
        spec.hidden = cases.size() % 2 == 0 ? 144 : 96;
        spec.unit.kind = unit;
        vary(spec, cases.size());
        cases.push_back(spec);
    };
    for (std::size_t i = 0; i < family.recipes.size() * (quick ? 1 : 4); ++i) {
        add(turn(family.recipes, i), turn(check::all_moe_forms, i), turn(all_gated_units, i / 4),
            turn(all_weights_at, i));
    }
    if (quick) return cases;
    for (const MoeForm form : check::all_moe_forms) {
        for (const GatedUnit::Kind unit : all_gated_units) {
            for (const WeightsAt place : all_weights_at) add(family.recipes.front(), form, unit, place);
        }
    }
    return cases;
}

RowResult run_moe(const MoeFamily& family, const VerifySettings& settings, const std::function<void()>& progress) {
    RowResult row;
    for (const MoeSpec& spec : moe_cases_of(family, settings.quick)) {
        try {
            run_case(spec, settings, row);
        } catch (const std::exception& error) {
            row.add_failure(fmt::format("{}: {}", describe(spec), error.what()));
        }
        progress();
    }
    return row;
}

std::int64_t count_cases(const MoeFamily& family, const VerifySettings& settings) {
    return std::ssize(moe_cases_of(family, settings.quick));
}

}  // namespace tilewright::verify
