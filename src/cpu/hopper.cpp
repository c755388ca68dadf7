#include "cpu/backend.h"
#include "cpu/reference.h"

namespace tilewright::cpu {

void run_hopper(const Geometry& geometry, int) { run_reference(geometry); }

}  // namespace tilewright::cpu
