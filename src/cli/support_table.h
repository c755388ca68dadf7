// Which calls a Hopper GPU serves, and which of them wait for a compiler: what `tilewright support` prints.
#pragma once

#include <tilewright/problem.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tilewright::cli {

enum class Support : std::uint8_t {
    none,         // The pair is not a recipe, or the call has no such layout.
    cpu,          // On the CPU only.
    compiled,     // On a Hopper GPU, by a kernel that NVRTC compiles on first use.
    partly,       // Precompiled for some sizes, compiled on first use for others.
    precompiled,  // The library has every kernel that typical sizes run.
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

/// Recipes that a Hopper GPU runs in the same calls: each of the groupings with each of the layouts, and in no others.
struct SupportRule {
    std::string title{};
    std::vector<Recipe> recipes{};
    std::vector<std::string> families{};  // the groupings in words: dense, batched, m-grouped, k-grouped
    std::vector<Grouping> groupings{};
    std::vector<Layout> layouts{};
};

/// Each recipe of the tables that a Hopper GPU runs is in one of them.
std::vector<SupportRule> support_rules();

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
