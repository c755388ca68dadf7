// Quantizers of MXFP8, MXFP4 and NVFP4, whose scales are shared by 32 or 16 elements of k
// (hopper/quantize/short_blocks.h). NVFP4 is four launches, because its tensor scale is found first. The others are
// one.
#pragma once

#include "launch/quantize.h"

namespace tilewright::launch {

constexpr bool has_short_blocks(Granularity granularity) {
    return granularity == Granularity::block_1x32 || granularity == Granularity::block_1x16;
}

/// Like `lower` and `unserved` of quantize.h, for operands with short blocks.
std::vector<OtherLaunch> lower_short_blocks(const Tensor& source, const Operand& out, bool round_up);
std::string unserved_short_blocks(const Tensor& source);

}  // namespace tilewright::launch
