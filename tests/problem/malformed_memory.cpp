// Pointers, devices, and memory that the output shares with others.
#include "problem/malformed.h"

#include <bit>
#include <cstdint>

namespace tilewright::test {
namespace {

constexpr DeviceId gpu(int index) { return {.kind = DeviceId::Kind::cuda, .index = index}; }

void shift(Tensor& tensor, std::intptr_t bytes) {
    tensor.data = std::bit_cast<void*>(std::bit_cast<std::intptr_t>(tensor.data) + bytes);
}

void to_gpu(Problem& p, int index) {
    for (Tensor* tensor : {&p.a.values, &p.a.scales, &p.b.values, &p.b.scales, &p.d}) tensor->device = gpu(index);
}

std::vector<Malformed> pointers() {
    return {
        {.mistake = "null values",
         .spec = {},
         .make = [](Problem& p) { p.a.values.data = nullptr; },
         .messages = {"a.values: a null pointer given, memory expected for [64, 512]"}},
        {.mistake = "null output and sizes",
         .spec = {.grouping = Grouping::m_grouped_masked},
         .make = [](Problem& p) { p.d.data = p.groups.sizes.data = nullptr; },
         .messages = {"d: a null pointer given, memory expected for [4, 64, 256]",
                      "groups.sizes: a null pointer given, memory expected for [4]"}},
        {.mistake = "null c",
         .spec = {.with_c = true},
         .make = [](Problem& p) { p.c.data = nullptr; },
         .messages = {"c: a null pointer given, memory expected for [64, 256]"}},
        {.mistake = "null tensor scale",
         .spec = {.recipe = "bf16:nvfp4"},
         .make = [](Problem& p) { p.b.tensor_scale.data = nullptr; },
         .messages = {"b.tensor_scale: a null pointer given, memory expected for [1]"}},
        {.mistake = "f32 scales at an odd address",
         .spec = {},
         .make = [](Problem& p) { shift(p.a.scales, 2); },
         .messages = {"a.scales: an address that is 2 modulo 4 given, a multiple of 4 expected for f32 "
                      "elements"}},
        {.mistake = "bf16 output at an odd address",
         .spec = {},
         .make = [](Problem& p) { shift(p.d, 1); },
         .messages = {"d: an address that is 1 modulo 2 given, a multiple of 2 expected for bf16 elements"}},
        {.mistake = "i64 sizes on half their alignment",
         .spec = {.grouping = Grouping::m_grouped_offsets},
         .make =
             [](Problem& p) {
                 p.groups.sizes = placed(Format::i64, {4});
                 shift(p.groups.sizes, 4);
             },
         .messages = {"groups.sizes: an address that is 4 modulo 8 given, a multiple of 8 expected for i64 "
                      "elements"}},
    };
}

std::vector<Malformed> devices() {
    return {
        {.mistake = "weights on a GPU for the CPU",
         .spec = {},
         .make = [](Problem& p) { p.b.values.device = gpu(0); },
         .messages = {"b.values: memory of cuda:0 given, host memory expected for the cpu backend; copy it to the "
                      "host"},
         .backend = Backend::cpu},
        {.mistake = "everything on a GPU for the CPU",
         .spec = {},
         .make = [](Problem& p) { to_gpu(p, 1); },
         .messages = {"all tensors: memory of cuda:1 given, host memory expected for the cpu backend; copy it to the "
                      "host"},
         .backend = Backend::cpu},
        {.mistake = "the output on a GPU, which `automatic` follows",
         .spec = {},
         .make =
             [](Problem& p) {
                 to_gpu(p, 1);
                 p.a.values.device = {};
             },
         .messages = {"a.values: host memory given, memory of cuda:1 expected for the hopper backend; copy it to the "
                      "device"}},
        {.mistake = "two GPUs",
         .spec = {},
         .make =
             [](Problem& p) {
                 to_gpu(p, 1);
                 p.b.scales.device = gpu(0);
             },
         .messages = {"b.scales: memory of cuda:0 given, memory of cuda:1 expected for the hopper backend; copy it to "
                      "the device"},
         .backend = Backend::hopper},
        {.mistake = "group sizes on the host for the GPU",
         .spec = {.grouping = Grouping::m_grouped_offsets},
         .make = [](Problem& p) { to_gpu(p, 0); },
         .messages = {"groups.sizes: host memory given, memory of cuda:0 expected for the hopper backend; copy it to "
                      "the device"},
         .backend = Backend::hopper},
        {.mistake = "everything on the host for the GPU",
         .spec = {},
         .make = [](Problem&) {},
         .messages = {"all tensors: host memory given, memory of cuda:0 expected for the hopper backend; copy it to "
                      "the device"},
         .backend = Backend::hopper},
    };
}

std::vector<Malformed> sharing() {
    return {
        {.mistake = "output over its input",
         .spec = {.recipe = "bf16:bf16", .n = 512},
         .make = [](Problem& p) { p.d.data = p.a.values.data; },
         .messages = {"d: memory that overlaps a.values given, memory of its own expected"}},
        {.mistake = "output that ends in the scales of b",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.d.data = p.b.scales.data;
                 shift(p.d, 2 * 4 * 4 - 64 * 256 * 2);
                 p.b.values = placed(Format::e4m3, {256, 512});
                 p.a = sample({}).a;
             },
         .messages = {"d: memory that overlaps b.scales given, memory of its own expected"}},
        {.mistake = "output between rows, one element too far",
         .spec = {.recipe = "bf16:bf16"},
         .make =
             [](Problem& p) {
                 p.a.values = placed(Format::bf16, {64, 1024});
                 p.a.values.shape = {64, 512};
                 p.d = p.a.values;
                 shift(p.d, 511 * 2);
                 p.d.shape = {64, 256};
             },
         .messages = {"d: memory that overlaps a.values given, memory of its own expected"}},
        {.mistake = "output over the group sizes",
         .spec = {.grouping = Grouping::m_grouped_masked},
         .make = [](Problem& p) { p.groups.sizes.data = p.d.data; },
         .messages = {"d: memory that overlaps groups.sizes given, memory of its own expected"}},
        {.mistake = "c is d with other strides",
         .spec = {.n = 64},
         .make =
             [](Problem& p) {
                 p.c = p.d;
                 p.c.strides = {1, 64};
             },
         .messages = {"c: memory that overlaps d given, memory of its own, or d itself with d's strides [64, 1] "
                      "expected"}},
        {.mistake = "c one row behind d",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.c = p.d;
                 shift(p.c, 512);
             },
         .messages = {"c: memory that overlaps d given, memory of its own, or d itself with d's strides [256, 1] "
                      "expected"}},
        {.mistake = "one row of d as c for all rows",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.c = p.d;
                 p.c.strides = {0, 1};
             },
         .messages = {"c: memory that overlaps d given, memory of its own, or d itself with d's strides [256, 1] "
                      "expected"}},
    };
}

}  // namespace

std::vector<Malformed> malformed_memory() {
    std::vector<Malformed> all = pointers();
    for (auto& rows : {devices(), sharing()}) all.insert(all.end(), rows.begin(), rows.end());
    return all;
}

}  // namespace tilewright::test
