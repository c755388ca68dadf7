// A bias of another format or shape, together with c, in k-grouped calls, at an unreachable place, over d.
#include "problem/malformed.h"

namespace tilewright::test {

std::vector<Malformed> malformed_bias() {  // NOLINT(readability-function-size): a table
    return {
        {.mistake = "an f16 bias",
         .spec = {},
         .make = [](Problem& p) { p.bias = placed(Format::f16, {256}); },
         .messages = {"bias: f16 given, f32 or bf16 expected"}},
        {.mistake = "a bias of one column too many",
         .spec = {},
         .make = [](Problem& p) { p.bias = placed(Format::f32, {257}); },
         .messages = {"bias: [257] given, [256] expected for dense; n is 256 in b.values"}},
        {.mistake = "a bias for each row",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::f32, {64, 256});
             },
         .messages = {"bias: [64, 256] given, [256] expected for dense"}},
        {.mistake = "a bias for one group too many",
         .spec = {.grouping = Grouping::m_grouped_offsets},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::bf16, {5, 256});
             },
         .messages = {"bias: [5, 256] given, [4, 256] expected for m_grouped_offsets; the number of groups is 4 in "
                      "b.values"}},
        {.mistake = "a bias transposed",
         .spec = {.grouping = Grouping::m_grouped_masked},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::bf16, {256, 4});
             },
         .messages = {"bias: [256, 4] given, [4, 256] expected for m_grouped_masked; the number of groups is 4 in "
                      "a.values and n is 256 in b.values; pass the transposed view"}},
        {.mistake = "a shared bias of another n",
         .spec = {.grouping = Grouping::batched},
         .make = [](Problem& p) { p.bias = placed(Format::bf16, {64}); },
         .messages = {"bias: [64] given, [256] expected for batched; n is 256 in b.values"}},
        {.mistake = "bias and c",
         .spec = {.with_c = true},
         .make = [](Problem& p) { p.bias = placed(Format::f32, {256}); },
         .messages = {"bias: [256] next to c given, one of bias and c expected; add the bias to c before"}},
        {.mistake = "a bias for groups of k",
         .spec = {.grouping = Grouping::k_grouped},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::f32, {4, 256});
             },
         .messages =
             {"bias: [4, 256] given, nothing expected for k_grouped; pass it as c, with a stride of 0 along m"}},
        {.mistake = "a null bias",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::f32, {256});
                 p.bias.data = nullptr;
             },
         .messages = {"bias: a null pointer given, memory expected for [256]"}},
        {.mistake = "a bias with a negative stride",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::f32, {256});
                 p.bias.strides = {-1};
             },
         .messages = {"bias.strides: [-1] given, strides of zero or more expected; copy the reversed view"}},
        {.mistake = "a bias on a GPU",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::f32, {256});
                 p.bias.device = {.kind = DeviceId::Kind::cuda, .index = 0};
             },
         .messages = {"bias: memory of cuda:0 given, host memory expected for the cpu backend; copy it to the host"}},
        {.mistake = "d over the bias",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::bf16, {256});
                 p.bias.data = p.d.data;
             },
         .messages = {"d: memory that overlaps bias given, memory of its own expected"}},
    };
}

}  // namespace tilewright::test
