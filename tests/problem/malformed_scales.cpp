// Scales that are missing, superfluous or of the wrong shape, for scaling that does not vary along k.
#include "problem/malformed.h"

namespace tilewright::test {
namespace {

std::vector<Malformed> presence() {
    return {
        {.mistake = "scales missing",
         .spec = {},
         .make = [](Problem& p) { p.a.scales = {}; },
         .messages = {"a.scales: got nothing; expected [64, 4] for 1x128 scales of a [64, 512]."}},
        {.mistake = "scales missing on both sides",
         .spec = {.recipe = "row:row"},
         .make = [](Problem& p) { p.a.scales = {}, p.b.scales = {}; },
         .messages = {"a.scales: got nothing; expected [64] for row scales of a [64, 512].",
                      "b.scales: got nothing; expected [256] for row scales of b [256, 512]."}},
        {.mistake = "values and scales missing",
         .spec = {},
         .make = [](Problem& p) { p.a.values = {}, p.a.scales = {}; },
         .messages = {"a.values: got nothing; expected [64, 512] for dense nt.",
                      "a.scales: got nothing; expected 1x128 scales."}},
        {.mistake = "scales for bf16",
         .spec = {.recipe = "bf16:bf16"},
         .make = [](Problem& p) { p.b.scales = placed(Format::f32, {256}); },
         .messages = {"b.scales: got [256]; expected nothing for bf16 values without scales."}},
        {.mistake = "tensor scale missing",
         .spec = {.recipe = "nvfp4:nvfp4"},
         .make = [](Problem& p) { p.a.tensor_scale = {}; },
         .messages = {"a.tensor_scale: got nothing; expected [1] for 1x16 scales."}},
        {.mistake = "tensor scale of a grouped operand missing",
         .spec = {.grouping = Grouping::m_grouped_offsets, .recipe = "bf16:nvfp4"},
         .make = [](Problem& p) { p.b.tensor_scale = {}; },
         .messages = {"b.tensor_scale: got nothing; expected [1] or [4] for 1x16 scales."}},
        {.mistake = "tensor scale for row scaling",
         .spec = {.recipe = "row:row"},
         .make = [](Problem& p) { p.a.tensor_scale = placed(Format::f32, {1}); },
         .messages = {"a.tensor_scale: got [1]; expected nothing for row scales."}},
        {.mistake = "tensor scale for bf16",
         .spec = {.recipe = "bf16:bf16"},
         .make = [](Problem& p) { p.b.tensor_scale = placed(Format::f32, {1}); },
         .messages = {"b.tensor_scale: got [1]; expected nothing for bf16 values without scales."}},
        {.mistake = "tensor scale for each row",
         .spec = {.recipe = "nvfp4:nvfp4"},
         .make = [](Problem& p) { p.b.tensor_scale = placed(Format::f32, {256}); },
         .messages = {"b.tensor_scale: got [256]; expected [1] for 1x16 scales."}},
        {.mistake = "tensor scale for each group of another operand",
         .spec = {.grouping = Grouping::m_grouped_offsets, .recipe = "nvfp4:nvfp4"},
         .make = [](Problem& p) { p.a.tensor_scale = placed(Format::f32, {4}); },
         .messages = {"a.tensor_scale: got [4]; expected [1] for 1x16 scales."}},
    };
}

std::vector<Malformed> shapes() {
    return {
        {.mistake = "per-tensor scaling with a scale for each row",
         .spec = {.recipe = "tensor:tensor"},
         .make = [](Problem& p) { p.a.scales = placed(Format::f32, {64}); },
         .messages =
             {"a.scales: got [64]; expected [1] for tensor scales of a [64, 512]. [64] is the shape of row scales."}},
        {.mistake = "per-tensor scaling for another number of groups",
         .spec = {.grouping = Grouping::batched, .recipe = "tensor:tensor"},
         .make = [](Problem& p) { p.b.scales = placed(Format::f32, {3}); },
         .messages = {"b.scales: got [3]; expected [1] or [4] for tensor scales of b [4, 256, 512]."}},
        {.mistake = "per-tensor scales of k_grouped for another number of groups",
         .spec = {.grouping = Grouping::k_grouped, .recipe = "tensor:tensor"},
         .make = [](Problem& p) { p.a.scales = placed(Format::f32, {5}); },
         .messages = {"a.scales: got [5]; expected [1] or [4] for tensor scales of a [64, 512]."}},
        {.mistake = "row scales of another length",
         .spec = {.recipe = "row:row"},
         .make = [](Problem& p) { p.b.scales = placed(Format::f32, {255}); },
         .messages = {"b.scales: got [255]; expected [256] for row scales of b [256, 512]."}},
        {.mistake = "row scales as a column",
         .spec = {.recipe = "row:row"},
         .make =
             [](Problem& p) {
                 p.a.scales = placed(Format::f32, {64, 1});
             },
         .messages = {"a.scales: got [64, 1]; expected [64] for row scales of a [64, 512]. Pass a view of rank 1."}},
        {.mistake = "row scales without groups",
         .spec = {.grouping = Grouping::batched, .recipe = "row:row"},
         .make = [](Problem& p) { p.a.scales = placed(Format::f32, {64}); },
         .messages = {"a.scales: got [64]; expected [4, 64] for row scales of a [4, 64, 512]."}},
        {.mistake = "row scales with groups behind",
         .spec = {.grouping = Grouping::batched, .recipe = "row:row"},
         .make =
             [](Problem& p) {
                 p.a.scales = placed(Format::f32, {64, 4});
             },
         .messages =
             {"a.scales: got [64, 4]; expected [4, 64] for row scales of a [4, 64, 512]. Pass the transposed view."}},
        {.mistake = "row scales of k_grouped for another number of groups",
         .spec = {.grouping = Grouping::k_grouped, .recipe = "row:row"},
         .make =
             [](Problem& p) {
                 p.a.scales = placed(Format::f32, {5, 64});
             },
         .messages = {"a.scales: got [5, 64]; expected [64] or [4, 64] for row scales of a [64, 512]."}},
        {.mistake = "scales of rank 4",
         .spec = {.recipe = "row:row"},
         .make =
             [](Problem& p) {
                 p.a.scales.shape = {1, 1, 1, 64};
             },
         .messages = {"a.scales: got [1, 1, 1, ...]; expected at most 3 dimensions."}},
    };
}

}  // namespace

std::vector<Malformed> malformed_scales() {
    std::vector<Malformed> all = presence();
    for (Malformed& row : shapes()) all.push_back(std::move(row));
    return all;
}

}  // namespace tilewright::test
