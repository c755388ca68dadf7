// What only the GPU cannot do: formats, layouts, sizes, addresses and strides.
#include <bit>
#include <cstdint>

#include "problem/malformed.h"

namespace tilewright::test {
namespace {

void to_gpu(Problem& p) {
    for (Tensor* tensor : {&p.a.values, &p.a.scales, &p.b.values, &p.b.scales, &p.b.tensor_scale, &p.d}) {
        tensor->device = {.kind = DeviceId::Kind::cuda, .index = 0};
    }
}

/// Made on a GPU, where `automatic` means hopper.
Malformed on_gpu(const char* mistake, const SampleSpec& spec, const std::function<void(Problem&)>& make,
                 std::vector<std::string> messages) {
    return {.mistake = mistake,
            .spec = spec,
            .make =
                [make](Problem& p) {
                    to_gpu(p);
                    make(p);
                },
            .messages = std::move(messages)};
}

void unchanged(Problem&) {}

}  // namespace

std::vector<Malformed> malformed_hopper() {
    std::vector<Malformed> list{
        on_gpu("f16 activations next to NVFP4 weights", {.recipe = "f16:nvfp4"}, unchanged,
               {"a: got f16; expected bf16, nvfp4, or fp8 with tensor, row, 1x128 or 1x32 scales for nvfp4 weights on "
                "a Hopper GPU. Pass it as bf16, or copy the tensors to the host and use the CPU backend."}),
        on_gpu("1x128 activations next to NVFP4 weights, of groups of k",
               {.grouping = Grouping::k_grouped, .recipe = "1x128:nvfp4"},
               [](Problem& p) { p.groups.sizes.device = p.d.device; },
               {"groups.grouping: got k_grouped; expected a dense, batched or m-grouped call with FP4 weights on a "
                "Hopper GPU. Copy the tensors to the host and use the CPU backend."}),
        on_gpu("f16 activations next to MXFP4 weights, of groups of k",
               {.grouping = Grouping::k_grouped, .recipe = "f16:mxfp4"},
               [](Problem& p) { p.groups.sizes.device = p.d.device; },
               {"a: got f16; expected bf16, nvfp4, mxfp4, or fp8 with tensor, row, 1x128 or 1x32 scales for mxfp4 "
                "weights on a Hopper GPU. Pass it as bf16, or copy the tensors to the host and use the CPU backend.",
                "groups.grouping: got k_grouped; expected a dense, batched or m-grouped call with FP4 weights on a "
                "Hopper GPU. Copy the tensors to the host and use the CPU backend."}),
        on_gpu("MXFP4 activations next to MXFP8 weights", {.recipe = "mxfp4:mxfp8"}, unchanged,
               {"a: got mxfp4; expected bf16, nvfp4, or fp8 with tensor, row, 1x128 or 1x32 scales for mxfp8 weights "
                "on a Hopper GPU. Quantize it to mxfp8, or copy the tensors to the host and use the CPU backend."}),
        on_gpu("bf16 activations along m next to MXFP8 weights", {.layout = Layout::tt, .recipe = "bf16:mxfp8"},
               unchanged,
               {"a.values: got bf16 values contiguous along m; expected values contiguous along k on a Hopper GPU. "
                "Copy them, or copy the tensors to the host and use the CPU backend."}),
        on_gpu("bf16 rows of 1002 bytes next to MXFP8 weights, which may have any", {.recipe = "bf16:mxfp8", .k = 501},
               unchanged,
               {"a.values.strides: got [501, 1] of bf16; expected strides in multiples of 16 bytes below 2^40, except "
                "along k, on a Hopper GPU. Copy it, or copy the tensors to the host and use the CPU backend."}),
        on_gpu("bf16 weights next to MXFP8 activations", {.recipe = "mxfp8:bf16"}, unchanged,
               {"b: got bf16; expected fp8, mxfp4 or nvfp4 for mxfp8 activations on a Hopper GPU. Copy the tensors to "
                "the host and use the CPU backend."}),
        on_gpu("groups of k with 1x32 scales", {.grouping = Grouping::k_grouped, .recipe = "mxfp8:mxfp8"},
               [](Problem& p) { p.groups.sizes.device = p.d.device; },
               {"groups.grouping: got k_grouped; expected a dense, batched or m-grouped call with 1x32 scales on a "
                "Hopper GPU. Copy the tensors to the host and use the CPU backend."}),
        on_gpu("bf16, for which there is no kernel yet", {.recipe = "bf16:bf16"}, unchanged,
               {"a: got bf16; expected fp8 with tensor, row, 1x128 or 128x128 scales on a Hopper GPU. Quantize it, or "
                "copy the tensors to the host and use the CPU backend.",
                "b: got bf16; expected fp8 with tensor, row, 1x128 or 128x128 scales on a Hopper GPU. Quantize it, or "
                "copy the tensors to the host and use the CPU backend."}),
        on_gpu("a pair that no backend takes", {.recipe = "row:tensor"}, unchanged,
               {"recipe: got row:tensor; expected row:e4m3, row:e5m2, row:row, row:1x32, row:1x16, tensor:tensor, "
                "1x128:tensor, 1x32:tensor or 1x16:tensor."}),
        on_gpu("rows of 1000 bytes", {.k = 1000}, unchanged,
               {"a.values.strides: got [1000, 1] of e4m3; expected strides in multiples of 16 bytes below 2^40, except "
                "along k, on a Hopper GPU. Copy it, or copy the tensors to the host and use the CPU backend.",
                "b.values.strides: got [1000, 1] of e4m3; expected strides in multiples of 16 bytes below 2^40, except "
                "along k, on a Hopper GPU. Copy it, or copy the tensors to the host and use the CPU backend."}),
        on_gpu("k that is not contiguous", {},
               [](Problem& p) {
                   p.a.values.strides = {1024, 2};
               },
               {"a.values.strides: got [1024, 2] of e4m3; expected a stride of 1 along k or m on a Hopper GPU. Copy "
                "it, or copy the tensors to the host and use the CPU backend."}),
        on_gpu("values at an odd address", {},
               [](Problem& p) {
                   p.b.values.data = std::bit_cast<void*>(std::bit_cast<std::uintptr_t>(p.b.values.data) + 8);
               },
               {"b.values: got an address that is 8 modulo 16; expected a multiple of 16 on a Hopper GPU. Copy it to "
                "aligned memory, or copy the tensors to the host and use the CPU backend."}),
        on_gpu("more rows than 32 bits count", {.recipe = "tensor:tensor", .m = std::int64_t{3} << 30, .n = 1, .k = 16},
               unchanged,
               {"d: got [3221225472, 1]; expected sizes of at most 2147482624 on a Hopper GPU. Split the call, or copy "
                "the tensors to the host and use the CPU backend.",
                "a.values: got [3221225472, 16]; expected sizes of at most 2147482624 on a Hopper GPU. Split the call, "
                "or copy the tensors to the host and use the CPU backend."}),
    };
    list.back().check = Check::shapes;  // there is no memory of that size
    return list;
}

}  // namespace tilewright::test
