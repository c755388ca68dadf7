// The share of a test's cases that runs. Sanitizers look at memory, which the cases of one kind use in the same way,
// and make each of them many times slower. Without sanitizers, all cases run.
#pragma once

#include <algorithm>

namespace tilewright::tests {

inline constexpr bool sanitizes = TILEWRIGHT_SANITIZES != 0;

/// Takes every case, but only every `step`-th under sanitizers. A step that is prime to the counts of the inner loops
/// takes each of their values in turns.
class Sample {
public:
    explicit Sample(int step) : step_(step) {}
    bool takes_next() { return !sanitizes || count_++ % step_ == 0; }

private:
    int step_;
    int count_ = 0;
};

/// `count` cases, or one `step`-th of them under sanitizers.
constexpr int sampled(int count, int step) { return sanitizes ? std::max(1, count / step) : count; }

}  // namespace tilewright::tests
