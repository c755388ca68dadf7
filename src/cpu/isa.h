// The vector instructions of this CPU. Hot files are compiled once per level (tilewright_isa_sources in
// src/cpu/CMakeLists.txt) into the namespace TILEWRIGHT_ISA. Calls go through a table that `best_isa` selects.
#pragma once

namespace tilewright::cpu {

enum class Isa { baseline, avx2, avx512 };

/// The best level that this CPU has and this build contains.
Isa best_isa();

}  // namespace tilewright::cpu
