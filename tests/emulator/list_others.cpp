#include "emulator/other_kernels.h"

#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

namespace tilewright::tests {
namespace {

using namespace hopper;
using namespace launch;
using Kernels = std::vector<OtherKernel>;

constexpr Number sources[] = {Number::bf16, Number::f32, Number::f16};
constexpr auto e5m2 = ValueFormat::e5m2;

constexpr CopySpec scaled_by(ScaledBy scaled, bool transposed = false) {
    return {.scaled = scaled, .transposed = transposed};
}
constexpr CopySpec with_factors(CopySpec copy) {
    copy.token_factors = copy.feature_factors = true;
    return copy;
}
constexpr Quantizer with_columns(Quantizer like, const CopySpec& rows, const CopySpec& columns) {
    like.rows = rows;
    like.columns = columns;
    return like;
}
constexpr CopySpec token_blocks = scaled_by(ScaledBy::token_block);
constexpr CopySpec feature_blocks = scaled_by(ScaledBy::feature_block, true);
constexpr CopySpec squares = scaled_by(ScaledBy::square), turned_squares = scaled_by(ScaledBy::square, true);
constexpr CopySpec tokens = scaled_by(ScaledBy::token), features = scaled_by(ScaledBy::feature, true);
constexpr CopySpec whole = scaled_by(ScaledBy::all);

void add_quantizers(Kernels& list) {
    constexpr Number f32 = Number::f32, f16 = Number::f16;
    constexpr Formula swiglu = Formula::swiglu, gradient = Formula::swiglu_gradient;
    // One matrix, then tokens.
    for (const Quantizer& each : {
             Quantizer{.source = f32, .rows = token_blocks},
             {.source = f32, .rows = {ScaledBy::token_block, e5m2, true, true}},
             {.source = f32, .vectors = false, .rows = token_blocks},
             {.source = f16, .vectors = false, .rows = squares},
             {.rows = scaled_by(ScaledBy::feature_block)},
             {.rows = feature_blocks},
             {.rows = scaled_by(ScaledBy::token_block, true)},
             {.grouped = true, .vectors = false, .rows = token_blocks, .columns = feature_blocks},
             with_columns({.grouped = true}, {.scaled = ScaledBy::token_block, .feature_factors = true},
                          {.scaled = ScaledBy::square, .transposed = true, .token_factors = true}),
             with_columns({.grouped = true}, with_factors(token_blocks), with_factors(feature_blocks)),
             with_columns({.source = f32, .grouped = true}, with_factors(token_blocks), with_factors(feature_blocks)),
             {.rows = squares, .columns = turned_squares},
             {.formula = swiglu, .interleaved = true, .rows = token_blocks, .columns = feature_blocks},
             {.formula = swiglu, .rows = {.scaled = ScaledBy::token_block, .powers = true}},
             {.formula = gradient, .rows = token_blocks, .columns = feature_blocks},
             {.formula = gradient, .paired = true, .rows = token_blocks, .columns = feature_blocks},
             {.formula = gradient, .paired = true, .grouped = true, .rows = token_blocks, .columns = feature_blocks},
             with_columns({.formula = gradient, .interleaved = true, .vectors = false}, token_blocks, feature_blocks),
             with_columns({.grouped = true}, {ScaledBy::token, e5m2}, {ScaledBy::feature, e5m2, false, false, true}),
         }) {
        list.emplace_back(Quantize{each});
    }
    // Scales that are measured first.
    const auto add_measured = [&](const Quantizer& each) { list.insert(list.end(), {Quantize{each}, Measure{each}}); };
    add_measured({.formula = swiglu, .grouped = true, .rows = tokens, .columns = features});
    for (const Quantizer& like : {Quantizer{}, {.source = f32}, {.formula = swiglu}}) {
        for (const auto& [rows, columns] : {std::pair{tokens, features}, {whole, scaled_by(ScaledBy::all, true)}}) {
            Quantizer each = with_columns(like, with_factors(rows), with_factors(columns));
            each.grouped = true;
            add_measured(each);
        }
    }
    for (const Number source : sources) {
        for (const bool vectors : {true, false}) {
            list.emplace_back(Measure{{.source = source, .vectors = vectors, .rows = whole}});
        }
    }
    for (const CopySpec& copy : {CopySpec{}, whole, {.scaled = ScaledBy::all, .storage = e5m2}}) {
        list.insert(list.end(), {FinishScales{copy}, ClearScales{copy}});
    }
    for (const auto format :
         {BlockFormat::mxfp8_e4m3, BlockFormat::mxfp8_e5m2, BlockFormat::mxfp4, BlockFormat::nvfp4}) {
        for (const Number source : sources) {
            for (BlockSpec spec : {BlockSpec{}, {.vectors = false}, {.round_up = true}}) {
                spec.source = source;
                spec.format = format;
                list.emplace_back(QuantizeBlocks{spec});
            }
        }
    }
    for (const bool up : {false, true}) list.emplace_back(FinishTensorScales{{.round_up = up}});
}

/// Kernels that write a workspace, or pack weights.
void add_preparations(Kernels& list) {
    for (const TransposeSpec& spec : {TransposeSpec{.ue8m0 = true, .stores_ue8m0 = true, .grouped = true},
                                      {.storage = e5m2, .squares = true},
                                      {.grouped = true, .vectors = false},
                                      {.shifted = false, .vectors = false},
                                      {.shifted = false, .grouped = true}}) {
        list.emplace_back(TransposeCodes{spec});
    }
    for (const bool vectors : {true, false}) {
        for (const Decoding codes :
             {Decoding::nvfp4_to_bf16, Decoding::mxfp4_to_e4m3, Decoding::e4m3_to_bf16, Decoding::e5m2_to_bf16}) {
            list.emplace_back(DecodeCodes{{.codes = codes, .vectors = vectors}});
        }
        for (PackSpec spec : {PackSpec{}, {.for_fp8 = false}, {.mxfp4 = false, .for_fp8 = false}}) {
            spec.vectors = vectors;
            list.insert(list.end(), {PackTiles{spec}, PackHeads{spec}, PackRest{spec}});
            if (spec.for_fp8) list.emplace_back(PackScales{spec});
        }
    }
    for (const Expansion weights : {Expansion::mxfp4_to_bf16, Expansion::nvfp4_to_bf16}) {
        list.emplace_back(ExpandWeights{weights});
    }
}

constexpr RowSpec few_outputs[] = {{.output = RowOutput::bf16},
                                   {.output = RowOutput::scaled_rows},
                                   {.output = RowOutput::scaled_blocks},
                                   {.output = RowOutput::mx}};
constexpr RowSpec other_outputs[] = {{.output = RowOutput::f16},
                                     {.output = RowOutput::f32},
                                     {.output = RowOutput::scaled_rows, .storage = e5m2, .rounds_up = true},
                                     {.output = RowOutput::scaled_blocks, .rounds_up = true},
                                     {.output = RowOutput::scaled_blocks, .storage = e5m2},
                                     {.output = RowOutput::mx, .storage = e5m2, .rounds_up = true}};

/// A kernel for each output, with the other fields of `like`.
template <class Kernel>
void add_outputs(Kernels& list, std::span<const RowSpec> outputs, std::initializer_list<RowSpec> likes) {
    for (RowSpec spec : likes) {
        for (const RowSpec& output : outputs) {
            spec.output = output.output;
            spec.storage = output.storage;
            spec.rounds_up = output.rounds_up;
            list.emplace_back(Kernel{spec});
        }
    }
}

RowSpec unit_of(Unit unit, std::string_view how = "") {
    const auto has = [&](std::string_view word) { return how.find(word) != std::string_view::npos; };
    return {.activates = true, .unit = unit, .interleaved = has("interleaved"), .vectors = !has("elements")};
}

void add_layers(Kernels& list) {
    constexpr Number f32 = Number::f32, f16 = Number::f16;
    for (const std::span<const RowSpec> outputs :
         {std::span<const RowSpec>(few_outputs), std::span<const RowSpec>(other_outputs)}) {
        add_outputs<Permute>(list, outputs, {{}, {.vectors = false}, {.source = f32}});
        add_outputs<Activate>(list, outputs, {{.activates = true}});
    }
    add_outputs<Permute>(list, few_outputs,
                         {{.source = f16},
                          {.source = f32, .vectors = false},
                          {.has_factors = true},
                          {.source = f16, .has_factors = true, .vectors = false},
                          {.source = f16, .has_factors = true, .routes = true, .vectors = false}});
    constexpr Unit swiglu = Unit::swiglu, situ = Unit::situ, geglu = Unit::geglu, relu_squared = Unit::relu_squared;
    add_outputs<Activate>(list, few_outputs,
                          {unit_of(swiglu, "elements"), unit_of(swiglu, "interleaved"),
                           unit_of(swiglu, "interleaved, elements"), unit_of(situ), unit_of(geglu),
                           unit_of(geglu, "interleaved"), unit_of(relu_squared), unit_of(relu_squared, "elements")});
    // Training quantizes after them.
    add_outputs<Activate>(list, {&other_outputs[1], 1},
                          {unit_of(swiglu, "elements"), unit_of(situ), unit_of(situ, "elements"),
                           unit_of(situ, "interleaved"), unit_of(geglu), unit_of(relu_squared)});
    list.emplace_back(Permute{{.output = RowOutput::bf16, .from_ranks = true}});
    list.emplace_back(Permute{{.output = RowOutput::bf16, .routes = true, .from_ranks = true}});
    list.emplace_back(Permute{{.has_factors = true, .from_ranks = true}});
    list.emplace_back(CopyRows{{.routes = true, .from_ranks = true}});
    for (const CombineSpec& spec : {CombineSpec{.out = f16},
                                    {.out = f32},
                                    {.vectors = false},
                                    {.out = f32, .vectors = false},
                                    {.out = f32, .vectors = false, .from_ranks = true},
                                    {.out = f32, .to_ranks = true},
                                    {.rows = f32},
                                    {.rows = f32, .meets = true},
                                    {.rows = f32, .vectors = false},
                                    {.rows = f32, .out = f32},
                                    {.rows = f32, .out = f32, .vectors = false}}) {
        list.emplace_back(Combine{spec});
    }
    list.insert(list.end(), {UnitGradient{}, WeightGradient{}});
}

}  // namespace

std::vector<launch::OtherKernel> other_kernels() {
    Kernels list = shipped_other_kernels();
    add_quantizers(list);
    add_preparations(list);
    add_layers(list);
    return list;
}

}  // namespace tilewright::tests
