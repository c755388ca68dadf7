// Formats that a tensor cannot have, sides that make no sense, and pairs outside the closed list.
#include "problem/malformed.h"

#include <cstdint>

namespace tilewright::test {
namespace {

std::vector<Malformed> tensors() {
    return {
        {.mistake = "integers as values",
         .spec = {.recipe = "bf16:bf16"},
         .make =
             [](Problem& p) {
                 p.a.values = placed(Format::i32, {64, 512});
             },
         .messages = {"a.values: got i32; expected e4m3, e5m2, e2m1, bf16, f16 or f32."}},
        {.mistake = "a scale format as values",
         .spec = {},
         .make = [](Problem& p) { p.b.values.format = Format::ue8m0; },
         .messages = {"b.values: got ue8m0; expected e4m3, e5m2, e2m1, bf16, f16 or f32."}},
        {.mistake = "an unknown format",
         .spec = {.recipe = "bf16:bf16"},
         .make = [](Problem& p) { p.a.values.format = static_cast<Format>(99); },
         .messages = {"a.values: got unknown format; expected e4m3, e5m2, e2m1, bf16, f16 or f32."}},
        {.mistake = "an output of unknown format that spans more than can be counted",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.d.format = static_cast<Format>(99);
                 p.d.strides = {std::int64_t{1} << 62, 1};
             },
         .messages = {"d.strides: got [4611686018427387904, 1] with sizes [64, 256]; expected a span below 2^60 bytes.",
                      "d: got unknown format; expected bf16, f16 or f32."}},
        {.mistake = "fp8 output",
         .spec = {},
         .make = [](Problem& p) { p.d.format = Format::e4m3; },
         .messages = {"d: got e4m3; expected bf16, f16 or f32."}},
        {.mistake = "c in another format",
         .spec = {.with_c = true},
         .make =
             [](Problem& p) {
                 p.c = placed(Format::f32, {64, 256});
             },
         .messages = {"c: got f32; expected bf16, the format of d."}},
        {.mistake = "scales as bf16",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.a.scales = placed(Format::bf16, {64, 4});
             },
         .messages = {"a.scales: got bf16; expected f32 or ue8m0 for 1x128 scales of e4m3."}},
        {.mistake = "ue8m0 scales for each row",
         .spec = {.recipe = "row:row"},
         .make = [](Problem& p) { p.b.scales = placed(Format::ue8m0, {256}); },
         .messages = {"b.scales: got ue8m0; expected f32 for row scales of e4m3."}},
        {.mistake = "f32 scales for MX",
         .spec = {.recipe = "mxfp8:mxfp4"},
         .make =
             [](Problem& p) {
                 p.b.scales = placed(Format::f32, {256, 16});
             },
         .messages = {"b.scales: got f32; expected ue8m0 for 1x32 scales of e2m1."}},
        {.mistake = "e4m3 scales for NVFP4",
         .spec = {.recipe = "bf16:nvfp4"},
         .make =
             [](Problem& p) {
                 p.b.scales = placed(Format::e4m3, {256, 32});
             },
         .messages = {"b.scales: got e4m3; expected ue4m3 for 1x16 scales of e2m1."}},
        {.mistake = "packed scales in integers",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.a.scales = placed(Format::i32, {64, 1});
             },
         .messages = {"a.scales: got i32; expected f32 or ue8m0 for 1x128 scales of e4m3.",
                      "a.scales: got [64, 1]; expected [64, 4] for 1x128 scales of a [64, 512]."}},
        {.mistake = "tensor scale as bf16",
         .spec = {.recipe = "bf16:nvfp4"},
         .make = [](Problem& p) { p.b.tensor_scale = placed(Format::bf16, {1}); },
         .messages = {"b.tensor_scale: got bf16; expected f32."}},
    };
}

