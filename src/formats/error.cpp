// The texts of findings and of the exception that carries them.
#include <tilewright/error.h>

#include <algorithm>
#include <utility>

namespace tilewright {
namespace {

std::string joined(const std::vector<Finding>& findings) {
    std::string text;
    for (const Finding& finding : findings) text += (text.empty() ? "" : "\n") + finding.message();
    return text;
}

}  // namespace

/// The word "expected" goes in front of what the expectation is for.
std::string Finding::message() const {
    const std::size_t reason = std::min(expected.find(" for "), expected.size());
    std::string text = operand + ": " + given + " given, " + expected.substr(0, reason) + " expected" +  //
                       expected.substr(reason);
    if (!advice.empty()) text += "; " + advice;
    return text;
}

Error::Error(std::vector<Finding> findings) : std::runtime_error(joined(findings)), findings_(std::move(findings)) {}

}  // namespace tilewright
