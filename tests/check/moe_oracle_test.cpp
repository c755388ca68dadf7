// The float64 oracle of a layer of experts: it accepts what the CPU returns, and rejects planted bugs.
#include "check/moe_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "check/moe_rows.h"

namespace tilewright::check {
namespace {

MoeSpec small(std::string_view recipe, std::uint64_t seed = 1) {
    return {.recipe = recipe_named(recipe),
            .tokens = 16,
            .choices = 2,
            .experts = 4,
            .hidden = 96,
            .inner = 64,
            .with_bias = true,
            .seed = seed};
}

bool has_canonical_order(const Recipe& recipe) {
    const auto is_wide = [](Format format) { return format == Format::f16 || format == Format::f32; };
    return !is_wide(recipe.a.values) && !is_wide(recipe.b.values);
}

void expect_right(const MoeSpec& spec) {
    MoeCase test(spec);
    run(test.layer(), {.threads = 1});
    const MoeReport report = judge(test);
    EXPECT_TRUE(report.pass()) << describe(spec) << "\n" << report.text();
}

TEST(MoeOracle, AcceptsEveryRecipe) {
    std::uint64_t seed = 1;
    for (const Recipe& recipe : moe_recipes()) {
        MoeSpec spec = small("1x128:128x128", ++seed);
        spec.recipe = recipe;
        spec.form = all_moe_forms[seed % 4];
        spec.unit.kind = all_gated_units[seed / 4 % 4];
        spec.weights_at = all_weights_at[seed / 2 % 3];
        spec.round_up = seed % 3 == 0;
        spec.with_addend = seed % 2 == 0;
        spec.out = seed % 5 == 0 ? Format::f32 : Format::bf16;
        expect_right(spec);
        if (!has_canonical_order(recipe)) continue;
        spec.reproducibility = Reproducibility::invariant;  // and so bit_exact
        expect_right(spec);
    }
}

TEST(MoeOracle, AcceptsEveryUnitAndPlaceOfWeights) {
    std::uint64_t seed = 300;
    for (const GatedUnit::Kind kind : all_gated_units) {
        for (const WeightsAt place : all_weights_at) {
            for (const std::string_view recipe : {"1x128:128x128", "bf16:mxfp4", "mxfp8:mxfp8"}) {
                MoeSpec spec = small(recipe, ++seed);
                spec.unit.kind = kind;
                spec.weights_at = place;
                expect_right(spec);
                spec.unit.swiglu = {.alpha = 1.702F, .beta = 1, .limit = 0.5F, .interleaved = true};
                spec.unit.gate_bound = spec.unit.up_bound = 0.5F;
                spec.shared = 1;
                spec.form = MoeForm::tokens;
                expect_right(spec);
            }
        }
    }
}

/// A bug: the layer is run as it plants it, and judged as it should have been.
struct Bug {
    std::string name;
    std::function<void(Moe&)> plant;
    std::function<void(MoeCase&)> spoil_result = {};
};

void swap_rows(const Tensor& matrix, std::int64_t i, std::int64_t j) {
    const std::int64_t row = matrix.strides[matrix.shape.rank() - 2] * bits(matrix.format) / 8;
    auto* const data = static_cast<std::byte*>(matrix.data);
    std::swap_ranges(data + i * row, data + (i + 1) * row, data + j * row);
}

/// Copies of the tensors that bugs change, so that the case keeps its own.
struct Changed {
    template <class Number>
    static Tensor copy(const Tensor& tensor, std::vector<Number>& memory) {
        memory.resize(static_cast<std::size_t>(row_major_bytes(tensor.format, tensor.shape)) / sizeof(Number) + 1);
        std::memcpy(memory.data(), tensor.data, static_cast<std::size_t>(row_major_bytes(tensor.format, tensor.shape)));
        return row_major(static_cast<void*>(memory.data()), tensor.format, tensor.shape);
    }
    std::vector<float> weights{};
    std::vector<std::int32_t> ids{};
    std::vector<float> bias{};
    std::vector<std::byte> x{};
    std::vector<std::byte> values{};
};

std::vector<Bug> bugs(Changed& changed) {
    return {{"gate and up alternate", [](Moe& l) { l.unit.swiglu.interleaved = true; }},
            {"gate and up are swapped",
             [&](Moe& l) {
                 l.up.values = Changed::copy(l.up.values, changed.values);
                 for (std::int64_t row = 0; row < l.up.values.shape[0] * l.up.values.shape[1]; ++row) {
                     const std::int64_t inner = l.up.values.shape[1] / 2;
                     if (row % (2 * inner) < inner) swap_rows(l.up.values, row, row + inner);
                 }
             }},
            {"a choice is dropped",
             [&](Moe& l) {
                 l.routing.experts = Changed::copy(l.routing.experts, changed.ids);
                 changed.ids[7] = -1;
             }},
            {"a token goes to another expert",
             [&](Moe& l) {
                 l.routing.experts = Changed::copy(l.routing.experts, changed.ids);
                 changed.ids[7] = (changed.ids[7] + 1) % 4;
             }},
            {"a weight is another choice's",
             [&](Moe& l) {
                 l.routing.weights = Changed::copy(l.routing.weights, changed.weights);
                 std::swap(changed.weights[12], changed.weights[13]);
             }},
            {"the weights are forgotten", [](Moe& l) { l.routing.weights = {}; }},
            {"a weight is a half off",
             [&](Moe& l) {
                 l.routing.weights = Changed::copy(l.routing.weights, changed.weights);
                 changed.weights[8] *= 1.5F;
             }},
            {"the bias of up is missing", [](Moe& l) { l.up_bias = {}; }},
            {"the bias of down is missing", [](Moe& l) { l.down_bias = {}; }},
            {"the bias of down is another expert's",
             [&](Moe& l) {
                 l.down_bias = Changed::copy(l.down_bias, changed.bias);
                 swap_rows(l.down_bias, 0, 1);
             }},
            {"two rows of x are swapped",
             [&](Moe& l) {
                 l.x = Changed::copy(l.x, changed.x);
                 swap_rows(l.x, 2, 3);
             }},
            {"rows are shifted by one", [](Moe&) {},
             [](MoeCase& test) {
                 for (std::int64_t row = 0; row + 1 < test.spec().tokens; ++row)
                     swap_rows(test.layer().out, row, row + 1);
             }},
            {"one element is a tenth off", [](Moe&) {},
             [](MoeCase& test) {
                 auto* const out = static_cast<float*>(test.layer().out.data);
                 float* const largest = std::max_element(out, out + test.spec().hidden);
                 *largest *= 1.1F;
             }},
            {"the addend is missing", [](Moe& l) { l.addend = {}; }},
            {"weights are at the wrong place", [](Moe& l) { l.weights_at = WeightsAt::activation; }},
            {"another limit", [](Moe& l) { l.unit.swiglu.limit = 0.7F; }},
            {"another unit", [](Moe& l) { l.unit.kind = GatedUnit::Kind::geglu; }}};
}

TEST(MoeOracle, RejectsPlantedBugs) {
    for (const std::string_view recipe : {"1x128:128x128", "bf16:bf16"}) {
        for (const Arithmetic arithmetic : {Arithmetic::fast, Arithmetic::bit_exact}) {
            MoeSpec spec = small(recipe);
            spec.out = Format::f32;
            spec.unit.swiglu.limit = 1;
            spec.with_addend = true;
            spec.arithmetic = arithmetic;
            Changed changed;
            for (const Bug& bug : bugs(changed)) {
                // At the activation the weight changes only how h is quantized: in bf16 to the last bit or not at all.
                if (bug.name == "weights are at the wrong place" && recipe != "bf16:bf16") continue;
                MoeCase test(spec);
                const Moe right = test.layer();
                bug.plant(test.layer());
                run(test.layer(), {.threads = 1});
                test.layer() = right;
                if (bug.spoil_result) bug.spoil_result(test);
                EXPECT_FALSE(judge(test).pass()) << bug.name << ", " << describe(spec) << "\n" << judge(test).text();
            }
        }
    }
}

}  // namespace
}  // namespace tilewright::check
