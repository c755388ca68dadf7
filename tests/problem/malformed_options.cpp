// Options, unknown words, backends, and several mistakes in one call.
#include "problem/malformed.h"

namespace tilewright::test {
namespace {

std::vector<Malformed> options() {
    return {
        {.mistake = "negative SM limit",
         .spec = {},
         .make = [](Problem& p) { p.sm_limit = -1; },
         .messages = {"sm_limit: -1 given, 0 or more expected"}},
        {.mistake = "negative expected m",
         .spec = {.grouping = Grouping::m_grouped_masked},
         .make = [](Problem& p) { p.expected_m = -64; },
         .messages = {"expected_m: -64 given, 0 or more expected"}},
        {.mistake = "unpromoted with block scales",
         .spec = {},
         .make = [](Problem& p) { p.accumulation = Accumulation::unpromoted; },
         .messages = {"accumulation: unpromoted given, promoted expected for 1x128 scaling of a; only tensor and row "
                      "scales can wait until all of k is summed"}},
        {.mistake = "unpromoted with block scales on one side",
         .spec = {.recipe = "row:mxfp4"},
         .make = [](Problem& p) { p.accumulation = Accumulation::unpromoted; },
         .messages = {"accumulation: unpromoted given, promoted expected for 1x32 scaling of b; only tensor and row "
                      "scales can wait until all of k is summed"}},
        {.mistake = "bit_exact arithmetic of f32",
         .spec = {.recipe = "f32:f32"},
         .make = [](Problem& p) { p.arithmetic = Arithmetic::bit_exact; },
         .messages = {"arithmetic: bit_exact given, fast expected for f32 operands; convert the operand to bf16"}},
        {.mistake = "bit_exact arithmetic of f16 weights",
         .spec = {.recipe = "mxfp8:f16"},
         .make = [](Problem& p) { p.arithmetic = Arithmetic::bit_exact; },
         .messages = {"arithmetic: bit_exact given, fast expected for f16 operands; convert the operand to bf16"}},
        {.mistake = "invariant f16",
         .spec = {.recipe = "f16:f16"},
         .make = [](Problem& p) { p.reproducibility = Reproducibility::invariant; },
         .messages =
             {"reproducibility: invariant given, repeatable expected for f16 operands; invariant implies bit_exact "
              "arithmetic, which has bf16 and narrower operands"}},
    };
}

std::vector<Malformed> words() {
    return {
        {.mistake = "an unknown layout",
         .spec = {},
         .make = [](Problem& p) { p.layout = static_cast<Layout>(4); },
         .messages = {"layout: 4 given, 0 to 3 expected"}},
        {.mistake = "an unknown grouping",
         .spec = {},
         .make = [](Problem& p) { p.groups.grouping = static_cast<Grouping>(9); },
         .messages = {"groups.grouping: 9 given, 0 to 8 expected"}},
        {.mistake = "three unknown words",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.accumulation = static_cast<Accumulation>(2);
                 p.arithmetic = static_cast<Arithmetic>(200);
                 p.reproducibility = static_cast<Reproducibility>(3);
             },
         .messages = {"accumulation: 2 given, 0 to 1 expected", "arithmetic: 200 given, 0 to 1 expected",
                      "reproducibility: 3 given, 0 to 1 expected"}},
        {.mistake = "an unknown backend",
         .spec = {},
         .make = [](Problem&) {},
         .messages = {"backend: 3 given, 0 to 2 expected"},
         .backend = static_cast<Backend>(3)},
        {.mistake = "groups of k within a k-block of the GPU",
         .spec = {.grouping = Grouping::k_grouped_aligned_offsets, .recipe = "row:row"},
         .make = [](Problem& p) { p.groups.alignment = 64; },
         .messages =
             {"groups.alignment: 64 given, a multiple of 128 expected for a Hopper GPU in this version; run it on "
              "the CPU backend"},
         .backend = Backend::hopper,
         .check = Check::shapes},
        {.mistake = "the GPU backend for shapes alone",
         .spec = {.recipe = "f16:f16"},
         .make = [](Problem&) {},
         .messages =
             {"a: f16 given, fp8 with tensor, row, 1x128 or 128x128 scales expected for a Hopper GPU; run it on the "
              "CPU backend",
              "b: f16 given, fp8 with tensor, row, 1x128 or 128x128 scales expected for a Hopper GPU; run it on the "
              "CPU backend"},
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
         .messages = {"a.values.strides: [512] given, one stride expected for each size of [64, 512]",
                      "b.scales: f16 given, f32 or ue8m0 expected for 128x128 scaling of e4m3",
                      "c: f32 given, bf16 expected; c has the format of d",
                      "c: [64, 255] given, [64, 256] expected for m_grouped_aligned_offsets; n is 256 in b.values",
                      "b.scales: [4, 4, 2] given, [4, 2, 4] expected for 128x128 scaling of b [4, 256, 512]; pass the "
                      "transposed view",
                      "groups.alignment: 0 given, 1 or more expected", "sm_limit: -2 given, 0 or more expected",
                      "d: a null pointer given, memory expected for [64, 256]",
                      "groups.sizes: memory of cuda:0 given, host memory expected for the cpu backend; copy it to the "
                      "host"}},
        {.mistake = "wrong sizes of both sides' scales",
         .spec = {.recipe = "mxfp8:nvfp4"},
         .make =
             [](Problem& p) {
                 p.a.scales = placed(Format::ue8m0, {16, 64});
                 p.b.scales = placed(Format::ue4m3, {256, 31});
             },
         .messages =
             {"a.scales: [16, 64] given, [64, 16] expected for 1x32 scaling of a [64, 512]; pass the transposed "
              "view",
              "b.scales: [256, 31] given, [256, 32] expected for 1x16 scaling of b [256, 512]"}},
    };
}

}  // namespace

std::vector<Malformed> malformed_options() {
    std::vector<Malformed> all = options();
    for (auto& rows : {words(), several()}) all.insert(all.end(), rows.begin(), rows.end());
    return all;
}

}  // namespace tilewright::test
