// Packed weights: of another version, for other activations, in the wrong place, of the wrong size.
#include "formats/recipe_of.h"
#include "problem/malformed.h"

namespace tilewright::test {
namespace {

/// The sample's weights, packed.
PackedWeights packed(const Problem& p, PackedFor activations) {
    const Dims& shape = p.b.values.shape;
    const bool grouped = shape.rank() == 3;
    const Tensor memory = placed(Format::ue8m0, {1 << 20});
    return {.data = memory.data,
            .bytes = 1 << 20,
            .version = packed_version,
            .recipe = recipe_of(p.b),
            .activations = activations,
            .grouped = grouped,
            .groups = grouped ? shape[0] : 1,
            .n = shape[shape.rank() - 2],
            .k = shape[shape.rank() - 1],
            .tensor_scales = p.b.tensor_scale.given() ? 1 : 0};
}

Malformed with(const char* mistake, const SampleSpec& spec, const std::function<void(Problem&)>& make,
               std::vector<std::string> messages) {
    return {.mistake = mistake,
            .spec = spec,
            .make =
                [make](Problem& p) {
                    p.b = {.packed = packed(p, PackedFor::fp8)};
                    make(p);
                },
            .messages = std::move(messages)};
}

/// A call that a Hopper GPU refuses, whatever the memory.
Malformed on_hopper(const char* mistake, const SampleSpec& spec, const std::function<void(Problem&)>& make,
                    std::vector<std::string> messages) {
    Malformed malformed = with(mistake, spec, make, std::move(messages));
    malformed.backend = Backend::hopper;
    malformed.check = Check::shapes;
    return malformed;
}

/// Weights that are packed at each call.
Malformed unpacked(const char* mistake, const SampleSpec& spec, const std::function<void(Problem&)>& make,
                   std::vector<std::string> messages) {
    return {.mistake = mistake,
            .spec = spec,
            .make = make,
            .messages = std::move(messages),
            .backend = Backend::hopper,
            .check = Check::shapes};
}

}  // namespace

std::vector<Malformed> malformed_packed() {
    const SampleSpec spec{.recipe = "1x128:mxfp4"};
    return {
        with("packed by another version", spec, [](Problem& p) { p.b.packed.version = 7; },
             {"b.packed: got layout version 7; expected version 3. Pack the weights again with this version of "
              "Tilewright."}),
        with("packed for other activations", spec, [](Problem& p) { p.b.packed.activations = PackedFor::bf16; },
             {"b.packed: got weights packed for bf16 activations; expected weights packed for fp8 activations, because "
              "a is 1x128. Pack "
              "the weights again for these activations."}),
        with("packed for fp8, multiplied with bf16", {.recipe = "bf16:mxfp4"}, [](Problem&) {},
             {"b.packed: got weights packed for fp8 activations; expected weights packed for bf16 activations, because "
              "a is bf16. Pack "
              "the weights again for these activations."}),
        with("packed of another k", spec, [](Problem& p) { p.b.packed.k = 256; },
             {"b.values: got [256, 256]; expected [256, 512] for dense nt. k is 512 in a.values."}),
        with("packed for groups that the call has not", {.grouping = Grouping::batched, .recipe = "1x128:mxfp4"},
             [](Problem& p) { p.b.packed.groups = 3; },
             {"b.values: got [3, 256, 512]; expected [4, 256, 512] for batched nt. The number of groups is 4 in "
              "a.values."}),
        with("packed in a layout of other weights", {.layout = Layout::nn, .recipe = "1x128:row"},
             [](Problem& p) {
                 p.b.packed.recipe = {Format::e2m1, Granularity::block_1x32, Format::ue8m0};
                 p.b.packed.n = 256;
                 p.b.packed.k = 512;
             },
             {"b.packed: got packed weights with layout nn; expected layout nt or tt. Packed weights are [n, k]."}),
        with("packed without memory", spec, [](Problem& p) { p.b.packed.data = nullptr; },
             {"b.packed: got a null pointer; expected memory for packed weights."}),
        with("packed next to values", spec, [](Problem& p) { p.b.values = p.a.values; },
             {"b.packed: got packed weights together with values or scales; expected only one of them."}),
        with("D in the packed bytes", spec,
             [](Problem& p) { p.d.data = static_cast<std::byte*>(p.b.packed.data) + (1 << 19); },
             {"d: got memory that overlaps b.packed; expected separate memory."}),
        with("packed activations", spec, [](Problem& p) { p.a.packed = p.b.packed; },
             {"a: got packed weights; expected activations. Pass packed weights as b."}),
        unpacked("weights that are not packed, of groups of k on a GPU",
                 {.grouping = Grouping::k_grouped, .recipe = "1x128:mxfp4"}, [](Problem&) {},
                 {"groups.grouping: got k_grouped; expected a dense, batched or m-grouped call with FP4 weights on a "
                  "Hopper GPU. Copy the tensors to the host and use the CPU backend."}),
        unpacked("weights that are packed along n, on a GPU", {.layout = Layout::nn, .recipe = "row:mxfp4"},
                 [](Problem&) {},
                 {"b.values: got mxfp4 values contiguous along n; expected values contiguous along k on a Hopper GPU. "
                  "Copy the tensors to the host and use the CPU backend."}),
        unpacked("weights with more rows than kernels that pack count",
                 {.recipe = "tensor:mxfp4", .n = (std::int64_t{1} << 30) + 64, .k = 32}, [](Problem&) {},
                 {"b.values: got [1073741888, 32]; expected at most 2^30 rows of all groups, columns, and tiles of 64 "
                  "x 128 on a Hopper GPU. Pack them in parts with pack_weights."}),
        on_hopper(
            "f16 activations next to packed weights on a GPU", {.recipe = "f16:mxfp4"},
            [](Problem& p) { p.b.packed.activations = PackedFor::bf16; },
            {"a: got f16; expected bf16, nvfp4, mxfp4, or fp8 with tensor, row, 1x128 or 1x32 scales for mxfp4 weights "
             "on a Hopper GPU. Pass it as bf16, or copy the tensors to the host and use the CPU backend."}),
        on_hopper(
            "bf16 rows at no multiple of 16 bytes", {.recipe = "bf16:nvfp4"},
            [](Problem& p) {
                p.b.packed.activations = PackedFor::bf16;
                p.a.values.strides[0] = 516;
            },
            {"a.values.strides: got [516, 1] of bf16; expected strides in multiples of 16 bytes below 2^40, except "
             "along k, on a Hopper GPU. Copy it, or copy the tensors to the host and use the CPU backend."}),
        on_hopper("bf16 contiguous along m", {.layout = Layout::tt, .recipe = "bf16:nvfp4"},
                  [](Problem& p) { p.b.packed.activations = PackedFor::bf16; },
                  {"a.values: got bf16 values contiguous along m; expected values contiguous along k on a Hopper GPU. "
                   "Copy them, or copy the tensors to the host and use the CPU backend."}),
        unpacked("bf16 contiguous along m next to weights that are not packed",
                 {.layout = Layout::tt, .recipe = "bf16:mxfp4"}, [](Problem&) {},
                 {"a.values: got bf16 values contiguous along m; expected values contiguous along k on a Hopper GPU. "
                  "Copy them, or copy the tensors to the host and use the CPU backend."}),
        unpacked("MXFP4 weights that are packed along n next to bf16, on a GPU",
                 {.layout = Layout::nn, .recipe = "bf16:mxfp4"}, [](Problem&) {},
                 {"b.values: got mxfp4 values contiguous along n; expected values contiguous along k on a Hopper GPU. "
                  "Copy the tensors to the host and use the CPU backend."}),
        unpacked("MXFP4 weights that are not packed next to bf16, of groups of k on a GPU",
                 {.grouping = Grouping::k_grouped, .recipe = "bf16:mxfp4"}, [](Problem&) {},
                 {"groups.grouping: got k_grouped; expected a dense, batched or m-grouped call with FP4 weights on a "
                  "Hopper GPU. Copy the tensors to the host and use the CPU backend."}),
        unpacked("NVFP4 weights that are packed along n, on a GPU", {.layout = Layout::nn, .recipe = "nvfp4:nvfp4"},
                 [](Problem&) {},
                 {"b.values: got nvfp4 values contiguous along n; expected values contiguous along k on a Hopper GPU. "
                  "Copy the tensors to the host and use the CPU backend."}),
    };
}

}  // namespace tilewright::test
