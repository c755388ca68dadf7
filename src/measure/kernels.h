// The small kernels that measuring needs, as PTX. The driver itself compiles them, so no compiler needs to be
// installed.
#pragma once

#include <string>

namespace tilewright::measure {

/// The PTX of all kernels:
/// - fill_words(to, 16-byte vectors, value);
/// - read_words(from, 16-byte vectors, never written);
/// - read_clocks(per SM: cycles, ns);
/// - hash_words(from, 4-byte words, sum): adds a hash of words and their positions, the same in any order.
const std::string& kernels_ptx();

}  // namespace tilewright::measure