std::vector<Malformed> sides() {
    return {
        {.mistake = "fp8 of a without scaling",
         .spec = {},
         .make = [](Problem& p) { p.a.granularity = Granularity::none; },
         .messages =
             {"recipe: got e4m3:128x128; expected 1x128:128x128, 128x128:128x128, 1x32:128x128 or 1x16:128x128.",
              "a.scales: got [64, 4]; expected nothing for e4m3 values without scales."}},
        {.mistake = "fp8 of b without scaling, but with scales",
         .spec = {},
         .make = [](Problem& p) { p.b.granularity = Granularity::none; },
         .messages = {"b.scales: got [2, 4]; expected nothing for e4m3 values without scales."}},
        {.mistake = "fp8 of both sides without scaling",
         .spec = {.recipe = "e4m3:e5m2"},
         .make = [](Problem&) {},
         .messages = {"recipe: got e4m3:e5m2; expected tensor:e5m2, row:e5m2, 1x128:e5m2 or 128x128:e5m2."}},
        {.mistake = "scaled bf16",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.a.values = placed(Format::bf16, {64, 512});
             },
         .messages = {"a.granularity: got 1x128; expected none for bf16 values."}},
        {.mistake = "row-scaled e2m1",
         .spec = {.recipe = "row:row"},
         .make =
             [](Problem& p) {
                 p.b.values = placed(Format::e2m1, {256, 512});
             },
         .messages = {"b.granularity: got row; expected 1x32 or 1x16 for e2m1 values."}},
        {.mistake = "128x128 scales of a alone",
         .spec = {.recipe = "1x128:1x128"},
         .make =
             [](Problem& p) {
                 p.a.granularity = Granularity::block_128x128;
                 p.a.scales = placed(Format::f32, {1, 4});
             },
         .messages = {"recipe: got 128x128:1x128; expected 128x128:e4m3, 128x128:e5m2, 128x128:128x128, 1x128:1x128, "
                      "1x32:1x128 or 1x16:1x128. Did you swap a and b? a holds the activations, b the weights."}},
        {.mistake = "1x16 scales of fp8",
         .spec = {.recipe = "nvfp4:nvfp4"},
         .make =
             [](Problem& p) {
                 p.a.values = placed(Format::e5m2, {64, 512});
             },
         .messages = {"a.granularity: got 1x16; expected none, tensor, row, 1x128, 128x128 or 1x32 for e5m2 values."}},
        {.mistake = "an unknown granularity",
         .spec = {.recipe = "bf16:bf16"},
         .make = [](Problem& p) { p.a.granularity = static_cast<Granularity>(9); },
         .messages = {"a.granularity: got unknown granularity; expected none for bf16 values."}},
    };
}

std::vector<Malformed> pairs() {
    return {
        {.mistake = "row with tensor",
         .spec = {.recipe = "row:tensor"},
         .make = [](Problem&) {},
         .messages = {"recipe: got row:tensor; expected row:e4m3, row:e5m2, row:row, row:1x32, row:1x16, "
                      "tensor:tensor, 1x128:tensor, 1x32:tensor or 1x16:tensor."}},
        {.mistake = "row with 1x128, which go together the other way round",
         .spec = {.recipe = "row:1x128"},
         .make = [](Problem&) {},
         .messages = {"recipe: got row:1x128; expected row:e4m3, row:e5m2, row:row, row:1x32, row:1x16, 1x128:1x128, "
                      "1x32:1x128 or 1x16:1x128. Did you swap a and b? a holds the activations, b the weights."}},
        {.mistake = "row with 128x128",
         .spec = {.recipe = "e5m2.row:128x128.ue8m0"},
         .make = [](Problem&) {},
         .messages = {"recipe: got row:128x128; expected row:e4m3, row:e5m2, row:row, row:1x32, row:1x16, "
                      "1x128:128x128, 128x128:128x128, 1x32:128x128 or 1x16:128x128."}},
        {.mistake = "two formats without scales",
         .spec = {.recipe = "bf16:f16"},
         .make = [](Problem&) {},
         .messages =
             {"recipe: got bf16:f16; expected bf16:1x32, bf16:1x16, bf16:bf16, 1x32:f16, 1x16:f16 or f16:f16."}},
        {.mistake = "bf16 with per-tensor fp8",
         .spec = {.recipe = "bf16:tensor"},
         .make = [](Problem&) {},
         .messages =
             {"recipe: got bf16:tensor; expected bf16:1x32, bf16:1x16, bf16:bf16, tensor:tensor, 1x128:tensor, "
              "1x32:tensor or 1x16:tensor. Quantize a, e.g. to 1x128 (tilewright.quantize(a, '1x128') in Python)."}},
        {.mistake = "fp8 with weights that are not quantised",
         .spec = {.recipe = "row:f32"},
         .make = [](Problem&) {},
         .messages = {"recipe: got row:f32; expected row:e4m3, row:e5m2, row:row, row:1x32, row:1x16, 1x32:f32, "
                      "1x16:f32 or f32:f32. Quantize b, e.g. to row (tilewright.quantize(b, 'row') in Python)."}},
        {.mistake = "fp8 without scales, with which nothing quantised goes as b",
         .spec = {.recipe = "e4m3:bf16"},
         .make = [](Problem&) {},
         .messages = {"recipe: got e4m3:bf16; expected 1x32:bf16, 1x16:bf16 or bf16:bf16."}},
    };
}

}  // namespace

std::vector<Malformed> malformed_formats() {
    std::vector<Malformed> all = tensors();
    for (auto& rows : {sides(), pairs()}) all.insert(all.end(), rows.begin(), rows.end());
    return all;
}

}  // namespace tilewright::test
