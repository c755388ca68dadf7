// Debian 12's static libstdc++ has std::random_device, which nobody here uses, call arc4random, which glibc 2.36 was
// the first to have. With this one the program and the Python extension start on glibc 2.35 (Ubuntu 22.04) too.
#include <sys/random.h>

extern "C" __attribute__((visibility("hidden"))) unsigned int arc4random() noexcept {
    unsigned int value = 0;
    while (getrandom(&value, sizeof value, 0) != sizeof value) {
    }
    return value;
}
