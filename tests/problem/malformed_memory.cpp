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
         .messages = {"a.values: got a null pointer; expected memory for [64, 512]."}},
        {.mistake = "null output and sizes",
         .spec = {.grouping = Grouping::m_grouped_masked},
         .make = [](Problem& p) { p.d.data = p.groups.sizes.data = nullptr; },
         .messages = {"d: got a null pointer; expected memory for [4, 64, 256].",
                      "groups.sizes: got a null pointer; expected memory for [4]."}},
        {.mistake = "null c",
         .spec = {.with_c = true},
         .make = [](Problem& p) { p.c.data = nullptr; },
         .messages = {"c: got a null pointer; expected memory for [64, 256]."}},
        {.mistake = "null tensor scale",
         .spec = {.recipe = "bf16:nvfp4"},
         .make = [](Problem& p) { p.b.tensor_scale.data = nullptr; },
         .messages = {"b.tensor_scale: got a null pointer; expected memory for [1]."}},
        {.mistake = "f32 scales at an odd address",
         .spec = {},
         .make = [](Problem& p) { shift(p.a.scales, 2); },
         .messages = {"a.scales: got an address that is 2 modulo 4; expected a multiple of 4 for f32 elements."}},
        {.mistake = "bf16 output at an odd address",
         .spec = {},
         .make = [](Problem& p) { shift(p.d, 1); },
         .messages = {"d: got an address that is 1 modulo 2; expected a multiple of 2 for bf16 elements."}},
        {.mistake = "i64 sizes on half their alignment",
         .spec = {.grouping = Grouping::m_grouped_offsets},
         .make =
             [](Problem& p) {
                 p.groups.sizes = placed(Format::i64, {4});
                 shift(p.groups.sizes, 4);
             },
         .messages = {"groups.sizes: got an address that is 4 modulo 8; expected a multiple of 8 for i64 elements."}},
    };
}

std::vector<Malformed> devices() {
    return {
        {.mistake = "weights on a GPU for the CPU",
         .spec = {},
         .make = [](Problem& p) { p.b.values.device = gpu(0); },
         .messages = {"b.values: got memory of cuda:0; expected host memory for the cpu backend. Copy it to the host."},
         .backend = Backend::cpu},
        {.mistake = "everything on a GPU for the CPU",
         .spec = {},
         .make = [](Problem& p) { to_gpu(p, 1); },
         .messages =
             {"all tensors: got memory of cuda:1; expected host memory for the cpu backend. Copy it to the host."},
         .backend = Backend::cpu},
        {.mistake = "the output on a GPU, which `automatic` follows",
         .spec = {},
         .make =
             [](Problem& p) {
                 to_gpu(p, 1);
                 p.a.values.device = {};
             },
         .messages =
             {"a.values: got host memory; expected memory of cuda:1 for the hopper backend. Copy it to the device."}},
        {.mistake = "two GPUs",
         .spec = {},
         .make =
             [](Problem& p) {
                 to_gpu(p, 1);
                 p.b.scales.device = gpu(0);
             },
         .messages = {"b.scales: got memory of cuda:0; expected memory of cuda:1 for the hopper backend. Copy it to "
                      "the device."},
         .backend = Backend::hopper},
        {.mistake = "group sizes on the host for the GPU",
         .spec = {.grouping = Grouping::m_grouped_offsets},
         .make = [](Problem& p) { to_gpu(p, 0); },
         .messages = {"groups.sizes: got host memory; expected memory of cuda:0 for the hopper backend. Copy it to the "
                      "device."},
         .backend = Backend::hopper},
        {.mistake = "everything on the host for the GPU",
         .spec = {},
         .make = [](Problem&) {},
         .messages =
             {"all tensors: got host memory; expected memory of cuda:0 for the hopper backend. Copy it to the device."},
         .backend = Backend::hopper},
    };
}

std::vector<Malformed> sharing() {
    return {
        {.mistake = "output over its input",
         .spec = {.recipe = "bf16:bf16", .n = 512},
         .make = [](Problem& p) { p.d.data = p.a.values.data; },
         .messages = {"d: got memory that overlaps a.values; expected separate memory."}},
        {.mistake = "output that ends in the scales of b",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.d.data = p.b.scales.data;
                 shift(p.d, 2 * 4 * 4 - 64 * 256 * 2);
                 p.b.values = placed(Format::e4m3, {256, 512});
                 p.a = sample({}).a;
             },
         .messages = {"d: got memory that overlaps b.scales; expected separate memory."}},
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
         .messages = {"d: got memory that overlaps a.values; expected separate memory."}},
        {.mistake = "output over the group sizes",
         .spec = {.grouping = Grouping::m_grouped_masked},
         .make = [](Problem& p) { p.groups.sizes.data = p.d.data; },
         .messages = {"d: got memory that overlaps groups.sizes; expected separate memory."}},
        {.mistake = "c is d with other strides",
         .spec = {.n = 64},
         .make =
             [](Problem& p) {
                 p.c = p.d;
                 p.c.strides = {1, 64};
             },
         .messages =
             {"c: got memory that overlaps d; expected separate memory, or d itself with d's strides [64, 1]."}},
        {.mistake = "c one row behind d",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.c = p.d;
                 shift(p.c, 512);
             },
         .messages =
             {"c: got memory that overlaps d; expected separate memory, or d itself with d's strides [256, 1]."}},
        {.mistake = "one row of d as c for all rows",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.c = p.d;
                 p.c.strides = {0, 1};
             },
         .messages =
             {"c: got memory that overlaps d; expected separate memory, or d itself with d's strides [256, 1]."}},
    };
}

}  // namespace

std::vector<Malformed> malformed_memory() {
    std::vector<Malformed> all = pointers();
    for (auto& rows : {devices(), sharing()}) all.insert(all.end(), rows.begin(), rows.end());
    return all;
}

}  // namespace tilewright::test
