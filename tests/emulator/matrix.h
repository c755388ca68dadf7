// The matrix of the emulator's tests: which kernels are compiled for the emulator, and which calls each of them runs.
// It is read from the files of tests/emulator/matrix, whose grammar matrix/README.md has.
#pragma once

#include "hopper/description/kernel.h"

#include "plan/planned_tile.h"

#include <tilewright/problem.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::tests {

using hopper::Groups;

/// How operands reach a kernel, where it does not read them as the caller has them.
enum class Operands : std::uint8_t {
    given,
    packed,    // weights are packed in advance, without wide rows
    wide,      // weights are packed in advance, some rows wide
    unpacked,  // weights are packed by the call
    raw,       // the call packs only what follows the codes
    decoded,   // the call decodes activations or weights; it packs weights of FP4
    expanded,  // weights are packed in advance, the call expands them
};

/// Calls of a kernel with few restrictions and any output, or of one for D of a format by TMA.
enum class Serves : std::uint8_t {
    any,
    bf16,         // with A's scales along m, by TMA
    bf16_copies,  // with A's scales along k by TMA, or any scales by copies
    f32,
};

/// A line of the matrix that names a kernel, for one recipe and one word of what it serves.
struct KernelRow {
    std::string place;                 // "mainloop.txt:12"
    std::vector<std::string> recipes;  // of its calls; the kernel follows from the first
    Groups groups = Groups::none;
    Layout layout = Layout::nt;
    Operands operands = Operands::given;
    bool unpromoted = false;
    bool every_lane = false;  // arrives on barriers
    planner::PlannedTile tile;
    Serves serves = Serves::any;
    std::vector<std::string> calls;  // names of sets
    bool sanitize = false;           // part of the sample that sanitizers run
    std::string text;                // the kernel in words of the matrix, without calls and reason
};

/// A line of the matrix that gives a call: words, of which row_call.h makes a call of a kernel.
struct CallRow {
    std::string place;
    std::vector<std::string> words;
};

struct Matrix {
    std::vector<KernelRow> kernels;
    std::map<std::string, std::vector<CallRow>, std::less<>> calls;  // sets by name
    /// The set of calls of shipped kernels that serve the same, by the word for it.
    std::map<std::string, std::vector<std::string>, std::less<>> shipped;
};

/// All files of the folder. Throws std::invalid_argument with the place of a line that is wrong.
Matrix read_matrix(const std::string& folder);

/// A kernel as a line of the matrix spells it up to its calls: "1x128:128x128 m_grouped | 128x48x128 stages=3 | bf16".
KernelRow parse_kernel(std::string_view text);

std::string_view name(Groups groups);
std::string_view name(Operands operands);
std::string_view name(Serves serves);

}  // namespace tilewright::tests
