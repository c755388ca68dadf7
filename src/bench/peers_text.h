// The files of benchmarks/peers as text, embedded by CMake.
#pragma once

namespace tilewright::bench {

extern const char* const peers_text;            // h200.jsonl
extern const char* const ragged_peers_text;     // h200_ragged.jsonl
extern const char* const sustained_peers_text;  // h200_sustained.jsonl

}  // namespace tilewright::bench
