#include "cli/name_filter.h"

#include <fmt/format.h>

#include <regex>

#include "cli/commands.h"

namespace tilewright::cli {
namespace {

std::regex pattern(const std::string& option, const std::string& text) {
    try {
        return std::regex(text);
    } catch (const std::regex_error&) {
        throw UsageError(fmt::format("{}: got '{}'; expected a regular expression (ECMAScript)", option, text));
    }
}

}  // namespace

std::function<bool(const std::string&)> name_filter(const std::string& include, const std::string& exclude) {
    const std::regex wanted = pattern("--include", include);
    const std::regex unwanted = pattern("--exclude", exclude);
    const bool excludes = !exclude.empty();
    return [=](const std::string& name) {
        return std::regex_search(name, wanted) && !(excludes && std::regex_search(name, unwanted));
    };
}

}  // namespace tilewright::cli
