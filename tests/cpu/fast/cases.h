// What the tests of the fast backend share: its levels and multipliers, and cases of a size that is quick to judge.
#pragma once

#include "check/case.h"
#include "check/gates.h"
#include "check/random.h"
#include "cpu/blas.h"
#include "cpu/fast/fast.h"

#include <string>
#include <vector>

namespace tilewright::test {

inline std::vector<cpu::Isa> levels() {
    std::vector<cpu::Isa> list;
    for (cpu::Isa isa : {cpu::Isa::baseline, cpu::Isa::avx2, cpu::Isa::avx512}) {
        if (isa <= cpu::best_isa()) list.push_back(isa);
    }
    return list;
}

/// Every way to run `fast` on this machine.
inline std::vector<cpu::FastOptions> ways() {
    std::vector<cpu::FastOptions> list;
    for (cpu::Isa isa : levels()) {
        list.push_back({.isa = isa, .multiplier = cpu::Multiplier::built_in});
        if (cpu::blas_found()) list.push_back({.isa = isa, .multiplier = cpu::Multiplier::openblas});
    }
    return list;
}

inline std::string text(const cpu::FastOptions& options) {
    const char* const names[] = {"baseline", "avx2", "avx512"};
    return std::string(names[static_cast<int>(*options.isa)]) +
           (options.multiplier == cpu::Multiplier::openblas ? ", openblas" : ", built in");
}

/// Runs and judges; empty if all gates pass.
inline std::string failure(check::Case& test_case, const cpu::FastOptions& options) {
    test_case.reset_output();
    cpu::run_fast(test_case.geometry(), options);
    const check::Judgement judgement = check::judge(test_case);
    if (judgement.pass()) return {};
    return check::describe(test_case.spec()) + " (" + text(options) + ")\n" + judgement.text();
}

inline bool is_packed(const Recipe& recipe) {
    return recipe.a.values == Format::e2m1 || recipe.b.values == Format::e2m1;
}

}  // namespace tilewright::test
