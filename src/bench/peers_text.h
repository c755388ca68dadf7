// benchmarks/peers/h200.jsonl as text, embedded by CMake.
#pragma once

namespace tilewright::bench {

extern const char* const peers_text;

}  // namespace tilewright::bench
