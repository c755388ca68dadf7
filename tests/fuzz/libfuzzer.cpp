// The entry for clang's libFuzzer, which chooses the bytes by coverage.
#include "fuzz/target.h"

#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const tilewright::fuzz::Outcome outcome = tilewright::fuzz::fuzz({data, size});
    if (outcome.failure.empty()) return 0;
    std::fprintf(stderr, "%s\n%s\n", outcome.call.c_str(), outcome.failure.c_str());
    std::abort();
}
