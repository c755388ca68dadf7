// A layer of experts on the CPU has the bits of its parts, whatever its form, recipe, unit and routing.
#include <tilewright/moe.h>
#include <tilewright/quantize_tokens.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "check/moe_case.h"
#include "check/moe_composition.h"
#include "check/moe_rows.h"

namespace tilewright {
namespace {

using check::MoeCase;
using check::MoeChoices;
using check::MoeForm;
using check::MoeSpec;

std::string messages(const Moe& layer) {
    std::string text;
    for (const Finding& finding : validate(layer)) text += finding.message() + "\n";
    return text;
}

/// Runs the layer and compares it with its parts.
void expect_parts(const MoeSpec& spec) {
    SCOPED_TRACE(describe(spec));
    MoeCase test(spec);
    ASSERT_EQ(messages(test.layer()), "");
    run(test.layer(), {.threads = 1});
    EXPECT_EQ(difference_from_parts(test), "");
    EXPECT_EQ(test.damage(), "");
}

/// A layer of few multiplications.
MoeSpec small(std::string_view recipe, std::uint64_t seed = 1) {
    return {.recipe = recipe_named(recipe),
            .tokens = 9,
            .choices = 3,
            .experts = 4,
            .hidden = 48,
            .inner = 32,
            .seed = seed};
}

const std::vector<std::string>& some_recipes() {
    static const std::vector<std::string> names{"1x128:128x128", "tensor:tensor", "mxfp8:mxfp4", "bf16:bf16"};
    return names;
}

TEST(Moe, EveryRecipeHasTheBitsOfItsParts) {
    std::uint64_t seed = 1;
    for (const Recipe& recipe : check::moe_recipes()) {
        MoeSpec spec{.recipe = recipe, .seed = ++seed};
        spec.form = check::all_moe_forms[seed % 4];
        spec.weights_at = all_weights_at[seed / 4 % 3];
        spec.unit.kind = all_gated_units[seed / 3 % 4];
        spec.quantized = seed % 5 == 0 && spec.weights_at != WeightsAt::input;
        spec.round_up = seed % 3 == 0;
        spec.with_bias = seed % 2 == 0;
        spec.with_addend = seed % 7 < 3;
        spec.tokens = 12;
        spec.experts = 3;
        expect_parts(spec);
    }
}

TEST(Moe, EveryFormUnitAndPlaceOfWeightsHasTheBitsOfItsParts) {
    std::uint64_t seed = 100;
    for (const MoeForm form : check::all_moe_forms) {
        for (const GatedUnit::Kind kind : all_gated_units) {
            for (const WeightsAt place : all_weights_at) {
                for (const std::string& recipe : some_recipes()) {
                    MoeSpec spec = small(recipe, ++seed);
                    spec.form = form;
                    spec.unit.kind = kind;
                    spec.unit.swiglu.interleaved = seed % 2 == 0;
                    spec.weights_at = place;
                    spec.arithmetic = seed % 3 == 0 ? Arithmetic::bit_exact : Arithmetic::fast;
                    spec.shared = form == MoeForm::tokens ? static_cast<int>(seed % 3) : 0;
                    expect_parts(spec);
                }
            }
        }
    }
}

TEST(Moe, EveryFormatOfInputsAndOutputsHasTheBitsOfItsParts) {
    std::uint64_t seed = 300;
    for (const MoeForm form : check::all_moe_forms) {
        for (const Format out : {Format::bf16, Format::f16, Format::f32}) {
            for (const Format x : {Format::bf16, Format::f16, Format::f32}) {
                MoeSpec spec = small("1x128:128x128", ++seed);
                spec.form = form;
                spec.x = spec.weights = x;
                spec.out = out;
                spec.bias = seed % 2 == 0 ? Format::bf16 : Format::f32;
                spec.addend = x == Format::f16 ? Format::f32 : Format::f16;
                spec.gap = static_cast<std::int64_t>(seed % 3) * 8;
                expect_parts(spec);
                spec.with_bias = spec.with_addend = true;
                expect_parts(spec);
                spec.in_place = true;
                spec.with_weights = false;
                expect_parts(spec);
                spec.quantized = true;
                spec.with_addend = spec.in_place = false;
                expect_parts(spec);
            }
        }
    }
}

TEST(Moe, AnyNumbersOfExpertsHaveTheBitsOfTheParts) {
    std::uint64_t seed = 500;
    for (const MoeChoices chosen : check::all_moe_choices) {
        for (const Format indices : {Format::i32, Format::i64}) {
            for (const MoeForm form : check::all_moe_forms) {
                for (const bool with_map : {false, true}) {
                    if (with_map && form != MoeForm::tokens) continue;
                    ++seed;
                    MoeSpec spec = small(some_recipes()[seed % 4], seed);
                    spec.chosen = chosen;
                    spec.indices = indices;
                    spec.form = form;
                    spec.with_map = with_map;
                    spec.shared = with_map ? 2 : 0;
                    spec.weights_at = all_weights_at[seed % 3];
                    expect_parts(spec);
                }
            }
        }
    }
}

TEST(Moe, AnyNumberOfChoicesAndExpertsHasTheBitsOfTheParts) {
    for (std::int64_t choices = 0; choices <= 16; ++choices) {
        MoeSpec spec = small("row:row", static_cast<std::uint64_t>(choices) + 700);
        spec.choices = choices;
        spec.weights_at = all_weights_at[static_cast<std::size_t>(choices % 3)];
        if (choices > 0) expect_parts(spec);
        spec.shared = 1;
        spec.with_addend = true;
        expect_parts(spec);
    }
    for (const std::int64_t experts : {1, 2, 64, 512}) {
        MoeSpec spec = small("1x128:row", static_cast<std::uint64_t>(experts));
        spec.experts = experts;
        spec.choices = 8;
        spec.hidden = spec.inner = 16;
        expect_parts(spec);
        spec.indices = Format::i64;
        spec.chosen = MoeChoices::wild;
        expect_parts(spec);
    }
}

TEST(Moe, ALayerWithoutTokensWritesNothing) {
    for (const MoeForm form : check::all_moe_forms) {
        for (const std::string& recipe : some_recipes()) {
            MoeSpec spec = small(recipe);
            spec.form = form;
            spec.tokens = 0;
            expect_parts(spec);
        }
    }
}

TEST(Moe, PackedWeightsHaveTheBitsOfTheParts) {
    std::uint64_t seed = 800;
    for (const Recipe& recipe : check::moe_recipes()) {
        if (recipe.b.values != Format::e2m1) continue;
        MoeSpec spec = small("1x128:mxfp4", ++seed);
        spec.recipe = recipe;
        spec.packed = true;
        spec.form = check::all_moe_forms[seed % 4];
        spec.unit.kind = all_gated_units[seed % 3];
        spec.weights_at = all_weights_at[seed / 2 % 3];
        expect_parts(spec);
    }
}

TEST(Moe, NumbersOfTheUnitCount) {
    std::uint64_t seed = 900;
    const SwiGlu gpt_oss{.alpha = 1.702F, .beta = 1, .limit = 7, .interleaved = true};
    const SwiGlu tight{.limit = 0.25F};
    for (const GatedUnit& unit :
         {GatedUnit{.swiglu = gpt_oss}, GatedUnit{.swiglu = tight},
          GatedUnit{.kind = GatedUnit::Kind::situ, .gate_bound = 0.5F, .up_bound = 0.25F},
          GatedUnit{.kind = GatedUnit::Kind::situ, .up_bound = std::numeric_limits<float>::infinity()}}) {
        MoeSpec spec = small("1x128:128x128", ++seed);
        MoeCase usual(spec);
        run(usual.layer());
        spec.unit = unit;
        expect_parts(spec);
        MoeCase changed(spec);
        run(changed.layer());
        EXPECT_NE(changed.output(), usual.output());
    }
}

TEST(Moe, ChunksOfTokensHaveTheBitsOfOneChunkWhereCallsAreInvariant) {
    for (const std::string_view name : {"1x128:128x128", "row:row", "mxfp8:mxfp8", "bf16:mxfp4"}) {
        for (const WeightsAt place : all_weights_at) {
            MoeSpec spec = small(name);
            spec.tokens = 23;
            spec.weights_at = place;
            spec.with_addend = spec.in_place = true;
            spec.shared = 1;
            spec.reproducibility = Reproducibility::invariant;
            MoeCase whole(spec);
            run(whole.layer());
            spec.chunk = 5;
            MoeCase chunks(spec);
            run(chunks.layer());
            EXPECT_EQ(chunks.output(), whole.output()) << describe(spec);
            EXPECT_EQ(chunks.damage(), "");
            EXPECT_EQ(difference_from_parts(chunks), "") << describe(spec);
        }
    }
}

/// Rows [begin, end) of a tensor.
Tensor rows_of(Tensor tensor, std::int64_t begin, std::int64_t end) {
    tensor.data = static_cast<std::byte*>(tensor.data) + begin * tensor.strides[0] * bits(tensor.format) / 8;
    tensor.shape[0] = end - begin;
    return tensor;
}

TEST(Moe, AScaleOfAWholeTensorIsThatOfAChunk) {
    MoeSpec spec = small("tensor:tensor");
    spec.tokens = 8;
    spec.chunk = 5;
    MoeCase chunks(spec);
    run(chunks.layer());
    MoeCase parts(spec);
    for (const auto& [begin, end] : {std::pair{0, 5}, std::pair{5, 8}}) {
        Moe part = parts.layer();
        for (Tensor* tensor : {&part.x, &part.out, &part.routing.experts, &part.routing.weights}) {
            *tensor = rows_of(*tensor, begin, end);
        }
        run(part);
    }
    EXPECT_EQ(chunks.output(), parts.output());
}

/// h of SwiGLU with weights at the activation, by the training step's public call.
TEST(Moe, TheActivationIsThatOfQuantizeTokens) {
    MoeSpec spec = small("1x128:128x128");
    spec.form = MoeForm::offsets;
    spec.weights_at = WeightsAt::activation;
    spec.inner = 144;
    spec.unit.swiglu = {.alpha = 1.702F, .beta = 1, .limit = 1};
    MoeCase test(spec);
    const Moe& layer = test.layer();
    run(layer);

    const std::int64_t rows = spec.tokens;
    std::vector<std::uint16_t> gate_up(static_cast<std::size_t>(rows * 2 * spec.inner)), y(test.output().size() / 2);
    Problem product{.b = layer.up,
                    .d = row_major(static_cast<void*>(gate_up.data()), Format::bf16, {rows, 2 * spec.inner})};
    const OwnedOperand x = quantize(layer.x, {.recipe = layer.activations});
    product.a = x;
    product.groups = layer.groups;
    run(product);
    const OwnedOperand h({rows, spec.inner}, layer.activations);
    quantize_tokens({.x = product.d, .activation = Activation::swiglu, .swiglu = layer.unit.swiglu},
                    {.operand = h, .token_factors = layer.row_weights}, {});
    product.a = h;
    product.b = layer.down;
    product.d = row_major(static_cast<void*>(y.data()), Format::bf16, {rows, spec.hidden});
    run(product);
    const std::vector<char> written = test.written_rows();
    ASSERT_TRUE(std::ranges::count(written, 1) > 0);
    const auto* const out = static_cast<const std::uint16_t*>(layer.out.data);
    for (std::size_t i = 0; i < y.size(); ++i) {
        if (written[i / static_cast<std::size_t>(spec.hidden)] == 0) continue;
        ASSERT_EQ(out[i] & (out[i] == 0x8000 ? 0 : 0xFFFF), y[i] & (y[i] == 0x8000 ? 0 : 0xFFFF)) << i;
    }
}

TEST(Moe, RouteSortsTheChoicesByExpert) {
    MoeSpec spec = small("bf16:bf16");
    spec.chosen = MoeChoices::wild;
    spec.with_map = true;
    spec.shared = 1;
    MoeCase test(spec);
    const std::vector<check::MoeRow> expected = check::moe_rows(test.layer());
    const std::int64_t choices = spec.choices + spec.shared, count = spec.tokens * choices;
    std::vector<std::int32_t> rows(static_cast<std::size_t>(count), -7), sources(rows),
        ends(static_cast<std::size_t>(spec.experts));
    std::vector<float> weights(rows.size(), -7);
    const auto integers = [](std::vector<std::int32_t>& numbers, const Dims& shape) {
        return row_major(static_cast<void*>(numbers.data()), Format::i32, shape);
    };
    route(test.layer().routing, spec.experts,
          {.rows = integers(rows, {spec.tokens, choices}),
           .sources = integers(sources, {count}),
           .ends = integers(ends, {spec.experts}),
           .weights = row_major(static_cast<void*>(weights.data()), Format::f32, {count})});
    std::vector<std::int32_t> expected_rows(rows.size(), -1), expected_ends(ends.size(), 0);
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const check::MoeRow& row = expected[i];
        if (row.expert < 0) {
            EXPECT_EQ(sources[i], -7);
            EXPECT_EQ(weights[i], -7);
            continue;
        }
        const std::int64_t source = row.source * choices + row.choice;
        expected_rows[static_cast<std::size_t>(source)] = static_cast<std::int32_t>(i);
        for (std::int64_t e = row.expert; e < spec.experts; ++e) ++expected_ends[static_cast<std::size_t>(e)];
        EXPECT_EQ(sources[i], source);
        EXPECT_EQ(weights[i], row.weight);
    }
    EXPECT_EQ(rows, expected_rows);
    EXPECT_EQ(ends, expected_ends);
}

/// What `run` says of a layer with a mistake, after which nothing is written; `validate` says the same.
template <class Change>
std::string mistake(const MoeSpec& spec, Change change) {
    MoeCase test(spec);
    const std::vector<std::byte> before = test.output();
    const Moe right = test.layer();
    change(test.layer());
    std::string text;
    try {
        run(test.layer());
    } catch (const Error& error) {
        text = error.what();
    }
    EXPECT_EQ(messages(test.layer()), text + "\n");
    EXPECT_FALSE(text.empty());
    test.layer() = right;
    EXPECT_EQ(test.output(), before);
    EXPECT_EQ(test.damage(), "");
    return text;
}

template <class Change>
void expect_message(const MoeSpec& spec, Change change, const std::string& part) {
    const std::string text = mistake(spec, change);
    EXPECT_NE(text.find(part), std::string::npos) << text << "\nhas not: " << part;
    EXPECT_NE(text.find("; expected "), std::string::npos) << text;
}

TEST(MoeMisuse, WrongWeightsAreNamed) {
    MoeSpec spec = small("1x128:128x128");
    spec.with_bias = true;
    expect_message(
        spec, [](Moe& l) { l.up = {}; }, "up: got nothing; expected [experts, 2 inner, hidden]");
    expect_message(
        spec, [](Moe& l) { l.down = {}; }, "down: got nothing; expected [experts, hidden, inner]");
    expect_message(
        spec, [](Moe& l) { l.up.values.shape[1] = 63; }, "up: got [4, 63, 48]; expected an even number");
    expect_message(
        spec, [](Moe& l) { l.down.values.shape[2] = 31; }, "down: got [4, 48, 31]; expected [4, 48, 32]");
    expect_message(
        spec, [](Moe& l) { l.unit.kind = GatedUnit::Kind::relu_squared; }, "down: got [4, 48, 32]");
    expect_message(
        spec, [](Moe& l) { l.up.scales = {}; }, "up.scales: got");
    expect_message(
        spec, [](Moe& l) { l.down.scales.shape[1] = 2; }, "down.scales: got [4, 2, 1]");
    expect_message(
        spec, [](Moe& l) { l.up.values.data = nullptr; }, "up.values: got a null pointer");
    expect_message(
        spec, [](Moe& l) { l.down.values.data = nullptr; }, "down.values: got a null pointer");
    expect_message(
        spec, [](Moe& l) { l.down.scales.data = nullptr; }, "down.scales: got a null pointer");
    expect_message(
        spec, [](Moe& l) { l.up.granularity = Granularity::row; }, "up.scales: got");
    expect_message(
        spec, [](Moe& l) { l.up.values.format = Format::f32; }, "up");
    expect_message(
        spec, [](Moe& l) { l.up.values.shape[0] = 0; },
        "up: got [0, 64, 48]; expected [experts, 2 inner, hidden], none");
    expect_message(
        spec, [](Moe& l) { l.up_bias.shape[1] = 63; }, "up_bias: got [4, 63]; expected [4, 64], because up is");
    expect_message(
        spec, [](Moe& l) { l.down_bias.shape = {48}; }, "down_bias: got [48]; expected [4, 48]");
    expect_message(
        spec, [](Moe& l) { l.down_bias.format = Format::f16; }, "down_bias: got f16");
    expect_message(
        spec, [](Moe& l) { l.down_bias.data = nullptr; }, "down_bias: got a null pointer");
}

TEST(MoeMisuse, WrongRoutingIsNamed) {
    MoeSpec spec = small("1x128:128x128");
    spec.with_map = true;
    expect_message(
        spec, [](Moe& l) { l.routing.experts = {}; }, "routing.experts: got nothing");
    expect_message(
        spec, [](Moe& l) { l.routing.experts.format = Format::f32; }, "routing.experts: got f32");
    expect_message(
        spec, [](Moe& l) { l.routing.experts.data = nullptr; }, "routing.experts: got a null pointer");
    expect_message(
        spec, [](Moe& l) { l.routing.experts.shape[0] = 8; }, "routing.experts: got [8, 3]");
    expect_message(
        spec, [](Moe& l) { l.routing.weights.shape[1] = 2; }, "routing.weights: got [9, 2]; expected [9, 3]");
    expect_message(
        spec, [](Moe& l) { l.routing.weights.format = Format::e4m3; }, "routing.weights: got e4m3");
    expect_message(
        spec, [](Moe& l) { l.routing.weights.data = nullptr; }, "routing.weights: got a null pointer");
    expect_message(
        spec, [](Moe& l) { l.routing.map.format = Format::i64; }, "routing.map: got i64");
    expect_message(
        spec, [](Moe& l) { l.routing.map.data = nullptr; }, "routing.map: got a null pointer");
    expect_message(
        spec,
        [](Moe& l) {
            l.routing.map.shape = {2, 4};
        },
        "routing.map: got [2, 4]");
    expect_message(
        spec, [](Moe& l) { l.routing.shared = 5; }, "routing.shared: got 5; expected 0 to 4");
    expect_message(
        spec, [](Moe& l) { l.routing.shared = -1; }, "routing.shared: got -1");
    expect_message(
        spec, [](Moe& l) { l.groups.grouping = Grouping::m_grouped_offsets; }, "groups: got");
    expect_message(
        spec, [](Moe& l) { l.row_weights = l.routing.weights; }, "row_weights: got [9, 3]; expected nothing");
    spec.choices = 0;
    expect_message(
        spec, [](Moe&) {}, "routing.experts: got [9, 0]; expected one or more choices");
}

TEST(MoeMisuse, WrongGroupsAreNamed) {
    MoeSpec spec = small("1x128:128x128");
    spec.form = MoeForm::offsets;
    expect_message(
        spec, [](Moe& l) { l.groups = {}; }, "routing.experts: got nothing; expected the experts");
    expect_message(
        spec, [](Moe& l) { l.groups.sizes = {}; }, "groups.sizes: got");
    expect_message(
        spec, [](Moe& l) { l.groups.sizes.shape[0] = 3; }, "groups.sizes: got [3]");
    expect_message(
        spec, [](Moe& l) { l.groups.sizes.format = Format::f32; }, "groups.sizes: got f32");
    expect_message(
        spec, [](Moe& l) { l.groups.sizes.data = nullptr; }, "groups.sizes: got a null pointer");
    expect_message(
        spec, [](Moe& l) { l.row_weights.shape[0] = 8; }, "row_weights: got [8]; expected [9]");
    expect_message(
        spec, [](Moe& l) { l.row_weights.format = Format::bf16; }, "row_weights: got bf16");
    expect_message(
        spec, [](Moe& l) { l.row_weights.data = nullptr; }, "row_weights: got a null pointer");
    expect_message(
        spec, [](Moe& l) { l.routing.shared = 1; }, "routing.shared: got 1");
    spec.form = MoeForm::masked;
    expect_message(
        spec, [](Moe& l) { l.row_weights.shape[1] = 8; }, "row_weights: got [4, 8]; expected [4, 9]");
    expect_message(
        spec, [](Moe& l) { l.x.shape[0] = 3; }, "x: got [3, 9, 48]; expected [4, 9, 48]");
    expect_message(
        spec, [](Moe& l) { l.expected_m = -1; }, "expected_m: got -1");
    spec.form = MoeForm::aligned;
    expect_message(
        spec, [](Moe& l) { l.groups.alignment = 0; }, "groups.alignment: got 0");
}

/// Ends of `route` are not there yet. The caller's ends are read.
TEST(MoeMisuse, OnlyTheCallersEndsAreRead) {
    for (const MoeForm form : check::all_moe_forms) {
        SCOPED_TRACE(name(form));
        MoeSpec spec = small("1x128:128x128");
        spec.form = form;
        spec.chosen = MoeChoices::none;
        MoeCase test(spec);
        EXPECT_TRUE(validate(test.layer(), Backend::cpu, Check::contents).empty());
        if (form == MoeForm::tokens) continue;
        const Tensor& sizes = test.layer().groups.sizes;
        ASSERT_EQ(sizes.format, Format::i32);
        static_cast<std::int32_t*>(sizes.data)[spec.experts - 1] = 10'000;
        const std::vector<Finding> found = validate(test.layer(), Backend::cpu, Check::contents);
        ASSERT_EQ(found.size(), 1U);
        EXPECT_EQ(found[0].operand, "groups.sizes");
        EXPECT_EQ(messages(test.layer()), "");
    }
}

/// As a GPU would compute it.
TEST(Moe, ALayerInHostMemoryIsExplained) {
    for (const MoeForm form : check::all_moe_forms) {
        MoeSpec spec = small("1x128:128x128");
        spec.form = form;
        const MoeCase test(spec);
        const std::vector<MoeStep> steps = explain(test.layer());
        ASSERT_EQ(steps.size(), 5U) << name(form);
        for (const MoeStep& step : steps) EXPECT_EQ(step.launches, 1) << step.name;
    }
}

TEST(MoeMisuse, WrongInputsAndOutputsAreNamed) {
    MoeSpec spec = small("1x128:128x128");
    spec.with_addend = true;
    expect_message(
        spec, [](Moe& l) { l.x = {}; }, "x: got nothing; expected [tokens, hidden]");
    expect_message(
        spec, [](Moe& l) { l.x.shape[1] = 47; }, "x: got [9, 47]; expected [9, 48], because up is");
    expect_message(
        spec, [](Moe& l) { l.x.format = Format::e4m3; }, "x: got e4m3");
    expect_message(
        spec, [](Moe& l) { l.x.data = nullptr; }, "x: got a null pointer");
    expect_message(
        spec,
        [](Moe& l) {
            l.x.strides = {1, 9};
        },
        "x.strides: got [1, 9]");
    expect_message(
        spec, [](Moe& l) { l.out = {}; }, "out: got nothing; expected [9, 48]");
    expect_message(
        spec, [](Moe& l) { l.out.format = Format::e4m3; }, "out: got e4m3");
    expect_message(
        spec, [](Moe& l) { l.out.data = nullptr; }, "out: got a null pointer");
    expect_message(
        spec,
        [](Moe& l) {
            l.out.strides = {1, 9};
        },
        "out.strides: got [1, 9]");
    expect_message(
        spec, [](Moe& l) { l.out.strides[0] = 0; }, "out.strides: got [0, 1]");
    expect_message(
        spec, [](Moe& l) { l.out.data = l.x.data; }, "out: got memory that overlaps x");
    expect_message(
        spec, [](Moe& l) { l.out.device.kind = DeviceId::Kind::cuda; }, "memory of another device");
    expect_message(
        spec, [](Moe& l) { l.addend.shape[0] = 8; }, "addend: got [8, 48]; expected [9, 48], as out");
    expect_message(
        spec, [](Moe& l) { l.addend.format = Format::e5m2; }, "addend: got e5m2");
    expect_message(
        spec, [](Moe& l) { l.addend.data = nullptr; }, "addend: got a null pointer");
    spec.quantized = true;
    expect_message(
        spec, [](Moe& l) { l.x = l.quantized.values; }, "x: got [9, 48]; expected nothing together");
    expect_message(
        spec, [](Moe& l) { l.quantized.scales.shape[0] = 8; }, "quantized.scales: got [8, 1]");
    expect_message(
        spec, [](Moe& l) { l.quantized.scales.data = nullptr; }, "quantized.scales: got a null pointer");
    expect_message(
        spec, [](Moe& l) { l.quantized.granularity = Granularity::row; }, "quantized: got row");
    expect_message(
        spec, [](Moe& l) { l.weights_at = WeightsAt::input; }, "quantized: got [9, 48]; expected x");
    expect_message(
        spec, [](Moe& l) { l.out.data = l.quantized.scales.data; }, "out: got memory that overlaps");
}

TEST(MoeMisuse, WrongOptionsAreNamed) {
    const MoeSpec spec = small("1x128:128x128");
    expect_message(
        spec, [](Moe& l) { l.chunk = 0; }, "chunk: got 0; expected 1 or more tokens");
    expect_message(
        spec, [](Moe& l) { l.sm_limit = -1; }, "sm_limit: got -1");
    expect_message(
        spec, [](Moe& l) { l.accumulation = Accumulation::unpromoted; }, "accumulation: got");
    expect_message(
        spec,
        [](Moe& l) {
            l.activations = {Format::e4m3, Granularity::none};
        },
        "activations: got e4m3");
    expect_message(
        spec, [](Moe& l) { l.activations.granularity = Granularity::block_128x128; }, "activations: got");
    expect_message(
        spec,
        [](Moe& l) {
            l.activations = {Format::bf16, Granularity::none};
        },
        "recipe");
    expect_message(
        spec, [](Moe& l) { l.unit.swiglu.limit = -1; }, "unit.swiglu.limit: got -1");
    MoeSpec situ = spec;
    situ.unit.kind = GatedUnit::Kind::situ;
    expect_message(
        situ, [](Moe& l) { l.unit.gate_bound = 0; }, "unit.gate_bound: got 0");
    expect_message(
        situ, [](Moe& l) { l.unit.up_bound = std::numeric_limits<float>::quiet_NaN(); }, "unit.up_bound");
}

TEST(MoeMisuse, OverlapsWithAnyOperandAreNamed) {
    MoeSpec spec = small("1x128:128x128");
    spec.with_bias = spec.with_map = spec.with_addend = true;
    spec.addend = Format::f32;  // in out's format it may be out's memory
    MoeCase model(spec);
    for (const auto& [name, tensor] : check::tensors_of(model.layer())) {
        if (name == "out") continue;
        const std::string operand = name;
        const auto over = [&](Moe& l) {
            for (auto& [other, at] : check::tensors_of(l)) {
                if (other == operand) l.out.data = at->data;
            }
        };
        EXPECT_NE(mistake(spec, over).find("out"), std::string::npos) << name;
    }
}

TEST(MoeMisuse, WrongWordsAreNamed) {
    const MoeSpec spec = small("1x128:128x128");
    expect_message(
        spec, [](Moe& l) { l.unit.kind = static_cast<GatedUnit::Kind>(9); }, "unit.kind");
    expect_message(
        spec, [](Moe& l) { l.weights_at = static_cast<WeightsAt>(9); }, "weights_at");
    expect_message(
        spec, [](Moe& l) { l.arithmetic = static_cast<Arithmetic>(9); }, "arithmetic");
    expect_message(
        spec, [](Moe& l) { l.reproducibility = static_cast<Reproducibility>(9); }, "reproducibility");
    expect_message(
        spec, [](Moe& l) { l.accumulation = static_cast<Accumulation>(9); }, "accumulation");
}

}  // namespace
}  // namespace tilewright
