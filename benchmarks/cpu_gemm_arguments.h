// The command line of cpu_gemm.
#pragma once

#include "cpu/fast/fast.h"

#include <omp.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tilewright::benchmark {

struct Arguments {
    std::vector<std::string> recipes{"tensor:tensor",
                                     "row:row",
                                     "1x128:128x128",
                                     "1x128:1x128",
                                     "1x128.ue8m0:128x128.ue8m0",
                                     "e5m2.1x128:e5m2.128x128",
                                     "mxfp8:mxfp8",
                                     "e5m2.1x32:e5m2.1x32",
                                     "mxfp8:mxfp4",
                                     "1x128:mxfp4",
                                     "mxfp4:mxfp4",
                                     "nvfp4:nvfp4",
                                     "bf16:mxfp4",
                                     "bf16:nvfp4",
                                     "bf16:bf16",
                                     "f16:f16",
                                     "f32:f32"};
    std::vector<std::int64_t> rows{1, 32, 512};
    double seconds = 0.6;
    cpu::FastOptions options{.threads = omp_get_max_threads()};
    bool memory_only = false;
    bool json = false;
};

/// Ends the program with a message and exit code 2.
[[noreturn]] void fail(const std::string& text);

/// Ends the program after --help, and where the words make no sense.
Arguments parse(int count, char** words);

}  // namespace tilewright::benchmark
