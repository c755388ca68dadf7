// A bias of another format or shape, together with c, in k-grouped calls, at an unreachable place, over d.
#include "problem/malformed.h"

namespace tilewright::test {

std::vector<Malformed> malformed_bias() {
    return {
        {.mistake = "an f16 bias",
         .spec = {},
         .make = [](Problem& p) { p.bias = placed(Format::f16, {256}); },
         .messages = {"bias: got f16; expected f32 or bf16."}},
        {.mistake = "a bias of one column too many",
         .spec = {},
         .make = [](Problem& p) { p.bias = placed(Format::f32, {257}); },
         .messages = {"bias: got [257]; expected [256] for dense. n is 256 in b.values."}},
        {.mistake = "a bias for each row",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::f32, {64, 256});
             },
         .messages = {"bias: got [64, 256]; expected [256] for dense."}},
        {.mistake = "a bias for one group too many",
         .spec = {.grouping = Grouping::m_grouped_offsets},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::bf16, {5, 256});
             },
         .messages =
             {"bias: got [5, 256]; expected [4, 256] for m_grouped_offsets. The number of groups is 4 in b.values."}},
        {.mistake = "a bias transposed",
         .spec = {.grouping = Grouping::m_grouped_masked},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::bf16, {256, 4});
             },
         .messages = {"bias: got [256, 4]; expected [4, 256] for m_grouped_masked. The number of groups is 4 in "
                      "a.values and n is 256 in b.values. Pass the transposed view."}},
        {.mistake = "a shared bias of another n",
         .spec = {.grouping = Grouping::batched},
         .make = [](Problem& p) { p.bias = placed(Format::bf16, {64}); },
         .messages = {"bias: got [64]; expected [256] for batched. n is 256 in b.values."}},
        {.mistake = "bias and c",
         .spec = {.with_c = true},
         .make = [](Problem& p) { p.bias = placed(Format::f32, {256}); },
         .messages = {"bias: got [256] together with c; expected either bias or c. Add the bias to c first."}},
        {.mistake = "a bias for groups of k",
         .spec = {.grouping = Grouping::k_grouped},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::f32, {4, 256});
             },
         .messages = {"bias: got [4, 256]; expected nothing for k_grouped. Pass it as c, with a stride of 0 along m."}},
        {.mistake = "a null bias",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::f32, {256});
                 p.bias.data = nullptr;
             },
         .messages = {"bias: got a null pointer; expected memory for [256]."}},
        {.mistake = "a bias with a negative stride",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::f32, {256});
                 p.bias.strides = {-1};
             },
         .messages = {"bias.strides: got [-1]; expected strides of 0 or more. Copy the reversed view."}},
        {.mistake = "a bias on a GPU",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::f32, {256});
                 p.bias.device = {.kind = DeviceId::Kind::cuda, .index = 0};
             },
         .messages = {"bias: got memory of cuda:0; expected host memory for the cpu backend. Copy it to the host."}},
        {.mistake = "d over the bias",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.bias = placed(Format::bf16, {256});
                 p.bias.data = p.d.data;
             },
         .messages = {"d: got memory that overlaps bias; expected separate memory."}},
    };
}

}  // namespace tilewright::test
