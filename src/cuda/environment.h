// All environment variables that Tilewright reads:
//   TILEWRIGHT_CACHE_DIR              folder of compiled kernels; default $XDG_CACHE_HOME/tilewright or
//                                     ~/.cache/tilewright
//   HOME, XDG_CACHE_HOME, VIRTUAL_ENV  with their usual meaning
#pragma once

#include <string>

namespace tilewright::cuda {

struct Environment {
    std::string cache_directory{};      // empty if neither the variable nor a home directory is known
    std::string virtual_environment{};  // of Python; empty outside of one
};

Environment read_environment();

}  // namespace tilewright::cuda
