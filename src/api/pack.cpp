// Packing weights, wherever they are: checked, then done on the CPU or lowered to kernels.
#include <tilewright/error.h>
#include <tilewright/packed.h>
#include <tilewright/quantize.h>

#include <string>

#include "cuda/weight_packing.h"
#include "formats/quantize_check.h"
#include "formats/quantize_cpu.h"
#include "launch/weight_packing.h"

namespace tilewright {
namespace {

bool is_on_gpu(const Operand& weights) { return weights.values.device.kind == DeviceId::Kind::cuda; }

void require(bool holds, Finding finding) {
    if (!holds) throw Error({std::move(finding)});
}

void check_for_gpu(const Operand& weights) {
    if (std::vector<Finding> findings = formats::check_packable(weights); !findings.empty())
        throw Error(std::move(findings));
    const std::string served = launch::unserved_by_packing(weights);
    require(served.empty(), {.operand = "weights.values",
                             .given = to_string(weights.values.shape),
                             .expected = served + " on a GPU",
                             .advice = "pack on the host"});
}

void check_host(const Operand& weights) {
    require(!is_on_gpu(weights), {.operand = "weights.values",
                                  .given = formats::memory_of(weights.values.device),
                                  .expected = "host memory, because out was not passed",
                                  .advice = "allocate packed_bytes(weights) bytes on the GPU and pass them as out"});
}

}  // namespace

std::int64_t packed_bytes(const Operand& weights, PackedFor activations) {
    if (!is_on_gpu(weights)) return formats::packed_bytes_on_cpu(weights, activations);
    check_for_gpu(weights);
    return cuda::packed_bytes(weights, activations);
}

PackedWeights pack_weights(const Operand& weights, PackedFor activations, void* out, std::int64_t bytes,
                           const ConversionOptions& how) {
    if (!is_on_gpu(weights)) return formats::pack_on_cpu(weights, activations, out, bytes, how);
    check_for_gpu(weights);
    return cuda::pack_weights(weights, activations, out, bytes, how.stream);
}

OwnedPackedWeights pack_weights(const Operand& weights, PackedFor activations, const ConversionOptions& how) {
    check_host(weights);
    return formats::pack_on_cpu(weights, activations, how);
}

OwnedPackedWeights pack_weights(const Operand& weights, PackedFor activations) {
    return pack_weights(weights, activations, {});
}

}  // namespace tilewright
