// A call of the matrix, made of the words of its line and of the kernel that runs it.
#pragma once

#include "emulator/kernel_case.h"
#include "emulator/matrix.h"

#include <string_view>

namespace tilewright::tests {

/// Changes of a call's operands after they are drawn (changed_data.h).
struct ChangedData {
    bool special_scales = false;  // 0, NaN, infinity and subnormal numbers among the scales of both operands
    bool special_c = false;       // the same in C, which is f32; sums of zeros
    bool special_bias = false;    // the same in a bias of f32
    unsigned any_tokens = 0;      // bits of A's bf16 that are random; 0: none
};

struct RowCall {
    check::CaseSpec spec;
    Conditions run;
    ChangedData data;
    bool prepares = false;         // the call writes a workspace first
    bool packs = false;            // weights are packed in advance
    bool counts_products = false;  // wgmmas are as many as the rows of D need
    bool copies_scales = false;    // TMA cannot load A's scales
};

/// matrix/README.md has the words and their defaults. `number` counts the calls of a kernel: the conditions that a line
/// does not give take turns with it.
RowCall call_of(const KernelRow& kernel, const CallRow& call, int number);

/// The call of a line with these words, for tests that change it.
check::CaseSpec spec_of(const KernelRow& kernel, std::string_view words);

}  // namespace tilewright::tests
