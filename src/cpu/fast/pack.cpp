// Packing: decodes the rows of a block into micro-panels (or rows along k), and stores their block scales with them.
#include "cpu/fast/macro_kernel.h"

#include <algorithm>
#include <atomic>

namespace tilewright::cpu {

void pack_rows(const Call& call, const PackTask& task, ThreadMemory& memory) {
    PackedBlock& packed = call.blocking.packed_blocks[static_cast<std::size_t>(task.block)];
    const Product& product = call.blocking.products[static_cast<std::size_t>(packed.product)];
    const bool panels = product.method == Method::panels;
    const std::int64_t stride = row_floats(product, call.kernels);
    float* out = call.buffer + packed.offset + task.first_row * stride;
    const float gain = call.kernels.decode_gain(product.row_operand.operand->recipe.values);
    for (std::int64_t k = 0; k < product.k_count; k += decode_k_limit) {
        if (call.cancellation.requested()) return;
        const OperandBlock block{
            .slice = product.row_operand,
            .rows = packed.rows.slice(task.first_row, task.rows),
            .k = k,
            .k_count = static_cast<int>(std::min<std::int64_t>(decode_k_limit, product.k_count - k))};
        if (!fold_scales(block, gain, memory.scales.get(), output_columns)) {
            std::atomic_ref(packed.extreme).store(true, std::memory_order_relaxed);
        }
        DecodeJob job = decode_job(block);
        job.scales = memory.scales.get();
        job.scale_stride = output_columns;
        job.out = panels ? out + k * call.kernels.lanes : out + k;
        job.out_row_stride = panels ? 1 : stride;
        job.out_k_stride = panels ? call.kernels.lanes : 1;
        job.scratch = memory.codes.get();
        call.kernels.decode(job);
        if (!product.scaled) continue;
        const std::int64_t scale_stride = padded_rows(packed, call.kernels);
        float* scales = call.buffer + packed.scale_offset + k / scale_k * scale_stride + task.first_row;
        block_scales(block, scales, static_cast<int>(scale_stride));
    }
    if (panels) return;
    for (int r = 0; r < task.rows; ++r) std::fill(out + r * stride + product.k_count, out + (r + 1) * stride, 0.0F);
}

}  // namespace tilewright::cpu
