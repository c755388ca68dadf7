// Scale factors by ordinary loads, in any strides and formats.
#pragma once

#include "formats/codec.h"
#include "hopper/arguments.h"
#include "hopper/ptx/ptx.h"

namespace tilewright::hopper {

TILEWRIGHT_DEVICE float load_scale(const ScaleView& view, i64 index) {
    if (view.format == ScaleFormat::f32) return load_global(static_cast<const float*>(view.data) + index);
    return formats::decode_ue8m0(load_global(static_cast<const u8*>(view.data) + index));
}

/// The scale of a row block and a k block: 0 outside of the operand, 1 for an operand without scales.
TILEWRIGHT_DEVICE float scale_at(const ScaleView& view, int batch, int row, int k_block) {
    if (view.data == nullptr) return 1;
    if (row >= view.rows || k_block >= view.k_blocks) return 0;
    return load_scale(view, batch * view.batch_stride + row * view.row_stride + k_block * view.k_stride);
}

}  // namespace tilewright::hopper
