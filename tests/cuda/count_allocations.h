// How often this thread has asked for memory.
#pragma once

namespace tilewright::test {

long allocations();

}  // namespace tilewright::test
