// The environment variables that Tilewright reads, all of them:
//   TILEWRIGHT_CACHE_DIR              where compiled kernels are kept; default $XDG_CACHE_HOME/tilewright or
//                                     ~/.cache/tilewright
//   HOME, XDG_CACHE_HOME, VIRTUAL_ENV  with their usual meaning
#pragma once

#include <string>

namespace tilewright::cuda {

struct Environment {
    std::string cache_directory{};      // empty when neither the variable nor a home is known
    std::string virtual_environment{};  // of Python; empty outside one
};

Environment read_environment();

}  // namespace tilewright::cuda
