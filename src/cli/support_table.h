// Which calls a Hopper GPU serves, and which of them wait for a compiler: what `tilewright support` prints.
#pragma once

#include <tilewright/problem.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tilewright::cli {

enum class Support : std::uint8_t {
    none,         // the pair is not a recipe, or the call has no such layout
    cpu,          // on the CPU only
    compiled,     // on a Hopper GPU, by a kernel that NVRTC compiles on first use
    partly,       // precompiled for some sizes
    precompiled,  // every kernel that typical sizes run is in the library
};

/// A recipe, and how its operands are given. FP4 weights are packed where packed weights can be.
struct SupportQuery {
    Recipe recipe{};
    Grouping grouping = Grouping::dense;
    Layout layout = Layout::nt;
    bool packed = true;
};

struct SupportAnswer {
    Support support = Support::none;
    bool has_workspace = false;  // a typical size copies, packs, decodes or expands an operand first
};

/// Follows from `is_accepted`, from `validate` for either backend, and from the kernels that the planner chooses for
/// typical sizes on an H100 and an H200.
SupportAnswer support(const SupportQuery& query);

/// "●", "◐", "○", "c" or nothing.
std::string symbol(Support support);

struct SupportTable {
    std::string title{};
    std::string note{};  // lines of at most 100 columns
    std::vector<std::string> head{};
    std::vector<std::vector<std::string>> rows{};
};

/// The tables of the README, and those of docs/support.md.
std::vector<SupportTable> short_support();
std::vector<SupportTable> all_support();

/// The meaning of the symbols, in lines of at most 100 columns.
std::string support_legend();

std::string markdown(const SupportTable& table);
std::string aligned_text(const SupportTable& table);

}  // namespace tilewright::cli
