#include "cuda/environment.h"

#include <cstdlib>

namespace tilewright::cuda {
namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

}  // namespace

Environment read_environment() {
    Environment environment{.cache_directory = variable("TILEWRIGHT_CACHE_DIR"),
                            .virtual_environment = variable("VIRTUAL_ENV")};
    if (!environment.cache_directory.empty()) return environment;
    if (const std::string base = variable("XDG_CACHE_HOME"); !base.empty()) {
        environment.cache_directory = base + "/tilewright";
    } else if (const std::string home = variable("HOME"); !home.empty()) {
        environment.cache_directory = home + "/.cache/tilewright";
    }
    return environment;
}

}  // namespace tilewright::cuda
