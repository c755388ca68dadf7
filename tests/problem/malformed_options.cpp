// Options, unknown words, backends, and several mistakes in one call.
#include "problem/malformed.h"

namespace tilewright::test {
namespace {

std::vector<Malformed> options() {
    return {
        {.mistake = "negative SM limit",
         .spec = {},
         .make = [](Problem& p) { p.sm_limit = -1; },
         .messages = {"sm_limit: got -1; expected 0 or more."}},
        {.mistake = "negative expected m",
         .spec = {.grouping = Grouping::m_grouped_masked},
         .make = [](Problem& p) { p.expected_m = -64; },
         .messages = {"expected_m: got -64; expected 0 or more."}},
        {.mistake = "unpromoted with block scales",
         .spec = {},
         .make = [](Problem& p) { p.accumulation = Accumulation::unpromoted; },
         .messages = {"accumulation: got unpromoted; expected promoted for 1x128 scales of a. Block scales are applied "
                      "during accumulation; only tensor and row scales can be applied after it."}},
        {.mistake = "unpromoted with block scales on one side",
         .spec = {.recipe = "row:mxfp4"},
         .make = [](Problem& p) { p.accumulation = Accumulation::unpromoted; },
         .messages = {"accumulation: got unpromoted; expected promoted for 1x32 scales of b. Block scales are applied "
                      "during accumulation; only tensor and row scales can be applied after it."}},
        {.mistake = "bit_exact arithmetic of f32",
         .spec = {.recipe = "f32:f32"},
         .make = [](Problem& p) { p.arithmetic = Arithmetic::bit_exact; },
         .messages = {"arithmetic: got bit_exact; expected fast for f32 operands. Convert the operand to bf16."}},
        {.mistake = "bit_exact arithmetic of f16 weights",
         .spec = {.recipe = "mxfp8:f16"},
         .make = [](Problem& p) { p.arithmetic = Arithmetic::bit_exact; },
         .messages = {"arithmetic: got bit_exact; expected fast for f16 operands. Convert the operand to bf16."}},
        {.mistake = "invariant f16",
         .spec = {.recipe = "f16:f16"},
         .make = [](Problem& p) { p.reproducibility = Reproducibility::invariant; },
         .messages = {"reproducibility: got invariant; expected repeatable for f16 operands. Invariant needs bit_exact "
                      "arithmetic, which supports bf16 and narrower operands."}},
    };
}

std::vector<Malformed> words() {
    return {
        {.mistake = "an unknown layout",
         .spec = {},
         .make = [](Problem& p) { p.layout = static_cast<Layout>(4); },
         .messages = {"layout: got 4; expected nt, nn, tn or tt."}},
        {.mistake = "an unknown grouping",
         .spec = {},
         .make = [](Problem& p) { p.groups.grouping = static_cast<Grouping>(9); },
         .messages =
             {"groups.grouping: got 9; expected dense, batched, m_grouped_indices, m_grouped_offsets, "
              "m_grouped_aligned_offsets, m_grouped_masked, k_grouped, k_grouped_aligned_offsets or k_grouped_flat."}},
        {.mistake = "three unknown words",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.accumulation = static_cast<Accumulation>(2);
                 p.arithmetic = static_cast<Arithmetic>(200);
                 p.reproducibility = static_cast<Reproducibility>(3);
             },
         .messages = {"accumulation: got 2; expected promoted or unpromoted.",
                      "arithmetic: got 200; expected fast or bit_exact.",
                      "reproducibility: got 3; expected repeatable or invariant."}},
        {.mistake = "an unknown backend",
         .spec = {},
         .make = [](Problem&) {},
         .messages = {"backend: got 3; expected automatic, cpu or hopper."},
         .backend = static_cast<Backend>(3)},
        {.mistake = "groups of k within a k-block of the GPU",
         .spec = {.grouping = Grouping::k_grouped_aligned_offsets, .recipe = "row:row"},
         .make = [](Problem& p) { p.groups.alignment = 64; },
         .messages = {"groups.alignment: got 64; expected a multiple of 128 on a Hopper GPU. Copy the tensors to the "
                      "host and use the CPU backend."},
         .backend = Backend::hopper,
         .check = Check::shapes},
        {.mistake = "the GPU backend for shapes alone",
         .spec = {.recipe = "f16:f16"},
         .make = [](Problem&) {},
         .messages = {"a: got f16; expected fp8 with tensor, row, 1x128 or 128x128 scales on a Hopper GPU. Quantize "
                      "it, or copy the tensors to the host and use the CPU backend.",
                      "b: got f16; expected fp8 with tensor, row, 1x128 or 128x128 scales on a Hopper GPU. Quantize "
                      "it, or copy the tensors to the host and use the CPU backend."},
         .backend = Backend::hopper,
         .check = Check::shapes},
    };
}

std::vector<Malformed> several() {
    return {
        {.mistake = "a mistake in every theme",
         .spec = {.grouping = Grouping::m_grouped_aligned_offsets, .with_c = true},
         .make =
             [](Problem& p) {
                 p.a.values.strides = {512};
                 p.b.scales = placed(Format::f16, {4, 4, 2});
                 p.c = placed(Format::f32, {64, 255});
                 p.groups.alignment = 0;
                 p.sm_limit = -2;
                 p.d.data = nullptr;
                 p.groups.sizes.device = {.kind = DeviceId::Kind::cuda, .index = 0};
             },
         .messages =
             {"a.values.strides: got [512]; expected one stride per dimension of [64, 512].",
              "b.scales: got f16; expected f32 or ue8m0 for 128x128 scales of e4m3.",
              "c: got f32; expected bf16, the format of d.",
              "c: got [64, 255]; expected [64, 256] for m_grouped_aligned_offsets. n is 256 in b.values.",
              "b.scales: got [4, 4, 2]; expected [4, 2, 4] for 128x128 scales of b [4, 256, 512]. Pass the transposed "
              "view.",
              "groups.alignment: got 0; expected 1 or more.", "sm_limit: got -2; expected 0 or more.",
              "d: got a null pointer; expected memory for [64, 256].",
              "groups.sizes: got memory of cuda:0; expected host memory for the cpu backend. Copy it to the host."}},
        {.mistake = "wrong sizes of both sides' scales",
         .spec = {.recipe = "mxfp8:nvfp4"},
         .make =
             [](Problem& p) {
                 p.a.scales = placed(Format::ue8m0, {16, 64});
                 p.b.scales = placed(Format::ue4m3, {256, 31});
             },
         .messages =
             {"a.scales: got [16, 64]; expected [64, 16] for 1x32 scales of a [64, 512]. Pass the transposed view.",
              "b.scales: got [256, 31]; expected [256, 32] for 1x16 scales of b [256, 512]."}},
    };
}

}  // namespace

std::vector<Malformed> malformed_options() {
    std::vector<Malformed> all = options();
    for (auto& rows : {words(), several()}) all.insert(all.end(), rows.begin(), rows.end());
    return all;
}

}  // namespace tilewright::test
