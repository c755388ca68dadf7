// --include and --exclude: which names are wanted.
#pragma once

#include <functional>
#include <string>

namespace tilewright::cli {

/// Names with a match of `include` and, unless it is empty, none of `exclude`; ECMAScript. Throws UsageError.
std::function<bool(const std::string&)> name_filter(const std::string& include, const std::string& exclude);

}  // namespace tilewright::cli
