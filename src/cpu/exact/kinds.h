// The two kinds of tensor-core step, as parameters of the kernels of one instruction level.
#pragma once

#include "cpu/exact/kernels.h"
#include "cpu/exact/tensor_core_limits.h"
#include "cpu/exact/vector.h"

namespace tilewright::cpu::TILEWRIGHT_ISA {

struct Fp8 {
    static constexpr ExponentCode codes = fp8_codes;
    static constexpr int groups = codes.columns_per_word();  // vectors in a panel
    static constexpr int panel = groups * vector::lanes;
    static constexpr int products = 32;
    static constexpr int kept_below = fp8_adder.kept_below;
    using Code = vector::Bytes;
};

struct Bf16 {
    static constexpr ExponentCode codes = bf16_codes;
    static constexpr int groups = codes.columns_per_word();
    static constexpr int panel = groups * vector::lanes;
    static constexpr int products = 16;
    static constexpr int kept_below = bf16_adder.kept_below;
    using Code = vector::Halves;
};

// codes.cpp
Extent fp8_row_codes(const CodeArguments& s);
Extent bf16_row_codes(const CodeArguments& s);
Extent fp8_panel_codes(const CodeArguments& s);
Extent bf16_panel_codes(const CodeArguments& s);

}  // namespace tilewright::cpu::TILEWRIGHT_ISA
