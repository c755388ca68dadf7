// `tilewright support`: which recipes, groupings and layouts run on a Hopper GPU, and which kernels are precompiled.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/support_table.h"
#include "output/streams.h"

namespace tilewright::cli {
namespace {

struct SupportArguments {
    bool is_short = false;
    bool markdown = false;
};

std::string short_text(bool as_markdown) {
    std::string text = support_legend();
    for (const SupportTable& table : short_support())
        text += fmt::format("\n{}\n\n{}", table.note, as_markdown ? markdown(table) : aligned_text(table));
    return text;
}

std::string full_text(bool as_markdown) {
    std::string text = support_legend() + "\n";
    for (const SupportTable& table : all_support()) {
        text += fmt::format("\n{}{}\n\n{}\n\n{}", as_markdown ? "## " : "", table.title, table.note,
                            as_markdown ? markdown(table) : aligned_text(table));
    }
    return text;
}

}  // namespace

void add_support(CLI::App& program) {
    CLI::App* command =
        program.add_subcommand("support", "Which recipes, groupings and layouts run where; which kernels compile");
    command->footer(
        "Needs no GPU. A symbol is computed for typical sizes on an H100 and an H200; `tilewright explain` answers for "
        "one call.\n\n"
        "Examples:\n"
        "  tilewright support\n"
        "  tilewright support --short");
    const auto arguments = std::make_shared<SupportArguments>();
    command->add_flag("--short", arguments->is_short, "Print only the recipes, and one table of groupings and layouts");
    command->add_flag("--markdown", arguments->markdown, "Print Markdown tables, as in docs/support.md");
    command->callback([arguments] {
        const auto text = arguments->is_short ? short_text : full_text;
        output::print_text(text(arguments->markdown));
    });
}

}  // namespace tilewright::cli
